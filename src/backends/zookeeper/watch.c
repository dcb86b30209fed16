/* SPDX-License-Identifier: MIT */
/* Watching the place before one's own, for strategy queue: see backend.c. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"

/* A waiter looks so often, for what no watch tells it of (SPEC, 2.7). */
#define LOOK_MS 5000
#define LOOK_JITTER_MS 1000
/* At a place so far before its own, so that what it asks for stays small. */
#define LOOK_BACK (ZK_LINE_KEPT - 1)

/* Sets the watch on the place before us, unless it is set. */
static bool is_watched(const struct zk_seat *seat, const struct zk_place *place)
{
	return seat->watched && !strcmp(seat->watched, place->name);
}

/* What has been asked, in one go, about those before us. */
struct look {
	struct zk_call *waiting;	/* our own twin is told that we wait */
	struct zk_call *own;		/* our own place, for its fence, and with a watch */
	struct zk_call *place;		/* the one that we wait for */
	struct zk_call *twin;		/* whether it has taken its turn */
	struct zk_call *head;		/* who holds */
	struct zk_call *head_twin;
	struct zk_call *far;		/* one that no watch tells of */
};

static void look_finish(struct look *look)
{
	zk_call_free(look->waiting);
	zk_call_free(look->own);
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
	return clock_earlier(LOOK_MS + rand() % LOOK_JITTER_MS, zk->conn.ttl_ms / 4);
}

/*
 * Asks for place i with a watch on its end, and for its twin with one on the end of its
 * waiting. For one who waits for a slot that moves it on. For the others it says what is
 * before the place: nobody, once it holds alone, so that at its end nothing has to be asked.
 */
static void ask_before(struct zk_backend *zk, ptrdiff_t i, struct look *look)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_place *place = &seat->line.places[i];
	const struct zk_place *twin = zk_line_twin(&seat->line, place);

	seat->answers = false;
	seat->turn_ms = 0;
	seat->before_waits = false;
	seat->held_alone = false;
	seat->place_watch = zk_watch_number(&zk->conn);
	look->place = get_node(zk, place->name, seat->place_watch);
	if (!twin)
		return;
	seat->twin_watch = zk_watch_number(&zk->conn);
	look->twin = get_node(zk, twin->name, seat->twin_watch);
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
		seat->own_watch = zk_watch_number(&zk->conn);
		look->own = zk_exists(&zk->conn, seat->place, seat->own_watch);
		look->head = get_node(zk, seat->line.places[0].name, 0);
		twin = zk_line_twin(&seat->line, &seat->line.places[0]);
		if (twin)
			look->head_twin = get_node(zk, twin->name, 0);
	}
	twin = zk_line_twin(&seat->line, place);
	if (!is_watched(seat, place))
		ask_before(zk, i, look);
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

int zk_read_again(struct zk_backend *zk, bool watch, struct error *err)
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

/* What the place before ours does, as far as its twin says so. */
static void note_before(struct zk_seat *seat, ptrdiff_t i, const struct zk_call *twin)
{
	struct zk_state state;

	if (!twin || twin->rc != ZOK)
		return;
	zk_state_read(&state, twin->text, twin->length);
	seat->before_waits = state.phase == ZK_WAITING;
	seat->held_alone = state.phase == ZK_HELD &&
			   seat->line.places[i].mode == HOLD_EXCLUSIVE;
}

int zk_watch_out(struct zk_backend *zk, ptrdiff_t i, struct error *err)
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
			zk_seat_gone(zk, err);
		else
			seat->maybe = true, seat->place[0] = '\0';
		result = -1;
		goto out;
	}
	if (look.waiting) {
		seat->phase = ZK_WAITING;
		seat->version++;
		seat->fence = look.own->rc == ZOK ? (uint64_t)look.own->stat.czxid : 0;
	}
	note_holder(zk, &look);
	if (look.place && look.place->rc == ZNONODE) {
		/* Others have probably gone, too. */
		if (i > 0)
			result = zk_read_again(zk, false, err) ? -1 : 1;
		else
			zk_line_remove(&seat->line, 0, 1);
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
		note_before(seat, i, look.twin);
	}
	if (look.far && look.far->rc == ZNONODE) {
		result = zk_read_again(zk, false, err) ? -1 : 1;
		goto out;
	}
	if (!seat->look_ms || look.far)
		seat->look_ms = clock_boot_ms() + look_pause_ms(zk);
	if (zk_places_blocker(seat->line.places, i) < 0)
		result = check_turn(zk, i, look.twin, err);
	else
		result = 0;
	if (result > 0)
		zk_line_remove(&seat->line, i, 1);
out:
	look_finish(&look);
	return result;
}
