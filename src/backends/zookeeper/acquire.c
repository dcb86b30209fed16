/* SPDX-License-Identifier: MIT */
/* Strategy queue: one try to hold, and what events mean for it. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "acquire.h"

/*
 * A holder that held at once sets the watch on its own node after this time. The command starts
 * sooner while the server has nothing else to do, and many commands end before that.
 */
#define WATCH_AFTER_MS 20

/* ---- one try ---- */

/*
 * claim: write that we hold; list: read the queue; in one packet. Once it is written, nobody evicts
 * our entry. We hold if, in addition, the queue that was read before or after has no entry that
 * blocks ours: none can come before it.
 */
static int send_try(struct zk_backend *zk, const struct request *request, bool claim, bool list,
		    struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *set = NULL, *names = NULL;
	char data[ZK_RECORD_SIZE];
	int rc;

	if (claim && !zk_conn_fresh(&zk->conn, err))
		return -1;
	own->sent_ms = clock_boot_ms();
	if (claim) {
		own->taken_ms = clock_wall_ms();
		zk_record_write(data, NULL, ZK_HELD, own->taken_ms, request->text);
		set = zk_set(&zk->conn, own->at.node, data, own->version);
	}
	if (list && own->any && !own->directory_watch)
		own->directory_watch = ++zk->conn.last_watch;
	if (list)
		names = zk_list(&zk->conn, own->directory, own->directory_watch);
	rc = zk_conn_wait(&zk->conn);
	if (rc)
		rc = zk_own_failed(zk, rc, "list", err);
	else if (set)
		rc = zk_own_written(zk, set, ZK_HELD, err);
	if (!rc && names) {
		rc = zk_wait_read(zk, names, err);
		names = NULL;
	}
	/* It may not have been set. */
	if (rc)
		own->directory_watch = 0;
	zk_call_free(set);
	zk_call_free(names);
	return rc;
}

/* 1: another step; 0: we hold if no entry blocks ours, and wait otherwise; -1 with *err. */
static int take_step(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	int result;

	if ((own->turn || own->stale) &&
	    send_try(zk, request, own->turn && own->state != ZK_HELD, true, err))
		return -1;
	if (own->other_slots && !hold_mode_slots_agree(own->other_slots, request, err))
		return -1;
	if (!own->blocked && (own->state == ZK_HELD || (own->state == ZK_NEW && own->fence)))
		return 0;
	if (!own->blocked)
		return send_try(zk, request, true, false, err);
	if (!request->queue)
		return 0;
	own->stale = own->any && !own->directory_watch;
	if (own->stale)
		return 1;
	if (clock_boot_ms() >= own->look_ms) {
		result = zk_wait_check(zk, err);
		own->stale = result > 0;
		if (result)
			return result;
	}
	return zk_wait_watch(zk, request, err);
}

void zk_grant(struct zk_backend *zk, struct grant *grant)
{
	grant->sent_ms = zk->own.sent_ms;
	grant->ttl_ms = zk_conn_lease(&zk->conn, grant->sent_ms);
	zk->base.session_ms = zk->conn.ttl_ms;
	grant->fence = zk->own.fence;
}

static enum outcome hold(struct zk_backend *zk, struct grant *grant)
{
	struct zk_own *own = &zk->own;

	own->held = true;
	zk_grant(zk, grant);
	if (!own->watch)
		grant->event_ms = clock_boot_ms() + WATCH_AFTER_MS;
	zk_watch_forget(own);
	return OUTCOME_HELD;
}

static enum outcome try_once(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct zk_own *own = &zk->own;
	const bool waited = own->state == ZK_WAITING;
	int result;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err)) {
		if (err->errnum != ESTALE)
			return OUTCOME_ERROR;
		zk_own_forget(own);
		if (waited)
			error_set(err, ERROR_UNAVAILABLE, 0, "%s: the session expired while it "
				  "waited: back in the queue, at its end", zk->conn.label);
		err->errnum = ESTALE;
		return OUTCOME_ERROR;
	}
	/* A hold that nobody took, and that could not be released, is proven by the queue. */
	own->stale |= own->held;
	own->held = false;
	if (!own->at.node[0] && zk_enqueue(zk, request, err))
		return OUTCOME_ERROR;
	do
		result = take_step(zk, request, err);
	while (result > 0);
	if (result < 0)
		return OUTCOME_ERROR;
	if (!own->blocked)
		return hold(zk, grant);
	grant->retry_ms = own->look_ms;
	return OUTCOME_BUSY;
}

enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do
		outcome = try_once(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && err->errnum != ESTALE && zk_conn_again(&zk->conn, err));
	/* Without a wait no entry is left, nor after a mistake of the user's. */
	if (outcome == OUTCOME_BUSY && !request->queue)
		zk_own_delete(zk);
	else if (outcome == OUTCOME_ERROR && err->kind == ERROR_USAGE)
		zk_own_leave(zk);
	return outcome;
}

/* ---- events ---- */

void zk_watch_fired(struct zk_conn *conn, uint32_t watch)
{
	struct zk_own *own = &zk_from_backend(conn->backend)->own;

	own->stale |= watch == own->watch || watch == own->directory_watch;
	if (watch == own->directory_watch)
		own->directory_watch = 0;
	for (int i = 0; i < ZK_WATCHED; i++)
		if (own->watched[i].name && watch == own->watched[i].number)
			zk_wait_ended(own, &own->watched[i]);
}

int64_t zk_queue_event(struct zk_backend *zk)
{
	struct zk_own *own = &zk->own;
	bool now = zk->conn.broken || own->stale || own->turn;

	/* The renewal or verification that follows tells whether the watch came too late. */
	if (own->held && !own->watch) {
		own->watch = ++zk->conn.last_watch;
		zk_call_free(zk_list(&zk->conn, own->at.node, own->watch));
		now = true;
	}
	if (own->held)
		own->stale = false;
	zk->conn.fired = zk->conn.broken = false;
	return now ? 0 : own->held ? CLOCK_NEVER : own->look_ms;
}
