/* SPDX-License-Identifier: MIT */
/* Waiting in the line of strategy queue: see zookeeper.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "zookeeper_lock.h"

/* A waiter looks so often, for what no watch tells it of (SPEC, 2.7). */
#define LOOK_MS 5000
/* At a place so far before its own, so that what it asks for stays small. */
#define LOOK_BACK 16

/* ---- its turn ---- */

/* The place is not there any more, though the session is. */
static enum outcome place_gone(struct zk_backend *zk, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: the place in line was taken away, for it did "
		  "not answer when its turn came: back in line, at its end", zk->conn.label);
	/* Who has waited is told, and tries again: see zk_conn_again(). */
	if (zk->seat.phase == ZK_WAITING)
		err->errnum = ESTALE;
	zk_seat_forget(&zk->seat);
	return OUTCOME_ERROR;
}

/* It holds since its place was made, and knows all that it has to know. */
static enum outcome hold_at_once(struct zk_backend *zk, struct grant *grant)
{
	struct zk_seat *seat = &zk->seat;

	seat->phase = ZK_HELD;
	seat->own_watch = zk_watch_number(&zk->conn);
	/* The answer is not waited for: should the node be gone, the next renewal sees it. */
	zk_call_free(zk_exists(&zk->conn, seat->place, seat->own_watch));
	zk_grant(zk, seat->sent_ms, grant);
	zk_line_finish(&seat->line);
	return OUTCOME_HELD;
}

/* Nobody is before us. Who waited says that it holds, which nobody can undo then. */
static enum outcome take_turn(struct zk_backend *zk, struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_state state = seat->state;
	struct zk_call *set = NULL, *own;
	char text[ZK_STATE_SIZE];
	int64_t sent_ms;
	int rc;

	if (seat->phase == ZK_TRYING && seat->fence)
		return hold_at_once(zk, grant);
	/* Last heard of too long ago: a new connection proves the session anew. */
	if (zk_conn_lease(&zk->conn, clock_boot_ms()) < zk->conn.ttl_ms / 2) {
		zk_conn_kick(&zk->conn);
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: connecting anew", zk->conn.label);
		return OUTCOME_ERROR;
	}
	state.phase = ZK_HELD;
	state.since_ms = clock_wall_ms();
	sent_ms = clock_boot_ms();
	if (seat->phase == ZK_WAITING) {
		zk_state_write(&state, text);
		set = zk_set(&zk->conn, seat->twin, text, seat->version);
	}
	seat->own_watch = zk_watch_number(&zk->conn);
	own = zk_exists(&zk->conn, seat->place, seat->own_watch);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : set ? set->rc : ZOK;
	if (rc == ZOK)
		rc = own->rc;
	seat->fence = rc == ZOK ? (uint64_t)own->stat.czxid : 0;
	zk_call_free(set);
	zk_call_free(own);
	if (rc == ZNONODE)
		return place_gone(zk, err);
	if (rc != ZOK) {
		if (err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "take its turn at", seat->place, err);
		/* It may be written, or not: the data of the twin will tell. */
		seat->maybe = true;
		seat->place[0] = '\0';
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

/* Sets the watch on the place before us, unless it is set. */
static bool is_watched(const struct zk_seat *seat, const struct zk_place *place)
{
	return seat->watched && !strcmp(seat->watched, place->name);
}

/* What has been asked, in one go, about those before us. */
struct look {
	struct zk_call *waiting;	/* our own twin is told that we wait */
	struct zk_call *place;		/* the one that we wait for */
	struct zk_call *twin;		/* whether it has taken its turn */
	struct zk_call *head;		/* who holds */
	struct zk_call *head_twin;
	struct zk_call *far;		/* one that no watch tells of */
};

static void look_finish(struct look *look)
{
	zk_call_free(look->waiting);
	zk_call_free(look->place);
	zk_call_free(look->twin);
	zk_call_free(look->head);
	zk_call_free(look->head_twin);
	zk_call_free(look->far);
}

static struct zk_call *get_node(struct zk_backend *zk, const char *name, uint32_t watch)
{
	char path[ZK_PATH_SIZE];

	zk_node(zk->seat.directory, name, path);
	return zk_get(&zk->conn, path, watch);
}

static int64_t look_pause_ms(const struct zk_backend *zk)
{
	/* Often enough, too, for zk_conn_lease() to have something to go by. */
	return clock_earlier(LOOK_MS, zk->conn.ttl_ms / 4);
}

/*
 * For one who waits for a slot it also matters when the one before has taken its own; the
 * twin of that one changes then, and goes with it.
 */
static bool by_twin(const struct zk_seat *seat, ptrdiff_t i)
{
	const struct zk_place *places = seat->line.places;
	ptrdiff_t me = seat->line.count - 1;

	return places[me].mode == HOLD_SLOT && places[i].mode == HOLD_SLOT &&
	       !zk_places_any(places, me) && zk_line_twin(&seat->line, &places[i]);
}

/* Asks what there is to ask about place i, which we wait for. */
static void ask(struct zk_backend *zk, ptrdiff_t i, struct look *look)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_place *place = &seat->line.places[i], *twin;
	bool turn = zk_places_blocker(seat->line.places, i) < 0;
	ptrdiff_t me = seat->line.count - 1, far;
	char text[ZK_STATE_SIZE];

	if (seat->phase == ZK_TRYING) {
		seat->state.phase = ZK_WAITING;
		zk_state_write(&seat->state, text);
		look->waiting = zk_set(&zk->conn, seat->twin, text, seat->version);
		look->head = get_node(zk, seat->line.places[0].name, 0);
		twin = zk_line_twin(&seat->line, &seat->line.places[0]);
		if (twin)
			look->head_twin = get_node(zk, twin->name, 0);
	}
	if (!is_watched(seat, place)) {
		seat->place_watch = zk_watch_number(&zk->conn);
		seat->answers = false;
		seat->turn_ms = 0;
		look->place = get_node(zk, place->name, by_twin(seat, i) ? 0 : seat->place_watch);
	}
	twin = zk_line_twin(&seat->line, place);
	if (look->place && by_twin(seat, i))
		look->twin = get_node(zk, twin->name, seat->place_watch);
	else if (turn && twin && !seat->answers)
		look->twin = get_node(zk, twin->name, 0);
	if (seat->look_ms && clock_boot_ms() >= seat->look_ms) {
		far = seat->look_near ? i : me > LOOK_BACK ? me - LOOK_BACK : 0;
		seat->look_near = !seat->look_near;
		look->far = get_node(zk, seat->line.places[far].name, 0);
	}
}

/* Takes in who holds, as far as it was asked. */
static void note_holder(struct zk_backend *zk, const struct look *look)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_call *data = look->head, *twin = look->head_twin;
	struct zk_state state;

	/* The one that we wait for is at the head. */
	if (!data && look->place && seat->line.count == 2) {
		data = look->place;
		twin = look->twin;
	}
	if (!data || data->rc != ZOK)
		return;
	if (twin && twin->rc == ZOK)
		zk_state_read(&state, twin->text, twin->length);
	zk_describe(&seat->line.places[0], data, twin && twin->rc == ZOK ? &state : NULL,
		    &seat->holder, &seat->holder_since_ms);
}

/*
 * Has the one that we wait for, whose turn it is, taken it? If not for ZK_GRACE_MS, it is
 * removed, unless it takes it this moment. 1: it is gone; 0; -1 with *err.
 */
static int check_turn(struct zk_backend *zk, ptrdiff_t i, const struct zk_call *twin,
		      struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	char paths[2][ZK_PATH_SIZE];
	const char *const both[2] = { paths[0], paths[1] };
	struct zk_state state;
	struct zk_call *removed;
	int rc;

	if (!twin || twin->rc != ZOK)
		return 0;
	zk_state_read(&state, twin->text, twin->length);
	seat->answers = state.phase != ZK_WAITING;
	if (seat->answers) {
		seat->turn_ms = 0;
		return 0;
	}
	if (!seat->turn_ms)
		seat->turn_ms = clock_boot_ms();
	if (clock_boot_ms() - seat->turn_ms < ZK_GRACE_MS)
		return 0;
	zk_node(seat->directory, seat->line.places[i].name, paths[0]);
	zk_node(seat->directory, zk_line_twin(&seat->line, &seat->line.places[i])->name, paths[1]);
	removed = zk_delete_two(&zk->conn, both, twin->stat.version);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : removed->rc;
	zk_call_free(removed);
	if (err->kind != ERROR_NONE)
		return -1;
	/* Not ours to remove: its session will end one day. */
	if (rc == ZNOAUTH)
		seat->answers = true;
	return rc == ZOK || rc == ZNONODE;
}

/* Reads the line again: those before us may be others than we think. */
static int read_again(struct zk_backend *zk, bool watch, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_line line;

	seat->line_watch = watch ? zk_watch_number(&zk->conn) : 0;
	if (zk_line_get(zk, seat->directory, seat->line_watch, &line, err)) {
		zk_line_finish(&line);
		return -1;
	}
	return zk_seat_sit(zk, &line, err);
}

/*
 * Sees to it that a watch tells of the end of place i, which we wait for. 1: it has ended,
 * or the line has to be looked at anew; 0; -1 with *err.
 */
static int watch_out(struct zk_backend *zk, ptrdiff_t i, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct look look = { .place = NULL };
	int result;

	ask(zk, i, &look);
	result = zk_conn_wait(&zk->conn, err);
	if (result)
		goto out;
	result = 1;
	if (look.waiting && look.waiting->rc != ZOK) {
		zk_call_error(&zk->conn, look.waiting->rc, "wait at", seat->twin, err);
		if (look.waiting->rc == ZNONODE)
			place_gone(zk, err);
		else
			seat->maybe = true, seat->place[0] = '\0';
		result = -1;
		goto out;
	}
	if (look.waiting) {
		seat->phase = ZK_WAITING;
		seat->version++;
	}
	note_holder(zk, &look);
	if (look.place && look.place->rc == ZNONODE) {
		zk_line_remove(&seat->line, i);
		goto out;
	}
	if (look.place && look.place->rc != ZOK) {
		zk_call_error(&zk->conn, look.place->rc, "watch", seat->line.places[i].name, err);
		result = -1;
		goto out;
	}
	if (look.place) {
		free(seat->watched);
		seat->watched = strdup(seat->line.places[i].name);
	}
	if (look.far && look.far->rc == ZNONODE) {
		result = read_again(zk, false, err) ? -1 : 1;
		goto out;
	}
	if (!seat->look_ms || look.far)
		seat->look_ms = clock_boot_ms() + look_pause_ms(zk);
	if (zk_places_blocker(seat->line.places, i) < 0)
		result = check_turn(zk, i, look.twin, err);
	else
		result = 0;
	if (result > 0)
		zk_line_remove(&seat->line, i);
out:
	look_finish(&look);
	return result;
}

static void fill_busy(const struct zk_backend *zk, struct grant *grant)
{
	const struct zk_seat *seat = &zk->seat;

	grant->holder = seat->holder;
	grant->age_ms = -1;
	if (seat->holder_since_ms)
		grant->age_ms = clock_wall_ms() - seat->holder_since_ms;
	if (seat->holder_since_ms && grant->age_ms < 0)
		grant->age_ms = 0;
	grant->ahead = zk_places_ahead(seat->line.places, seat->line.count - 1);
	grant->retry_ms = seat->look_ms;
	if (seat->turn_ms)
		grant->retry_ms = clock_earlier(grant->retry_ms, seat->turn_ms + ZK_GRACE_MS);
}

/* Has the place: holds, or waits for the one before it, and only for that. */
static enum outcome advance(struct zk_backend *zk, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	ptrdiff_t blocker;
	int disagrees, again;

	do {
		disagrees = zk_places_disagree(seat->line.places, seat->line.count - 1);
		if (disagrees) {
			error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with those who hold "
				  "it now, with --slots %d", request->slots, disagrees);
			return OUTCOME_ERROR;
		}
		if (seat->stale && read_again(zk, false, err))
			return OUTCOME_ERROR;
		seat->stale = false;
		blocker = zk_places_blocker(seat->line.places, seat->line.count - 1);
		if (blocker < 0)
			return take_turn(zk, grant, err);
		if (zk_places_any(seat->line.places, seat->line.count - 1) && !seat->line_watch &&
		    request->queue) {
			if (read_again(zk, true, err))
				return OUTCOME_ERROR;
			again = 1;
			continue;
		}
		again = watch_out(zk, blocker, err);
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
	if (!zk->seat.place[0] && zk_seat_take(zk, request, err))
		return OUTCOME_ERROR;
	return advance(zk, request, grant, err);
}

enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = try_once(zk, request, grant, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	/* Who does not wait leaves no place behind; nor does who is told what is wrong. */
	if ((outcome == OUTCOME_BUSY && !request->queue) ||
	    (outcome == OUTCOME_ERROR && err->kind == ERROR_USAGE))
		zk_seat_leave(zk);
	return outcome;
}

int64_t zk_queue_event(struct zk_backend *zk)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_event event;
	int64_t next_ms = CLOCK_NEVER;
	ptrdiff_t i;

	while (zk_conn_event(&zk->conn, &event)) {
		if (seat->phase == ZK_HELD) {
			if (event.watch == seat->own_watch)
				next_ms = 0;
			continue;
		}
		if (event.watch == seat->line_watch && seat->line_watch) {
			seat->line_watch = 0;
			next_ms = 0;
		}
		if (event.watch != seat->place_watch)
			continue;
		i = seat->watched ? zk_line_find(&seat->line, seat->watched) : -1;
		free(seat->watched);
		seat->watched = NULL;
		if (event.gone && i >= 0)
			zk_line_remove(&seat->line, i);
		else
			seat->stale = true;
		next_ms = 0;
	}
	if (zk_conn_lost_events(&zk->conn)) {
		seat->stale = true;
		free(seat->watched);
		seat->watched = NULL;
		next_ms = 0;
	}
	return zk_conn_broken(&zk->conn) ? 0 : next_ms;
}
