/* SPDX-License-Identifier: MIT */
/* Waiting: watches on the ends of other entries, and eviction of those that do not respond. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "acquire.h"

/* After the end of an entry that did not hold, the queue shows which one may hold now. */
#define SETTLE_MS 100

/* ---- the ends of others ---- */

/* An entry that is not the nearest one has ended. */
static void note_end(struct zk_own *own, const char *name)
{
	const ptrdiff_t i = zk_queue_find(&own->queue, name);
	const int64_t now = clock_boot_ms();
	ptrdiff_t nearest;

	own->alert = true;
	/* Those between the head and the second one have probably ended as well. */
	if (own->second && !strcmp(own->second, name)) {
		own->second = NULL;
		own->list_ms = now + SETTLE_MS;
	}
	if (i < 0 || !own->whole)
		return;
	zk_queue_remove(&own->queue, i);
	for (ptrdiff_t k = 0; k < own->queue.count - 1; k++)
		if (!own->queue.entries[k].free_ms &&
		    zk_entries_blocker(own->queue.entries, k) < 0)
			own->queue.entries[k].free_ms = now;
	nearest = own->nearest ? zk_queue_find(&own->queue, own->nearest) : -1;
	if (nearest >= 0 && own->queue.entries[nearest].free_ms)
		own->list_ms = CLOCK_NEVER;
	zk_schedule_check(own);
}

/* The entry that a watch was set on has ended. */
void zk_watch_ended(struct zk_own *own, struct zk_watched *watched)
{
	const ptrdiff_t i = zk_queue_find(&own->queue, watched->name);

	if (!own->nearest || strcmp(watched->name, own->nearest) != 0) {
		note_end(own, watched->name);
	} else {
		own->turn = true;
		if (i >= 0)
			zk_queue_remove(&own->queue, i);
	}
	free(watched->name);
	*watched = (struct zk_watched){ .name = NULL };
}

/* Move the watch on name from old; returns NULL where there was one, or a request for a new one. */
static struct zk_call *watch_entry(struct zk_backend *zk, const char *name,
				   struct zk_watched old[static ZK_WATCHED],
				   struct zk_watched *watched)
{
	char path[ZK_PATH_SIZE];

	for (int i = 0; i < ZK_WATCHED; i++)
		if (old[i].name && !strcmp(old[i].name, name)) {
			*watched = old[i];
			old[i].name = NULL;
			return NULL;
		}
	*watched = (struct zk_watched){ memory_copy(name), zk_watch_number(&zk->conn) };
	zk_node_path(zk->own.directory, name, path);
	return zk_list(&zk->conn, path, watched->number);
}

/* Send requests for the missing watches: on the nearest entry, the second, and the head. */
static void send_watches(struct zk_backend *zk, struct zk_call *calls[static ZK_WATCHED])
{
	struct zk_own *own = &zk->own;
	const char *names[ZK_WATCHED] = { own->nearest, own->second, NULL };
	struct zk_watched old[ZK_WATCHED];

	if (own->whole)
		names[2] = own->queue.entries[0].name;
	memcpy(old, own->watched, sizeof(old));
	memset(own->watched, 0, sizeof(own->watched));
	for (int i = 0; i < ZK_WATCHED; i++) {
		calls[i] = NULL;
		if (names[i] && (!i || strcmp(names[i], names[0]) != 0) &&
		    (i < 2 || !names[1] || strcmp(names[i], names[1]) != 0))
			calls[i] = watch_entry(zk, names[i], old, &own->watched[i]);
	}
	for (int i = 0; i < ZK_WATCHED; i++)
		free(old[i].name);
}

/* 1: the nearest one has ended; 0; -1 with *err. */
static int take_watches(struct zk_backend *zk, struct zk_call *calls[static ZK_WATCHED],
			struct error *err)
{
	struct zk_own *own = &zk->own;

	for (int i = 0; i < ZK_WATCHED; i++) {
		if (!calls[i] || calls[i]->rc == ZOK)
			continue;
		if (calls[i]->rc != ZNONODE)
			return zk_call_error(&zk->conn, calls[i]->rc, "watch",
					     own->watched[i].name, err);
		zk_watch_ended(own, &own->watched[i]);
	}
	return own->turn;
}

/* Write that we wait, and set the watches, in one packet. As take_watches(). */
int zk_watch_others(struct zk_backend *zk, const struct request *request,
			   struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *calls[ZK_WATCHED], *set = NULL, *watch = NULL;
	char data[ZK_RECORD_SIZE];
	int result;

	if (own->state != ZK_WAITING) {
		zk_record_write(data, NULL, ZK_WAITING, 0, request->text);
		set = zk_set(&zk->conn, own->at.node, data, own->version);
	}
	if (!own->watch) {
		own->watch = zk_watch_number(&zk->conn);
		watch = zk_list(&zk->conn, own->at.node, own->watch);
	}
	send_watches(zk, calls);
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

/* ---- those that could hold, and do not ---- */

/* Is this entry, by its data, a waiter that has not taken the lock in time? */
static bool is_late(const struct zk_own *own, struct zk_entry *entry, const struct zk_call *data)
{
	struct zk_record record;

	zk_record_read(&record, data->text, data->length, "");
	/* A client may be stopped before it writes that it waits: see note_last_free(). */
	entry->holds = record.state != ZK_WAITING &&
		       (record.state != ZK_NEW ||
			zk_number_compare(entry->number, own->last_free) <= 0);
	return !entry->holds && entry->free_ms &&
	       clock_boot_ms() - entry->free_ms >= HOLD_LATE_MS;
}

/* Evict entry i if its data has not changed. 1, or -1 with *err. */
static int evict(struct zk_backend *zk, ptrdiff_t i, int32_t version, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_pair pair;
	int rc;

	zk_queue_pair(&own->queue, i, own->directory, &pair);
	rc = zk_call_end(zk_delete_pair(&zk->conn, &pair, version));
	if (rc == ZK_UNANSWERED)
		return zk_call_error(&zk->conn, rc, "remove", pair.node, err);
	/* Where the ACL does not let us remove it, its session has to end. */
	if (rc != ZBADVERSION)
		own->queue.entries[i].holds = true;
	own->alert = true;
	return 1;
}

/* The reply about entry i. 1: read the queue again; 0; -1 with *err. */
static int check_reply(struct zk_backend *zk, ptrdiff_t i, const struct zk_call *data,
		       struct error *err)
{
	struct zk_own *own = &zk->own;

	if (data->rc == ZNONODE && own->whole)
		return 1;
	if (data->rc == ZNONODE) {
		/* Far behind, this is one request for each check: the queue is read next time. */
		own->list_ms = clock_boot_ms() + zk_check_pause(zk, own->ahead);
		own->queue.entries[i].holds = true;
		return 0;
	}
	if (data->rc != ZOK)
		return zk_call_error(&zk->conn, data->rc, "read", own->directory, err);
	return is_late(own, &own->queue.entries[i], data)
	       ? evict(zk, i, data->stat.version, err) : 0;
}

static struct zk_call *send_check(struct zk_backend *zk, ptrdiff_t i)
{
	const struct zk_entry *entry = &zk->own.queue.entries[i];
	const int64_t now = clock_boot_ms();
	char path[ZK_PATH_SIZE];

	/* Without watches on all of them, the head tells whether the queue has moved. */
	if (!(entry->free_ms && !entry->holds && now - entry->free_ms >= HOLD_LATE_MS) &&
	    !(!i && now >= zk->own.look_ms))
		return NULL;
	zk_node_path(zk->own.directory, entry->name, path);
	return zk_get(&zk->conn, path, 0);
}

/* Check those before us that could hold. 1: read the queue again; 0; -1 with *err. */
int zk_check_others(struct zk_backend *zk, struct error *err)
{
	struct zk_own *own = &zk->own;
	const ptrdiff_t count = own->queue.count - 1;
	struct zk_call **calls = memory_new((size_t)count, sizeof(*calls));
	int result, found;

	for (ptrdiff_t i = 0; i < count; i++)
		calls[i] = send_check(zk, i);
	result = zk_conn_wait(&zk->conn);
	if (result)
		result = zk_call_error(&zk->conn, result, "read", own->directory, err);
	for (ptrdiff_t i = 0; i < count; i++) {
		found = calls[i] && result >= 0 ? check_reply(zk, i, calls[i], err) : 0;
		if (found)
			result = found;
		zk_call_free(calls[i]);
	}
	free(calls);
	own->alert = result > 0;
	own->look_ms = clock_boot_ms() + zk_check_pause(zk, own->ahead);
	zk_schedule_check(own);
	return result;
}
