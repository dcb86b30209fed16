/* SPDX-License-Identifier: MIT */
/* One try to hold with strategy queue, and what events mean for it: see backend.c. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock.h"
#include "ops.h"
#include "queue.h"

/*
 * When, after it has begun to hold at once, a holder asks to be told when its node goes. The
 * command starts quicker while the server has nothing else to do, and many end before that.
 */
#define WATCH_AFTER_MS 20

/* ---- its turn ---- */

/* It has held since its place was made, and its fence is known. */
static enum outcome hold_at_once(struct zk_backend *zk, struct grant *grant)
{
	struct zk_seat *seat = &zk->seat;

	seat->phase = ZK_HELD;
	zk_grant(zk, seat->sent_ms, grant);
	grant->event_ms = clock_boot_ms() + WATCH_AFTER_MS;
	zk_line_finish(&seat->line);
	return OUTCOME_HELD;
}

/*
 * Nobody is before us. A waiter writes that it holds, after which nobody removes its place. Its
 * requests also tell the fence, and ask to be told when the place goes, where that is missing.
 */
static enum outcome take_turn(struct zk_backend *zk, struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_state state = seat->state;
	struct zk_call *set = NULL, *own = NULL;
	char text[ZK_STATE_SIZE];
	int64_t sent_ms;
	int rc;

	if (seat->phase == ZK_TRYING && seat->fence)
		return hold_at_once(zk, grant);
	if (!zk_conn_fresh(&zk->conn, err))
		return OUTCOME_ERROR;
	state.phase = ZK_HELD;
	state.since_ms = clock_wall_ms();
	sent_ms = clock_boot_ms();
	if (seat->phase == ZK_WAITING) {
		zk_state_write(&state, text);
		set = zk_set(&zk->conn, seat->at.twin, text, seat->version);
	}
	if (!seat->fence || !seat->own_watch) {
		seat->own_watch = zk_watch_number(&zk->conn);
		own = zk_exists(&zk->conn, seat->at.place, seat->own_watch);
	}
	rc = zk_conn_wait(&zk->conn);
	if (!rc && set)
		rc = set->rc;
	if (rc == ZOK && own)
		rc = own->rc;
	if (rc == ZOK && own)
		seat->fence = (uint64_t)own->stat.czxid;
	zk_call_free(set);
	zk_call_free(own);
	if (rc != ZOK) {
		zk_seat_failed(zk, rc, "take its turn at", err);
		return OUTCOME_ERROR;
	}
	if (set) {
		seat->state = state;
		seat->version++;
	}
	seat->phase = ZK_HELD;
	zk_grant(zk, sent_ms, grant);
	zk_line_finish(&seat->line);
	return OUTCOME_HELD;
}

static void fill_busy(const struct zk_backend *zk, struct grant *grant)
{
	const struct zk_seat *seat = &zk->seat;

	grant->holder = seat->holder;
	grant->age_ms = zk_age_ms(seat->holder_since_ms);
	grant->ahead = zk_places_ahead(seat->line.places, seat->line.count - 1) +
		       seat->line.dropped;
	grant->retry_ms = seat->look_ms;
	/* Whoever has taken its turn, or cannot be removed, is not timed any more. */
	if (seat->turn_ms && !seat->answers)
		grant->retry_ms = clock_earlier(grant->retry_ms, seat->turn_ms + ZK_GRACE_MS);
}

/* It has a place: it holds, or it waits for one place before it, and only for that. */
static enum outcome advance(struct zk_backend *zk, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_line *line = &seat->line;
	ptrdiff_t blocker;
	int disagrees, again;

	/* A hold that nobody took, and that could not be given back, has no line any more. */
	if (!line->count)
		seat->stale = true;
	do {
		if (seat->stale && zk_seat_look(zk, false, err))
			return OUTCOME_ERROR;
		seat->stale = false;
		disagrees = zk_places_disagree(line->places, line->count - 1);
		if (disagrees && !hold_mode_slots_agree(disagrees, request, err))
			return OUTCOME_ERROR;
		blocker = zk_places_blocker(line->places, line->count - 1);
		if (blocker < 0)
			return take_turn(zk, grant, err);
		if (request->queue && !seat->line_watch &&
		    zk_places_any(line->places, line->count - 1))
			again = zk_seat_look(zk, true, err) ? -1 : 1;
		else
			again = zk_watch_out(zk, blocker, err);
	} while (again > 0);
	if (again < 0)
		return OUTCOME_ERROR;
	fill_busy(zk, grant);
	return OUTCOME_BUSY;
}

static enum outcome try_once(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err)
{
	bool waited = zk->seat.phase == ZK_WAITING;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err)) {
		if (err->errnum != ESTALE)
			return OUTCOME_ERROR;
		zk_seat_forget(&zk->seat);
		if (waited)
			error_set(err, ERROR_UNAVAILABLE, 0, "%s: the session expired while it "
				  "waited: back in line, at its end", zk->conn.label);
		err->errnum = ESTALE;
		return OUTCOME_ERROR;
	}
	if (!zk->seat.at.place[0] && zk_seat_take(zk, request, err))
		return OUTCOME_ERROR;
	return advance(zk, request, grant, err);
}

enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do
		outcome = try_once(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	/* Without a wait no place stays behind, nor after a mistake of the user's. */
	if ((outcome == OUTCOME_BUSY && !request->queue) ||
	    (outcome == OUTCOME_ERROR && err->kind == ERROR_USAGE))
		zk_seat_leave(zk);
	return outcome;
}

static ptrdiff_t watched_index(const struct zk_seat *seat)
{
	return seat->watched ? zk_line_find(&seat->line, seat->watched) : -1;
}

/* The watched place has gone. */
static void note_gone(struct zk_seat *seat)
{
	ptrdiff_t i = watched_index(seat);

	zk_watch_forget(seat);
	if (i < 0)
		return;
	/* If it has held alone, all before it had gone by then. Otherwise the line tells. */
	if (seat->held_alone) {
		zk_line_remove(&seat->line, 0, i + 1);
		seat->line.dropped = 0;
	} else if (i > 0 || seat->line.dropped) {
		seat->stale = true;
	} else {
		zk_line_remove(&seat->line, 0, 1);
	}
}

/* The twin of the watched place has changed. true: there is nothing to do about it. */
static bool note_changed(struct zk_seat *seat)
{
	ptrdiff_t i = watched_index(seat);

	if (seat->before_waits && i >= 0 && seat->line.places[i].mode == HOLD_EXCLUSIVE) {
		seat->held_alone = true;
		seat->answers = true;
		return true;
	}
	/* Not the end of its waiting, or of a slot's, which a waiter for a slot must see. */
	zk_watch_forget(seat);
	seat->stale |= i >= 0 && seat->line.places[i].mode == HOLD_SLOT;
	return false;
}

static int64_t take_in(struct zk_seat *seat, const struct zk_event *event)
{
	if (event->watch == seat->own_watch) {
		seat->stale = true;
		return 0;
	}
	if (seat->phase == ZK_HELD)
		return CLOCK_NEVER;
	if (seat->line_watch && event->watch == seat->line_watch) {
		seat->line_watch = 0;
		return 0;
	}
	if (event->watch == seat->twin_watch && !event->gone)
		return note_changed(seat) ? CLOCK_NEVER : 0;
	if (event->watch != seat->place_watch)
		return CLOCK_NEVER;
	note_gone(seat);
	return 0;
}

int64_t zk_queue_event(struct zk_backend *zk)
{
	struct zk_seat *seat = &zk->seat;
	int64_t next_ms = CLOCK_NEVER;
	struct zk_event event;

	/* The renewal that proves that the node is there also sets the watch on it. */
	if (seat->phase == ZK_HELD && !seat->own_watch) {
		seat->own_watch = zk_watch_number(&zk->conn);
		next_ms = 0;
	}
	while (zk_conn_event(&zk->conn, &event))
		next_ms = clock_earlier(next_ms, take_in(seat, &event));
	if (zk_conn_lost_events(&zk->conn)) {
		seat->stale = true;
		zk_watch_forget(seat);
		next_ms = 0;
	}
	return zk_conn_broken(&zk->conn) ? 0 : next_ms;
}
