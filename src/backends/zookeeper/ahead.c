/* SPDX-License-Identifier: MIT */
/* The entries before our own: reading the queue, and remembering what matters of it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "acquire.h"

/* A waiter remembers so many entries before its own, and slots in addition; or three of them. */
#define NEAR 8
/* A waiter this near to the holder checks at once whether the entries before it respond. */
#define NEXT 3
/* A waiter checks so much less often the more entries are before its own. */
#define FAR 100
#define FAR_MOST 12

/* ---- what is remembered of the queue ---- */

/*
 * When to check what no watch reports. A long queue is no load for the server: the 10,000th waiter
 * checks once a minute. Near the head, a waiter also needs contacts for zk_conn_lease().
 */
int64_t zk_check_pause(const struct zk_backend *zk, ptrdiff_t ahead)
{
	const int64_t pause_ms = hold_look_at(-1, false, false) - clock_boot_ms();
	const int64_t factor = ahead / FAR < 1 ? 1 : ahead / FAR > FAR_MOST ? FAR_MOST
			       : ahead / FAR;

	return clock_earlier(pause_ms, zk->conn.ttl_ms / 4) * factor;
}

/* When the first of those that could hold, and that may still wait, is late. */
void zk_schedule_check(struct zk_own *own)
{
	const struct zk_entry *entries = own->queue.entries;

	own->check_ms = CLOCK_NEVER;
	if (!own->alert && own->queue.count > NEXT + 1)
		return;
	for (ptrdiff_t i = 0; i < own->queue.count - 1; i++)
		if (entries[i].free_ms && !entries[i].holds)
			own->check_ms = clock_earlier(own->check_ms,
						      entries[i].free_ms + HOLD_LATE_MS);
}

/* Entry i could hold from now on, unless this was known before. */
static void note_free(const struct zk_queue *before, struct zk_entry *entries, ptrdiff_t i)
{
	const ptrdiff_t old = zk_queue_find(before, entries[i].name);

	if (zk_entries_blocker(entries, i) >= 0)
		return;
	entries[i].free_ms = clock_boot_ms();
	if (old >= 0 && before->entries[old].free_ms) {
		entries[i].free_ms = before->entries[old].free_ms;
		entries[i].holds = before->entries[old].holds;
	}
}

/*
 * When our entry was made, those behind last_free were blocked. So they were when they were made,
 * and write ZK_HELD before they hold.
 */
static void note_last_free(struct zk_own *own, const struct zk_entry *entries, ptrdiff_t me)
{
	for (ptrdiff_t i = 0; !own->was_read && i < me; i++) {
		if (zk_entries_blocker(entries, i) >= 0)
			break;
		own->last_free = entries[i].number;
	}
	own->was_read = true;
}

/* Remember of the queue that was read what matters to the entry me, which is ours. */
static void remember(struct zk_backend *zk, struct zk_queue *queue, ptrdiff_t me)
{
	struct zk_own *own = &zk->own;
	struct zk_entry *entries = queue->entries;
	const ptrdiff_t nearest = zk_entries_blocker(entries, me);
	const ptrdiff_t second = nearest < 0 ? -1 : zk_entries_blocker(entries, nearest);
	const ptrdiff_t chosen[] = { 0, second, nearest, me };
	const int other_slots = zk_entries_disagree(entries, me);
	ptrdiff_t *indices = memory_new((size_t)me + 4, sizeof(*indices)), count = 0;

	note_last_free(own, entries, me);
	own->whole = me <= NEAR + entries[me].slots;
	own->any = zk_entries_any(entries, me);
	for (ptrdiff_t i = 0; own->whole && i <= me; i++)
		indices[count++] = i;
	for (size_t i = 0; !own->whole && i < sizeof(chosen) / sizeof(chosen[0]); i++)
		if (chosen[i] >= 0 && (!count || chosen[i] > indices[count - 1]))
			indices[count++] = chosen[i];
	for (ptrdiff_t i = 0; i < count - 1; i++)
		note_free(&own->queue, entries, indices[i]);
	zk_queue_finish(&own->queue);
	zk_queue_keep(queue, indices, count);
	own->queue = *queue;
	own->nearest = own->second = NULL;
	for (ptrdiff_t i = 0; i < count; i++) {
		if (indices[i] == nearest)
			own->nearest = queue->entries[i].name;
		if (indices[i] == second)
			own->second = queue->entries[i].name;
	}
	free(indices);
	own->ahead = me;
	own->other_slots = other_slots;
	own->list_ms = CLOCK_NEVER;
	own->look_ms = clock_boot_ms() + zk_check_pause(zk, me);
	zk_schedule_check(own);
}

/* ---- reading the queue ---- */

static uint32_t watch_directory(struct zk_backend *zk)
{
	if (zk->own.any && !zk->own.directory_watch)
		zk->own.directory_watch = zk_watch_number(&zk->conn);
	return zk->own.directory_watch;
}

/*
 * Write that we hold. From then on nobody evicts our entry. We hold if, in addition, the queue that
 * was read before or after has no entry that blocks ours: none can come before it.
 */
static struct zk_call *send_claim(struct zk_backend *zk, const struct request *request)
{
	struct zk_own *own = &zk->own;
	char data[ZK_RECORD_SIZE];

	own->taken_ms = clock_wall_ms();
	zk_record_write(data, NULL, ZK_HELD, own->taken_ms, request->text);
	return zk_set(&zk->conn, own->at.node, data, own->version);
}

int zk_take_queue(struct zk_backend *zk, struct zk_call *names, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_queue queue;
	ptrdiff_t me;

	if (zk_queue_read(&zk->conn, own->directory, names, &queue, err))
		return -1;
	me = zk_queue_find(&queue, strrchr(own->at.node, '/') + 1);
	if (me < 0) {
		zk_queue_finish(&queue);
		return zk_own_gone(zk, err);
	}
	remember(zk, &queue, me);
	own->turn = own->stale = false;
	return 0;
}

int zk_read_queue(struct zk_backend *zk, const struct request *request, bool claim,
		  struct error *err)
{
	struct zk_own *own = &zk->own;
	/* Where all entries before ours were known and have ended, the queue need not be read. */
	const bool known = claim && own->whole && !own->stale &&
			   zk_entries_blocker(own->queue.entries, own->queue.count - 1) < 0;
	struct zk_call *set = NULL, *names = NULL;
	int rc;

	if (claim && own->state != ZK_HELD && !zk_conn_fresh(&zk->conn, err))
		return -1;
	own->sent_ms = clock_boot_ms();
	if (claim && own->state != ZK_HELD)
		set = send_claim(zk, request);
	if (!known)
		names = zk_list(&zk->conn, own->directory, watch_directory(zk));
	rc = zk_conn_wait(&zk->conn);
	if (rc)
		rc = zk_own_failed(zk, rc, "list", err);
	else if (set)
		rc = zk_own_written(zk, set, ZK_HELD, err);
	if (!rc && names)
		rc = zk_take_queue(zk, names, err);
	if (!rc && known) {
		own->nearest = NULL;
		own->turn = false;
		own->other_slots = zk_entries_disagree(own->queue.entries, own->queue.count - 1);
	}
	/* It may not have been set. */
	if (rc)
		own->directory_watch = 0;
	zk_call_free(set);
	zk_call_free(names);
	return rc;
}
