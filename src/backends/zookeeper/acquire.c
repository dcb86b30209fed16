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

/* 1: another step; 0: we hold if no entry blocks ours, and wait otherwise; -1 with *err. */
static int take_step(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	int result;

	if ((own->turn || own->stale || clock_boot_ms() >= own->list_ms) &&
	    zk_read_queue(zk, request, own->turn, err))
		return -1;
	if (own->other_slots && !hold_mode_slots_agree(own->other_slots, request, err))
		return -1;
	if (!own->nearest) {
		own->turn = own->state != ZK_HELD && (own->state != ZK_NEW || !own->fence);
		return own->turn;
	}
	if (!request->queue)
		return 0;
	own->stale = own->any && !own->directory_watch;
	if (own->stale)
		return 1;
	if (clock_boot_ms() >= clock_earlier(own->check_ms, own->look_ms)) {
		result = zk_check_others(zk, err);
		own->stale = result > 0;
		if (result)
			return result;
	}
	return zk_watch_others(zk, request, err);
}

void zk_grant(struct zk_backend *zk, int64_t sent_ms, struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = zk_conn_lease(&zk->conn, sent_ms);
	zk->base.session_ms = zk->conn.ttl_ms;
	grant->fence = zk->own.fence;
}

static enum outcome hold(struct zk_backend *zk, struct grant *grant)
{
	struct zk_own *own = &zk->own;

	own->held = true;
	zk_grant(zk, own->sent_ms, grant);
	if (!own->watch)
		grant->event_ms = clock_boot_ms() + WATCH_AFTER_MS;
	zk_queue_finish(&own->queue);
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
	if (!own->nearest)
		return hold(zk, grant);
	grant->retry_ms = clock_earlier(own->list_ms, clock_earlier(own->check_ms, own->look_ms));
	return OUTCOME_BUSY;
}

enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do
		outcome = try_once(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	/* Without a wait no entry is left, nor after a mistake of the user's. */
	if (outcome == OUTCOME_BUSY && !request->queue)
		zk_own_delete(zk);
	else if (outcome == OUTCOME_ERROR && err->kind == ERROR_USAGE)
		zk_own_leave(zk);
	return outcome;
}

/* ---- events ---- */

/* Returns when to call acquire() or renew(). */
static int64_t take_event(struct zk_own *own, uint32_t watch)
{
	if (watch == own->watch) {
		own->stale = true;
		return 0;
	}
	if (own->held)
		return CLOCK_NEVER;
	if (own->directory_watch && watch == own->directory_watch) {
		own->directory_watch = 0;
		own->stale = true;
		return 0;
	}
	for (int i = 0; i < ZK_WATCHED; i++)
		if (own->watched[i].name && watch == own->watched[i].number)
			zk_watch_ended(own, &own->watched[i]);
	return own->turn ? 0 : clock_earlier(own->list_ms, own->check_ms);
}

int64_t zk_queue_event(struct zk_backend *zk)
{
	struct zk_own *own = &zk->own;
	int64_t next_ms = zk->conn.broken ? 0 : CLOCK_NEVER;

	/* The renewal or verification that follows tells whether the watch came too late. */
	if (own->held && !own->watch) {
		own->watch = zk_watch_number(&zk->conn);
		zk_call_free(zk_list(&zk->conn, own->at.node, own->watch));
		next_ms = 0;
	}
	for (size_t i = 0; i < zk->conn.fired_count; i++)
		next_ms = clock_earlier(next_ms, take_event(own, zk->conn.fired[i]));
	zk->conn.fired_count = 0;
	zk->conn.broken = false;
	return next_ms;
}
