/* SPDX-License-Identifier: MIT */
/*
 * acquire() and its events. Strategy queue: our entry, the entries that block it, watches on their
 * ends, and one try to hold.
 *
 * Strategy node: the lock is one ephemeral node, <root>/<name>, and its maker holds it. All others
 * watch it and try when it ends, so there is a herd and no order. There are only exclusive holds.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock.h"

/*
 * A holder sets the watch on its own node after this time. Until then its command starts without a
 * request in its way, and many commands end before that.
 */
#define WATCH_AFTER_MS 20

/* ---- our entry ---- */

void zk_own_leave(struct zk_backend *zk)
{
	zk_conn_close(&zk->conn);
	zk->own = (struct zk_own){ .held = false };
}

enum zk_end zk_own_await(const struct zk_backend *zk, struct zk_call *call, const char *what,
			 struct error *err)
{
	zk_conn_wait(call->conn);
	/* Not every answer has a stat. A node of another session may have our uuid, or our path. */
	if (call->rc == ZNONODE ||
	    (call->stat.czxid && call->stat.ephemeralOwner != zk->conn.session))
		return zk_report_ended(&zk->conn, "its node was removed", err);
	return call->rc == ZOK ? ZK_DONE
			       : zk_call_error(&zk->conn, call->rc, what, zk->own.at.node, err);
}

/* Find our entry in the queue, the last one with our uuid. Returns its index, or -1. */
static ptrdiff_t find_own(struct zk_own *own, const struct zk_queue *queue)
{
	ptrdiff_t i = queue->count - 1;

	while (i >= 0 && !zk_entry_has_uuid(&queue->entries[i], own->uuid))
		i--;
	if (i >= 0)
		zk_queue_pair(own->directory, &queue->entries[i], &own->at);
	return i;
}

/* ---- the entries before our own ---- */

/*
 * Set watches on the ends of the entries first to last. The queue is stale if one of them has ended
 * already, or if it is not known whether a watch is set.
 */
static enum zk_end watch_entries(struct zk_backend *zk, const struct zk_entry *entries,
				 ptrdiff_t first, ptrdiff_t last, struct error *err)
{
	const size_t count = (size_t)(last - first + 1);
	struct zk_call **calls = zk_conn_memory(&zk->conn, count, sizeof(struct zk_call *));
	char path[ZK_PATH_SIZE];

	for (size_t i = 0; i < count; i++) {
		zk_node_path(zk->own.directory, entries[first + (ptrdiff_t)i].name, path);
		calls[i] = zk_list(&zk->conn, path, &zk->own.stale);
	}
	zk_conn_wait(&zk->conn);
	for (size_t i = 0; i < count; i++) {
		zk->own.stale |= calls[i]->rc != ZOK;
		if (calls[i]->rc != ZOK && calls[i]->rc != ZNONODE)
			return zk_call_error(&zk->conn, calls[i]->rc, "watch", zk->own.directory,
					     err);
	}
	return ZK_DONE;
}

/* List the queue. What ends from now on is reported, and makes it stale again. */
static struct zk_call *list_queue(struct zk_backend *zk)
{
	zk->own.stale = false;
	return zk_list(&zk->conn, zk->own.directory, NULL);
}

/* Take the reply to a list request, and watch the entries that block ours. */
static enum zk_end read_queue(struct zk_backend *zk, struct zk_call *names,
			      const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_queue queue;
	enum zk_end end = zk_queue_read(&zk->conn, own->directory, names, &queue, err);
	ptrdiff_t me, blocker;

	own->stale |= end != ZK_DONE;
	if (end)
		return end;
	me = find_own(own, &queue);
	if (me < 0)
		return zk_report_ended(&zk->conn, "its node was removed", err);
	blocker = zk_entries_blocker(queue.entries, me);
	own->blocked = blocker >= 0;
	if (!hold_mode_slots_agree(queue.entries[0].slots, request, err))
		return ZK_FAILED;
	return own->blocked && request->queue
		       ? watch_entries(zk, queue.entries,
				       zk_entries_watched(queue.entries, me, blocker), blocker, err)
		       : ZK_DONE;
}

/* ---- getting an entry ---- */

/* No entry was made. A directory may have been made for another try. */
static enum zk_end take_refusal(struct zk_backend *zk, int rc, struct error *err)
{
	struct zk_own *own = &zk->own;
	enum zk_end end;

	if (rc == ZNOCHILDRENFOREPHEMERALS) {
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s has no queue: others take this lock "
			  "with ?strategy=node", zk->conn.label, own->directory);
		return ZK_FAILED;
	}
	own->maybe = rc != ZNONODE;
	if (rc != ZNONODE)
		return zk_call_error(&zk->conn, rc, "create a node in", own->directory, err);
	end = zk_make_directory(zk, own->directory, ZOO_CONTAINER, err);
	return end ? end : zk_report_changed(&zk->conn, own->directory, err);
}

/* Make an entry and read the queue, in one packet. */
static enum zk_end enqueue(struct zk_backend *zk, const struct request *request,
			   struct error *err)
{
	char prefix[ZK_PREFIX_SIZE], data[ZK_RECORD_SIZE];
	struct zk_own *own = &zk->own;
	struct zk_call *before, *created, *names;
	struct zk_pair pair;
	enum zk_end end;
	int rc;

	zk_entry_name(request->mode, request->slots, own->uuid, false, prefix);
	zk_node_path(own->directory, prefix, pair.node);
	zk_entry_name(request->mode, request->slots, own->uuid, true, prefix);
	zk_node_path(own->directory, prefix, pair.shadow);
	zk_record_write(data, NULL, 0, request->text);
	own->maybe = true;
	own->sent_ms = clock_boot_ms();
	before = zk_get(&zk->conn, own->directory, NULL);
	created = zk_create_pair(&zk->conn, &pair, data);
	names = list_queue(zk);
	rc = zk_call_wait(created);
	if (rc == ZOK)
		rc = names->rc;
	if (rc != ZOK)
		return take_refusal(zk, rc, err);
	end = read_queue(zk, names, request, err);
	if (end)
		return end;
	/*
	 * The number of the transaction that made the two nodes is not in its reply. It is the
	 * directory's pzxid, if cversion shows that nothing else was added or removed. An entry
	 * that was blocked when it was made is written before it holds.
	 */
	if (!own->blocked && before->stat.czxid == names->stat.czxid &&
	    (uint32_t)names->stat.cversion - (uint32_t)before->stat.cversion == 2)
		own->fence = (uint64_t)names->stat.pzxid;
	return ZK_DONE;
}

/* ---- one try ---- */

/*
 * Claim the lock, which proves our entry by a write that a majority confirms, and read the queue if
 * it is stale, in one packet. We hold if no entry blocks ours. The order does not matter, because
 * entries before ours only go away.
 */
static enum zk_end claim_lock(struct zk_backend *zk, const struct request *request,
			      struct error *err)
{
	struct zk_own *own = &zk->own;
	char data[ZK_RECORD_SIZE];
	struct zk_call *set, *names;
	enum zk_end end;

	if (!zk_conn_fresh(&zk->conn, err))
		return ZK_AGAIN;
	own->taken_ms = clock_wall_ms();
	zk_record_write(data, NULL, own->taken_ms, request->text);
	own->sent_ms = clock_boot_ms();
	set = zk_prove_pair(&zk->conn, &own->at, data);
	names = own->stale ? list_queue(zk) : NULL;
	end = zk_own_await(zk, set, "write", err);
	own->fence = (uint64_t)set->stat.czxid;
	own->stale |= end && names;
	return end || !names ? end : read_queue(zk, names, request, err);
}

/* Try to hold. After ZK_DONE we hold, or own.blocked says that we wait. */
static enum zk_end try_queue(struct zk_backend *zk, const struct request *request,
			     struct error *err)
{
	struct zk_own *own = &zk->own;
	enum zk_end end = ZK_DONE;
	struct zk_queue queue;

	/* A hold that was neither reported nor released is proven again. */
	own->held = false;
	own->fence = 0;
	/* A waiter that was not woken has a contact. */
	if (own->at.node[0] && own->blocked && !own->stale)
		return zk_own_await(zk, zk_list(&zk->conn, own->at.node, NULL), "read", err);
	/* An earlier request may have made our entry. */
	if (!own->at.node[0] && own->maybe) {
		end = zk_queue_fetch(&zk->conn, own->directory, &queue, err);
		own->stale |= !end && find_own(own, &queue) >= 0;
	}
	if (!end && !own->at.node[0])
		end = enqueue(zk, request, err);
	/* The end of one slot wakes several waiters, which read before they claim. */
	while (!end && (own->stale || (!own->blocked && !own->fence)))
		end = own->stale && request->mode == HOLD_SLOT
			      ? read_queue(zk, list_queue(zk), request, err)
			      : claim_lock(zk, request, err);
	return end;
}

/* ---- one try of strategy node ---- */

/*
 * The node is a directory of strategy queue: remove it if it is empty. A holder's node may have
 * replaced it, but an ephemeral node cannot have the child that is deleted with it.
 */
static enum zk_end remove_other(struct zk_backend *zk, const struct Stat *stat,
				struct error *err)
{
	struct zk_pair pair;

	if (stat->numChildren) {
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s has nodes below it: others take this "
			  "lock without ?strategy=node", zk->conn.label, zk->own.directory);
		return ZK_FAILED;
	}
	zk_node_path(zk->own.directory, "dlock", pair.node);
	memcpy(pair.shadow, zk->own.directory, ZK_PATH_SIZE);
	zk_create(&zk->conn, pair.node, "", ZOO_EPHEMERAL);
	zk_call_wait(zk_delete_pair(&zk->conn, &pair, -1));
	return zk_report_changed(&zk->conn, zk->own.directory, err);
}

/* Make the node, and read whose it is. */
static enum zk_end try_node(struct zk_backend *zk, const struct request *request,
			    struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *created, *node;
	char text[ZK_RECORD_SIZE];
	enum zk_end end;

	own->held = false;
	if (!zk_conn_fresh(&zk->conn, err))
		return ZK_AGAIN;
	memcpy(own->at.node, own->directory, ZK_PATH_SIZE);
	zk_record_write(text, own->uuid, 0, request->text);
	own->sent_ms = clock_boot_ms();
	created = zk_create(&zk->conn, own->directory, text, ZOO_EPHEMERAL);
	node = zk_get(&zk->conn, own->directory, &own->unwatched);
	zk_conn_wait(&zk->conn);
	if (created->rc == ZNONODE) {
		end = zk_make_directory(zk, zk->root, ZOO_PERSISTENT, err);
		return end ? end : zk_report_changed(&zk->conn, zk->root, err);
	}
	if (created->rc != ZOK && created->rc != ZNODEEXISTS)
		return zk_call_error(&zk->conn, created->rc, "create", own->directory, err);
	if (node->rc == ZNONODE)
		return zk_report_changed(&zk->conn, own->directory, err);
	if (node->rc != ZOK)
		return zk_call_error(&zk->conn, node->rc, "read", own->directory, err);
	if (!node->stat.ephemeralOwner)
		return remove_other(zk, &node->stat, err);
	/* An earlier request, whose reply was lost, may have made it. */
	own->blocked = node->stat.ephemeralOwner != zk->conn.session;
	own->fence = (uint64_t)node->stat.czxid;
	return ZK_DONE;
}

/* ---- both strategies ---- */

void zk_grant(struct zk_backend *zk, struct grant *grant)
{
	grant->sent_ms = zk->own.sent_ms;
	grant->ttl_ms = zk_conn_lease(&zk->conn, grant->sent_ms);
	zk->base.session_ms = zk->conn.ttl_ms;
	grant->fence = zk->own.fence;
}

static enum outcome report_try(struct zk_backend *zk, const struct request *request,
			       struct grant *grant)
{
	struct zk_own *own = &zk->own;

	if (own->blocked) {
		/* A claim needs a contact that is not too old, see zk_conn_lease(). */
		grant->retry_ms = clock_earlier(hold_retry_at(-1, 0, false),
						clock_boot_ms() + zk->conn.ttl_ms / 4);
		/* Without request->queue no entry is left. */
		zk->done = !request->queue;
		if (zk->done)
			zk_own_leave(zk);
		return OUTCOME_BUSY;
	}
	own->held = true;
	zk_grant(zk, grant);
	own->unwatched = true;
	grant->event_ms = clock_boot_ms() + WATCH_AFTER_MS;
	return OUTCOME_HELD;
}

enum outcome zk_acquire(struct backend *backend, const struct request *request, struct grant *grant,
			struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	const bool waited = zk->own.blocked;
	enum zk_end end = zk_conn_begin(&zk->conn, backend->connect_timeout_ms, request->ttl_ms);

	/* The end of a wait is reported, and the next acquire() makes another entry. */
	while (zk_conn_try(&zk->conn, !waited, &end, err)) {
		/* An entry ends with its session. */
		if (zk->own.session != zk->conn.session)
			zk->own = (struct zk_own){ .session = zk->conn.session };
		zk_directory(zk, request->name, zk->own.directory);
		zk_uuid(request->token, zk->own.uuid);
		end = zk->one_node ? try_node(zk, request, err) : try_queue(zk, request, err);
	}
	if (end == ZK_ENDED) {
		zk_own_leave(zk);
		if (waited)
			error_prefix(err, "back at the end of the queue");
	}
	zk_conn_free(&zk->conn);
	return end ? OUTCOME_ERROR : report_try(zk, request, grant);
}

/* ---- events ---- */

int64_t zk_event(struct backend *backend)
{
	struct zk_backend *zk = zk_from_backend(backend);
	struct zk_own *own = &zk->own;
	bool now;

	zk_conn_take_news(&zk->conn);
	now = backend->woken;
	backend->woken = false;
	/*
	 * What follows finds out whether the watch was set too late. With --no-renew that is a
	 * verification, which sets none.
	 */
	now |= own->held && own->unwatched;
	if (own->held && (own->unwatched || clock_boot_ms() >= own->contact_ms)) {
		own->unwatched = false;
		own->contact_ms = CLOCK_NEVER;
		zk_list(&zk->conn, own->at.node, &own->unwatched);
	}
	return now ? 0 : CLOCK_NEVER;
}
