/* SPDX-License-Identifier: MIT */
/*
 * Strategy queue: our entry, a waiter's record of the entries before its own, watches on their
 * ends, the eviction of an entry that does not respond, and one try to hold. Functions that return
 * int return 0, or -1 and set *err, unless their comment has more.
 *
 * Strategy node: the lock is one ephemeral node, <root>/<name>, and its maker holds it. All others
 * watch it and try when it ends, so there is a herd and no order. There are only exclusive holds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "lock.h"

/*
 * A holder that did not wait sets the watch on its own node after this time. Until then its command
 * starts without a request in its way, and many commands end before that.
 */
#define WATCH_AFTER_MS 20

/* Read the queue this long after another entry has ended, and once for all that end until then. */
#define REREAD_MS 100
/* A waiter with fewer others before it watches the suspect, and checks early that it responds. */
#define NEAR 8
/* The first waiters for a slot watch the directory. */
#define NEAR_SLOT 2
/* Each FAR entries before its own make a waiter check that much less often, up to FAR_MOST. */
#define FAR 100
#define FAR_MOST 12

/* ---- the end of our entry ---- */

static void forget_watched(struct zk_watched *watched)
{
	free(watched->name);
	*watched = (struct zk_watched){ .name = NULL };
}

static void clear_watches(struct zk_own *own)
{
	for (int i = 0; i < ZK_WATCHED; i++)
		forget_watched(&own->watched[i]);
	forget_watched(&own->suspect);
}

static void clear_own(struct zk_own *own)
{
	clear_watches(own);
	*own = (struct zk_own){ .held = false };
}

void zk_own_leave(struct zk_backend *zk)
{
	zk_conn_close(&zk->conn);
	clear_own(&zk->own);
}

/* Our entry is gone, though the session is not. Sets *err. Returns -1. */
static int report_gone(struct zk_backend *zk, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: its entry in the queue was removed, because it "
		  "did not respond when its turn came: back in the queue, at its end",
		  zk->conn.label);
	/* A waiter reports it before it tries again: see zk_acquire(). */
	if (zk->own.state == ZK_WAITING)
		err->errnum = ESTALE;
	/* This also removes the shadow, if only the entry was removed. */
	zk_own_leave(zk);
	return -1;
}

/* Delete our entry, and keep the session for the show() that follows. */
static void delete_own(struct zk_backend *zk)
{
	if (zk_call_wait(zk_delete_pair(&zk->conn, &zk->own.at, -1)) != ZOK)
		zk_conn_close(&zk->conn);
	clear_own(&zk->own);
}

/* Take the reply to a write of our entry. Returns 0, or -1 and sets *err. */
static int take_written(struct zk_backend *zk, const struct zk_call *set, enum zk_state state,
			struct error *err)
{
	/* An entry of an older session has this uuid, too. */
	if (set->rc == ZNONODE ||
	    (set->rc == ZOK && set->stat.ephemeralOwner != zk->conn.session))
		return report_gone(zk, err);
	if (set->rc != ZOK) {
		zk_call_error(&zk->conn, set->rc, "write", zk->own.at.node, err);
		/* It may have been written. find_entry() reads what is stored. */
		zk->own.maybe = true;
		zk->own.at.node[0] = '\0';
		return -1;
	}
	zk->own.version = set->stat.version;
	zk->own.fence = (uint64_t)set->stat.czxid;
	zk->own.state = state;
	return 0;
}

/* ---- the entries before our own ---- */

/* Name an entry, or NULL. Its time to hold starts now, unless it had this name before. */
static void set_watched(struct zk_watched *watched, const char *name)
{
	if (name && watched->name && !strcmp(watched->name, name))
		return;
	forget_watched(watched);
	watched->name = memory_copy(name);
	watched->since_ms = clock_boot_ms();
}

/*
 * Set when to check the suspect. The 10,000th waiter checks once a minute, to spare the server.
 * Near the head, a waiter also needs contacts for zk_conn_lease().
 */
static void schedule_check(struct zk_backend *zk)
{
	struct zk_own *own = &zk->own;
	const int64_t now = clock_boot_ms();
	const int64_t pause_ms = hold_retry_at(-1, false, false) - now;
	const int64_t far = own->waiting / FAR;
	const int64_t factor = far < 1 ? 1 : far > FAR_MOST ? FAR_MOST : far;

	own->check_ms = now + clock_earlier(pause_ms, zk->conn.ttl_ms / 4) * factor;
	if (!own->suspect.holds && own->waiting < NEAR)
		own->check_ms = clock_earlier(own->check_ms, own->suspect.since_ms + HOLD_LATE_MS);
}

/* Record the entries before ours, whose index is me. */
static void record_queue(struct zk_own *own, const struct zk_entry *entries, ptrdiff_t me)
{
	const ptrdiff_t nearest = zk_entries_blocker(entries, me);
	const ptrdiff_t next = zk_entries_unblocked(entries, me);
	const bool slot = entries[me].mode == HOLD_SLOT;
	const bool near = me - next < (slot ? NEAR_SLOT : NEAR);
	ptrdiff_t further = -1;

	/*
	 * Those behind last_free were blocked before we wrote that we wait, so also when they were
	 * made. They write ZK_HELD before they hold.
	 */
	if (own->state == ZK_NEW && next)
		own->last_free = entries[next - 1].number;
	own->waiting = me - next;
	own->blocked = nearest >= 0;
	own->slot = slot;
	own->slots = entries[0].slots;
	own->turn = own->stale = false;
	if (!own->blocked)
		return;
	if (!near)
		further = zk_entries_blocker(entries, nearest);
	else if (nearest != next - 1 && !slot)
		further = next - 1;
	set_watched(&own->watched[ZK_NEAREST], slot && near ? "" : entries[nearest].name);
	set_watched(&own->watched[ZK_FURTHER], further < 0 ? NULL : entries[further].name);
	set_watched(&own->suspect, entries[next - 1].name);
}

static int read_queue(struct zk_backend *zk, struct zk_call *names, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_queue queue;
	ptrdiff_t me;

	if (zk_queue_read(&zk->conn, own->directory, names, &queue, err))
		return -1;
	me = zk_queue_find_uuid(&queue, own->uuid);
	if (me < 0)
		return report_gone(zk, err);
	zk_queue_pair(own->directory, &queue.entries[me], &own->at);
	own->cversion = names->stat.cversion;
	record_queue(own, queue.entries, me);
	schedule_check(zk);
	return 0;
}

/* ---- the ends of others ---- */

/* Record the ends that were reported, between two requests. True: try again. */
static bool take_ends(struct zk_own *own)
{
	struct zk_watched *nearest = &own->watched[ZK_NEAREST];

	if (nearest->ended) {
		own->stale = true;
		own->turn = !own->slot;
		forget_watched(nearest);
	}
	if (own->watched[ZK_FURTHER].ended) {
		/* The suspect is another one now, which may end as soon. */
		own->check_ms = clock_boot_ms() + REREAD_MS;
		forget_watched(&own->watched[ZK_FURTHER]);
		forget_watched(&own->suspect);
	}
	return own->stale;
}

/* Write that we wait, and set watches. Returns 1 to try again, 0, or -1 with *err. */
static int watch_others(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *calls[ZK_WATCHED] = { NULL }, *set = NULL;
	char text[ZK_RECORD_SIZE], path[ZK_PATH_SIZE];
	int result = 0;

	if (own->state != ZK_WAITING) {
		zk_record_write(text, NULL, ZK_WAITING, 0, request->text);
		set = zk_set(&zk->conn, own->at.node, text, own->version);
	}
	for (int i = 0; i < ZK_WATCHED; i++)
		if (own->watched[i].name && !own->watched[i].number) {
			own->watched[i].number = ++zk->conn.last_watch;
			zk_node_path(own->directory, own->watched[i].name, path);
			calls[i] = zk_list(&zk->conn, path, own->watched[i].number);
		}
	zk_conn_wait(&zk->conn);
	if (set)
		result = take_written(zk, set, ZK_WAITING, err);
	for (int i = 0; i < ZK_WATCHED && !result; i++) {
		if (!calls[i])
			continue;
		/* An entry has no children. The directory may have changed since it was read. */
		own->watched[i].ended |= calls[i]->rc == ZNONODE ||
					 (!own->watched[i].name[0] &&
					  calls[i]->stat.cversion != own->cversion);
		if (calls[i]->rc != ZOK && calls[i]->rc != ZNONODE)
			result = zk_call_error(&zk->conn, calls[i]->rc, "watch",
					       own->watched[i].name, err);
	}
	if (!result)
		return take_ends(own);
	clear_watches(own);
	own->stale = true;
	return -1;
}

/* ---- an entry that could hold, and does not ---- */

/*
 * Read the suspect, and evict it in this version of its data if it is late. It still can hold
 * then, because no entry is ever added before it. Returns 1 to try again, 0, or -1 with *err.
 */
static int check_suspect(struct zk_backend *zk, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_watched *suspect = &own->suspect;
	struct zk_entry entry = { .number = 0 };
	struct zk_record record;
	struct zk_call *data;
	char path[ZK_PATH_SIZE];
	int rc;

	if (!suspect->name)
		return 1;
	zk_node_path(own->directory, suspect->name, path);
	data = zk_get(&zk->conn, path, 0);
	rc = zk_call_wait(data);
	if (rc == ZNONODE) {
		/* Far behind, a check is one request: read the queue at the next one. */
		forget_watched(suspect);
		schedule_check(zk);
		return own->waiting < NEAR;
	}
	if (rc != ZOK)
		return zk_call_error(&zk->conn, rc, "read", own->directory, err);
	zk_record_read(&record, data->text, "");
	zk_entry_parse(&entry, suspect->name);
	suspect->holds |= record.state != ZK_WAITING &&
			  (record.state != ZK_NEW ||
			   zk_number_compare(entry.number, own->last_free) <= 0);
	if (suspect->holds || clock_boot_ms() - suspect->since_ms < HOLD_LATE_MS) {
		schedule_check(zk);
		return 0;
	}
	rc = zk_queue_delete(&zk->conn, own->directory, &entry, data->stat.version);
	if (rc != ZBADVERSION && !zk_call_counts(rc))
		return zk_call_error(&zk->conn, rc, "remove", entry.name, err);
	/* If its ACL forbids the removal, wait for its session to end. */
	suspect->holds = rc == ZNOAUTH;
	return 1;
}

/* ---- getting an entry ---- */

/* Find the entry that an earlier request may have made, by our uuid. */
static int find_entry(struct zk_backend *zk, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_queue queue;
	ptrdiff_t i;

	if (zk_queue_fetch(&zk->conn, own->directory, &queue, err))
		return -1;
	i = zk_queue_find_uuid(&queue, own->uuid);
	own->maybe = false;
	if (i < 0)
		return 0;
	zk_queue_pair(own->directory, &queue.entries[i], &own->at);
	/* Whatever it says, a write proves that it is there, and of this session. */
	own->version = -1;
	own->state = ZK_NEW;
	own->fence = 0;
	own->stale = true;
	return 0;
}

/*
 * Derive the number of the transaction that made the two nodes, which its reply does not contain.
 * It is the directory's pzxid, if cversion shows that nothing else was added or removed. 0: not
 * known.
 */
static uint64_t fence_of(const struct Stat *before, const struct Stat *after)
{
	if (before->czxid != after->czxid ||
	    (uint32_t)after->cversion - (uint32_t)before->cversion != 2)
		return 0;
	return (uint64_t)after->pzxid;
}

static int report_ended(const struct zk_backend *zk, struct error *err)
{
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s is created and removed again and "
			 "again", zk->conn.label, zk->own.directory);
}

/* No entry was made. Sets *err. Returns -1. A directory may have been made for another try. */
static int take_refusal(struct zk_backend *zk, int rc, struct error *err)
{
	struct zk_own *own = &zk->own;

	if (rc == ZNOCHILDRENFOREPHEMERALS)
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s has no queue: others take "
			  "this lock with ?strategy=node", zk->conn.label, own->directory);
	else if (rc != ZNONODE)
		zk_call_error(&zk->conn, rc, "create a node in", own->directory, err);
	else if (!zk_make_directory(zk, own->directory, ZOO_CONTAINER, err))
		report_ended(zk, err);
	own->maybe = rc != ZNONODE && err->kind == ERROR_UNAVAILABLE;
	return -1;
}

/* Make an entry and read the queue, in one packet. */
static int enqueue(struct zk_backend *zk, const struct request *request, struct error *err)
{
	char prefix[ZK_PREFIX_SIZE], data[ZK_RECORD_SIZE];
	struct zk_own *own = &zk->own;
	struct zk_call *before, *created, *names;
	struct zk_pair pair;
	int rc;

	zk_entry_name(request->mode, request->slots, own->uuid, false, prefix);
	zk_node_path(own->directory, prefix, pair.node);
	zk_entry_name(request->mode, request->slots, own->uuid, true, prefix);
	zk_node_path(own->directory, prefix, pair.shadow);
	zk_record_write(data, NULL, ZK_NEW, 0, request->text);
	own->taken_ms = 0;
	own->maybe = true;
	own->sent_ms = clock_boot_ms();
	before = zk_get(&zk->conn, own->directory, 0);
	created = zk_create_pair(&zk->conn, &pair, data);
	names = zk_list(&zk->conn, own->directory, 0);
	rc = zk_call_wait(created);
	if (rc == ZOK)
		rc = names->rc;
	if (rc != ZOK)
		return take_refusal(zk, rc, err);
	own->state = ZK_NEW;
	own->version = 0;
	own->watch = 0;
	if (read_queue(zk, names, err))
		return -1;
	own->maybe = false;
	/* An entry that was blocked when it was made is written before it holds. */
	own->fence = own->blocked ? 0 : fence_of(&before->stat, &names->stat);
	return 0;
}

static int ensure_entry(struct zk_backend *zk, const struct request *request, struct error *err)
{
	if (!zk->own.at.node[0] && zk->own.maybe && find_entry(zk, err))
		return -1;
	return zk->own.at.node[0] ? 0 : enqueue(zk, request, err);
}

/* ---- one try ---- */

/*
 * In one packet, write that we hold (claim) and read the queue (list). Nobody evicts an entry that
 * says so. We hold if the queue, read before or after, has no entry that blocks ours: no entry can
 * be added before it.
 */
static int send_try(struct zk_backend *zk, const struct request *request, bool claim, bool list,
		    struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *set = NULL, *names = NULL;
	char data[ZK_RECORD_SIZE];

	if (claim && !zk_conn_fresh(&zk->conn, err))
		return -1;
	own->sent_ms = clock_boot_ms();
	/* A reading does not prove the hold: write once more, even if a write came before. */
	own->fence = 0;
	if (claim) {
		own->taken_ms = clock_wall_ms();
		zk_record_write(data, NULL, ZK_HELD, own->taken_ms, request->text);
		set = zk_set(&zk->conn, own->at.node, data, own->version);
	}
	if (list)
		names = zk_list(&zk->conn, own->directory, 0);
	zk_conn_wait(&zk->conn);
	if (set && take_written(zk, set, ZK_HELD, err))
		return -1;
	return names ? read_queue(zk, names, err) : 0;
}

/* Returns 1 for another step, 0 if we hold or, with own->blocked, wait, or -1 with *err. */
static int take_step(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	int result;

	if (take_ends(own) &&
	    send_try(zk, request, own->turn && own->state != ZK_HELD, true, err))
		return -1;
	if (!hold_mode_slots_agree(own->slots, request, err))
		return -1;
	if (!own->blocked && own->state != ZK_WAITING && own->fence)
		return 0;
	if (!own->blocked)
		return send_try(zk, request, true, false, err);
	if (!request->queue)
		return 0;
	if (clock_boot_ms() >= own->check_ms) {
		result = check_suspect(zk, err);
		/* An event may have come with the reply. */
		own->stale |= result > 0;
		if (result)
			return result;
	}
	return watch_others(zk, request, err);
}

/* Returns as take_step(), but never 1. ESTALE: to be reported before another try. */
static int try_queue(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	int result;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err)) {
		if (err->errnum == ESTALE && own->state == ZK_WAITING) {
			error_set(err, ERROR_UNAVAILABLE, 0, "%s: the session expired while it "
				  "waited: back in the queue, at its end", zk->conn.label);
			err->errnum = ESTALE;
		}
		return -1;
	}
	/* A hold that was neither reported nor released is proven by a write. */
	own->held = false;
	own->fence = 0;
	if (ensure_entry(zk, request, err))
		return -1;
	do
		result = take_step(zk, request, err);
	while (result > 0);
	return result;
}

/* ---- strategy node ---- */

/*
 * The node is a directory of strategy queue: remove it if it is empty. A holder's node may have
 * replaced it, but an ephemeral node cannot have the child that is deleted with it.
 */
static int remove_other(struct zk_backend *zk, const struct Stat *stat, struct error *err)
{
	struct zk_pair pair;

	if (stat->numChildren)
		return error_set(err, ERROR_REFUSED, 0, "%s: %.200s has nodes below it: others "
				 "take this lock without ?strategy=node", zk->conn.label,
				 zk->own.directory);
	zk_node_path(zk->own.directory, "dlock", pair.node);
	memcpy(pair.shadow, zk->own.directory, ZK_PATH_SIZE);
	zk_create(&zk->conn, pair.node, "", ZOO_EPHEMERAL);
	zk_call_wait(zk_delete_pair(&zk->conn, &pair, -1));
	return report_ended(zk, err);
}

/* Take the results of making (rc) and reading the node. */
static int take_replies(struct zk_backend *zk, int rc, const struct zk_call *data,
			struct error *err)
{
	const bool exists = rc == ZOK || rc == ZNODEEXISTS;
	struct zk_own *own = &zk->own;
	struct zk_record record;

	if (rc == ZNONODE && zk_make_directory(zk, zk->root, ZOO_PERSISTENT, err))
		return -1;
	if (exists)
		rc = data->rc;
	if (rc == ZNONODE)
		return report_ended(zk, err);
	if (rc != ZOK)
		return zk_call_error(&zk->conn, rc, exists ? "read" : "create", own->directory,
				     err);
	if (!data->stat.ephemeralOwner)
		return remove_other(zk, &data->stat, err);
	zk_record_read(&record, data->text, own->uuid);
	/* An earlier request, whose reply was lost, may have made it. */
	own->blocked = !record.mine || data->stat.ephemeralOwner != zk->conn.session;
	own->fence = (uint64_t)data->stat.czxid;
	/* Its holder is the suspect of all others, and nobody may remove it. */
	own->suspect.holds = true;
	schedule_check(zk);
	return 0;
}

static int try_node(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *created, *data;
	char text[ZK_RECORD_SIZE];

	memcpy(own->at.node, own->directory, ZK_PATH_SIZE);
	if (zk_conn_open(&zk->conn, request->ttl_ms, err) || !zk_conn_fresh(&zk->conn, err))
		return -1;
	own->taken_ms = clock_wall_ms();
	zk_record_write(text, own->uuid, ZK_HELD, own->taken_ms, request->text);
	own->sent_ms = clock_boot_ms();
	own->watch = ++zk->conn.last_watch;
	created = zk_create(&zk->conn, own->directory, text, ZOO_EPHEMERAL);
	data = zk_get(&zk->conn, own->directory, own->watch);
	return take_replies(zk, zk_call_wait(created), data, err);
}

/* ---- both strategies ---- */

void zk_grant(struct zk_backend *zk, struct grant *grant)
{
	grant->sent_ms = zk->own.sent_ms;
	grant->ttl_ms = zk_conn_lease(&zk->conn, grant->sent_ms);
	zk->base.session_ms = zk->conn.ttl_ms;
	grant->fence = zk->own.fence;
}

static enum outcome try_once(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct zk_own *own = &zk->own;

	zk_directory(zk, request->name, own->directory);
	zk_uuid(request->token, own->uuid);
	if (zk->one_node ? try_node(zk, request, err) : try_queue(zk, request, err))
		return OUTCOME_ERROR;
	if (own->blocked) {
		grant->retry_ms = own->check_ms;
		return OUTCOME_BUSY;
	}
	own->held = true;
	zk_grant(zk, grant);
	if (!own->watch)
		grant->event_ms = clock_boot_ms() + WATCH_AFTER_MS;
	clear_watches(own);
	return OUTCOME_HELD;
}

enum outcome zk_acquire(struct backend *backend, const struct request *request, struct grant *grant,
			struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum outcome outcome;

	zk_conn_begin(&zk->conn, backend->connect_timeout_ms);
	do
		outcome = try_once(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && err->errnum != ESTALE && zk_conn_again(&zk->conn, err));
	/*
	 * The session has expired, and our entry with it: the next try makes another one. A usage
	 * error leaves no entry, and neither does a busy lock without request->queue.
	 */
	if (outcome == OUTCOME_ERROR && (err->errnum == ESTALE || err->kind == ERROR_USAGE))
		zk_own_leave(zk);
	zk->done = outcome == OUTCOME_BUSY && !request->queue;
	if (zk->done && !zk->one_node)
		delete_own(zk);
	zk_conn_free(&zk->conn);
	return outcome;
}

/* ---- events ---- */

void zk_watch_fired(struct zk_conn *conn, uint32_t watch)
{
	struct zk_own *own = &zk_from_backend(conn->backend)->own;

	/* Set the watch again, even if a reply that is read later shows a false alarm. */
	if (watch == own->watch)
		own->watch = 0;
	for (int i = 0; i < ZK_WATCHED; i++)
		own->watched[i].ended |= watch == own->watched[i].number;
}

int64_t zk_event(struct backend *backend)
{
	struct zk_backend *zk = zk_from_backend(backend);
	struct zk_own *own = &zk->own;
	bool now;

	zk_conn_take_news(&zk->conn);
	now = zk->conn.eventful;
	zk->conn.eventful = false;
	if (!own->held)
		return now ? 0 : own->check_ms;
	/* The renewal that follows finds out whether the watch was set too late. */
	if (!own->watch) {
		own->watch = ++zk->conn.last_watch;
		own->contact_ms = 0;
		now = true;
	}
	if (clock_boot_ms() >= own->contact_ms) {
		own->contact_ms = CLOCK_NEVER;
		zk_list(&zk->conn, own->at.node, own->watch);
	}
	return now ? 0 : CLOCK_NEVER;
}
