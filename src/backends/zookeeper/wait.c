/* SPDX-License-Identifier: MIT */
/*
 * Waiting: what a waiter knows of the entries before its own, watches on their ends, and the
 * eviction of an entry that does not respond.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "acquire.h"

/* After the end of an entry that did not hold, the queue shows which one may hold now. */
#define SETTLE_MS 100
/* A waiter behind fewer others watches the suspect, and checks at once whether it responds. */
#define NEAR 8
/* A waiter checks so much less often the more entries are before its own. */
#define FAR 100
#define FAR_MOST 12

/* ---- what is known of the queue ---- */

static void set_text(char **text, const char *value)
{
	free(*text);
	*text = memory_copy(value);
}

/* The suspect could hold from now on, unless this was known before. */
static void set_suspect(struct zk_own *own, const char *name)
{
	if (own->suspect && !strcmp(own->suspect, name))
		return;
	set_text(&own->suspect, name);
	own->suspect_ms = clock_boot_ms();
	own->suspect_holds = false;
}

/*
 * Set when to check the suspect. A long queue is no load for the server: the 10,000th waiter checks
 * once a minute. Near the head, a waiter also needs contacts for zk_conn_lease().
 */
static void schedule_check(struct zk_backend *zk)
{
	struct zk_own *own = &zk->own;
	const int64_t now = clock_boot_ms();
	const int64_t pause_ms = hold_look_at(-1, false, false) - now;
	const int64_t factor = own->ahead / FAR < 1 ? 1 : own->ahead / FAR > FAR_MOST ? FAR_MOST
			       : own->ahead / FAR;

	own->look_ms = now + clock_earlier(pause_ms, zk->conn.ttl_ms / 4) * factor;
	if (!own->suspect_holds && own->waiting < NEAR)
		own->look_ms = clock_earlier(own->look_ms, own->suspect_ms + HOLD_LATE_MS);
}

/* Watch the end of an entry, unless it is watched. */
static void add_watch(struct zk_own *own, const char *name)
{
	struct zk_watched *unused = NULL;

	for (int i = 0; i < ZK_WATCHED; i++) {
		if (!own->watched[i].name)
			unused = &own->watched[i];
		else if (!strcmp(own->watched[i].name, name))
			return;
	}
	if (unused)
		*unused = (struct zk_watched){ memory_copy(name), 0 };
}

/* Remember what the queue says of the entries before ours, whose index is me. */
static void remember(struct zk_own *own, const struct zk_entry *entries, ptrdiff_t me)
{
	const ptrdiff_t nearest = zk_entries_blocker(entries, me);
	const ptrdiff_t second = nearest < 0 ? -1 : zk_entries_blocker(entries, nearest);
	ptrdiff_t next = 0;

	while (next < me && zk_entries_blocker(entries, next) < 0)
		next++;
	/*
	 * When our entry was made, those behind last_free were blocked. So they were when they were
	 * made, and write ZK_HELD before they hold.
	 */
	if (!own->was_read && next)
		own->last_free = entries[next - 1].number;
	own->was_read = true;
	own->ahead = me;
	own->waiting = me - next;
	own->blocked = nearest >= 0;
	own->slot = entries[me].mode == HOLD_SLOT;
	own->other_slots = zk_entries_disagree(entries, me);
	own->any = own->slot && own->waiting < 2;
	own->turn = own->stale = false;
	if (!own->blocked)
		return;
	set_text(&own->nearest, entries[nearest].name);
	set_suspect(own, entries[next - 1].name);
	set_text(&own->next, next == 1 && next < me ? entries[next].name : NULL);
	zk_watch_forget(own);
	if (own->any)
		return;
	add_watch(own, own->nearest);
	if (second >= 0)
		add_watch(own, entries[second].name);
	if (own->waiting < NEAR && !own->slot)
		add_watch(own, own->suspect);
}

int zk_wait_read(struct zk_backend *zk, struct zk_call *names, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_queue queue;
	ptrdiff_t me;

	if (zk_queue_read(&zk->conn, own->directory, names, &queue, err))
		return -1;
	me = zk_queue_find_uuid(&queue, own->uuid);
	if (me >= 0) {
		zk_queue_pair(&queue, me, own->directory, &own->at);
		remember(own, queue.entries, me);
		schedule_check(zk);
	}
	zk_queue_finish(&queue);
	return me < 0 ? zk_own_gone(zk, err) : 0;
}

/* ---- the ends of others ---- */

void zk_wait_ended(struct zk_own *own, struct zk_watched *watched)
{
	char *name = watched->name;

	*watched = (struct zk_watched){ .name = NULL };
	if (own->slot) {
		own->stale = true;
	} else if (!strcmp(name, own->nearest)) {
		own->turn = true;
	} else if (own->suspect && own->next && !strcmp(name, own->suspect)) {
		set_suspect(own, own->next);
		set_text(&own->next, NULL);
		own->look_ms = own->suspect_ms + HOLD_LATE_MS;
	} else {
		/* Those between the suspect and this one have probably ended as well. */
		set_text(&own->suspect, NULL);
		own->look_ms = clock_boot_ms() + SETTLE_MS;
	}
	free(name);
}

/* The replies to the requests for watches. 1: try to hold again; 0; -1 with *err. */
static int take_watches(struct zk_backend *zk, struct zk_call *calls[static ZK_WATCHED],
			struct error *err)
{
	struct zk_own *own = &zk->own;

	for (int i = 0; i < ZK_WATCHED; i++) {
		if (!calls[i] || calls[i]->rc == ZOK || !own->watched[i].name)
			continue;
		if (calls[i]->rc != ZNONODE)
			return zk_call_error(&zk->conn, calls[i]->rc, "watch",
					     own->watched[i].name, err);
		zk_wait_ended(own, &own->watched[i]);
	}
	return own->turn || own->stale;
}

int zk_wait_watch(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *calls[ZK_WATCHED] = { NULL }, *set = NULL, *watch = NULL;
	char text[ZK_RECORD_SIZE], path[ZK_PATH_SIZE];
	int result;

	if (own->state != ZK_WAITING) {
		zk_record_write(text, NULL, ZK_WAITING, 0, request->text);
		set = zk_set(&zk->conn, own->at.node, text, own->version);
	}
	if (!own->watch) {
		own->watch = ++zk->conn.last_watch;
		watch = zk_list(&zk->conn, own->at.node, own->watch);
	}
	for (int i = 0; i < ZK_WATCHED; i++)
		if (own->watched[i].name && !own->watched[i].number) {
			own->watched[i].number = ++zk->conn.last_watch;
			zk_node_path(own->directory, own->watched[i].name, path);
			calls[i] = zk_list(&zk->conn, path, own->watched[i].number);
		}
	result = zk_conn_wait(&zk->conn);
	if (result)
		result = zk_own_failed(zk, result, "wait at", err);
	else if (watch && watch->rc == ZNONODE)
		result = zk_own_gone(zk, err);
	else if (!set || !zk_own_written(zk, set, ZK_WAITING, err))
		result = take_watches(zk, calls, err);
	else
		result = -1;
	if (result < 0) {
		own->watch = 0;
		zk_watch_forget(own);
	}
	zk_call_free(set);
	zk_call_free(watch);
	for (int i = 0; i < ZK_WATCHED; i++)
		zk_call_free(calls[i]);
	return result;
}

/* ---- an entry that could hold, and does not ---- */

/* Evict the suspect if its data has not changed. 1, or -1 with *err. */
static int evict_suspect(struct zk_backend *zk, int32_t version, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_queue queue;
	struct zk_pair pair;
	ptrdiff_t i;
	int rc = ZOK;

	if (zk_queue_fetch(&zk->conn, own->directory, false, &queue, err))
		return -1;
	i = zk_queue_find(&queue, own->suspect);
	if (i >= 0 && zk_entries_blocker(queue.entries, i) < 0) {
		zk_queue_pair(&queue, i, own->directory, &pair);
		rc = zk_call_end(zk_delete_pair(&zk->conn, &pair, version));
	}
	zk_queue_finish(&queue);
	if (rc == ZK_UNANSWERED)
		return zk_call_error(&zk->conn, rc, "remove", own->suspect, err);
	/* Where the ACL does not let us remove it, its session has to end. */
	own->suspect_holds = rc != ZOK && rc != ZBADVERSION;
	return 1;
}

int zk_wait_check(struct zk_backend *zk, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_entry entry = { .number = 0 };
	struct zk_record record;
	struct zk_call *data;
	char path[ZK_PATH_SIZE];
	int32_t version;
	int rc;

	if (!own->suspect)
		return 1;
	zk_node_path(own->directory, own->suspect, path);
	data = zk_get(&zk->conn, path, 0);
	rc = zk_call_wait(data);
	if (rc == ZOK)
		zk_record_read(&record, data->text, data->length, "");
	version = data->stat.version;
	zk_call_free(data);
	if (rc == ZNONODE && own->waiting < NEAR)
		return 1;
	if (rc != ZOK && rc != ZNONODE)
		return zk_call_error(&zk->conn, rc, "read", own->directory, err);
	if (rc == ZNONODE) {
		/* Far behind, this is one request for each check: the queue is read next time. */
		set_text(&own->suspect, NULL);
		schedule_check(zk);
		return 0;
	}
	zk_entry_parse(&entry, own->suspect);
	own->suspect_holds |= record.state != ZK_WAITING &&
			      (record.state != ZK_NEW ||
			       zk_number_compare(entry.number, own->last_free) <= 0);
	if (!own->suspect_holds && clock_boot_ms() - own->suspect_ms >= HOLD_LATE_MS)
		return evict_suspect(zk, version, err);
	/* The end of a holder that has followed another one is not watched yet. */
	if (own->suspect_holds && !own->slot && own->waiting < NEAR)
		add_watch(own, own->suspect);
	schedule_check(zk);
	return 0;
}
