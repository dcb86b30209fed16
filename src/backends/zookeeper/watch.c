/* SPDX-License-Identifier: MIT */
/* Watching the place before one's own, for strategy queue: see backend.c. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock.h"
#include "queue.h"

/* How often a waiter looks for what no watch tells of. */
#define LOOK_MS 5000
#define LOOK_JITTER_MS 1000
/* How far before its own place it looks: what zk_line_shorten() leaves is enough for that. */
#define LOOK_BACK (ZK_LINE_KEPT - 1)

/* Requests that go in one write, about those before us. NULL: not asked. */
struct look {
	struct zk_call *waiting;	/* writes into our own twin that we wait */
	struct zk_call *own;		/* our own place, for its fence, and with a watch */
	struct zk_call *place;		/* the place that we wait for */
	struct zk_call *twin;		/* its twin: whether it has taken its turn */
	struct zk_call *head;		/* the first in line, which holds */
	struct zk_call *head_twin;
	struct zk_call *far;		/* a place that no watch tells of */
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

void zk_watch_forget(struct zk_seat *seat)
{
	free(seat->watched);
	seat->watched = NULL;
}

static struct zk_call *get_node(struct zk_backend *zk, const struct zk_place *place,
				uint32_t watch)
{
	char path[ZK_PATH_SIZE];

	if (!place)
		return NULL;
	zk_node(zk->seat.directory, place->name, path);
	return zk_get(&zk->conn, path, watch);
}

static int64_t look_pause_ms(const struct zk_backend *zk)
{
	/* Also often enough for zk_conn_lease(), which needs contacts that are not too old. */
	return clock_earlier(LOOK_MS + rand() % LOOK_JITTER_MS, zk->conn.ttl_ms / 4);
}

/*
 * Asks for place i with a watch on its end, and for its twin with a watch on the end of its
 * waiting. Then a waiter for a slot looks anew whether it can go in. Every other waiter learns
 * that nobody is left before place i, once that holds alone; so at its end nothing has to be
 * asked.
 */
static void ask_before(struct zk_backend *zk, ptrdiff_t i, struct look *look)
{
	struct zk_seat *seat = &zk->seat;

	seat->answers = false;
	seat->turn_ms = 0;
	seat->before_waits = false;
	seat->held_alone = false;
	seat->place_watch = zk_watch_number(&zk->conn);
	seat->twin_watch = zk_watch_number(&zk->conn);
	look->place = get_node(zk, &seat->line.places[i], seat->place_watch);
	look->twin = get_node(zk, zk_line_twin(&seat->line, i), seat->twin_watch);
}

/* Asks what there is to ask about place i, which we wait for. */
static void ask(struct zk_backend *zk, ptrdiff_t i, struct look *look)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_place *place = &seat->line.places[i];
	bool turn = zk_places_blocker(seat->line.places, i) < 0;
	ptrdiff_t me = seat->line.count - 1, far;
	char text[ZK_STATE_SIZE];

	if (seat->phase == ZK_TRYING) {
		seat->state.phase = ZK_WAITING;
		zk_state_write(&seat->state, text);
		look->waiting = zk_set(&zk->conn, seat->at.twin, text, seat->version);
		seat->own_watch = zk_watch_number(&zk->conn);
		look->own = zk_exists(&zk->conn, seat->at.place, seat->own_watch);
		look->head = get_node(zk, &seat->line.places[0], 0);
		look->head_twin = get_node(zk, zk_line_twin(&seat->line, 0), 0);
	}
	if (!seat->watched || strcmp(seat->watched, place->name) != 0)
		ask_before(zk, i, look);
	else if (turn && !seat->answers)
		look->twin = get_node(zk, zk_line_twin(&seat->line, i), 0);
	if (seat->look_ms && clock_boot_ms() >= seat->look_ms) {
		far = seat->look_near ? i : me > LOOK_BACK ? me - LOOK_BACK : 0;
		seat->look_near = !seat->look_near;
		look->far = get_node(zk, &seat->line.places[far], 0);
	}
}

/* Notes who holds, to show, as far as that was asked. */
static void note_holder(struct zk_backend *zk, const struct look *look)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_call *data = look->head, *twin = look->head_twin;
	struct zk_state state;

	/* The place that we wait for is the head. */
	if (!data && look->place && seat->line.count == 2) {
		data = look->place;
		twin = look->twin;
	}
	if (data && data->rc == ZOK)
		zk_describe(&seat->line.places[0], data,
			    zk_call_state(twin, &state) ? &state : NULL, &seat->holder,
			    &seat->holder_since_ms);
}

/*
 * Place i, which we wait for, has its turn: has it taken it? If not for ZK_GRACE_MS, it is
 * removed, unless it takes its turn at this moment. 1: it is gone; 0; -1 with *err.
 */
static int check_turn(struct zk_backend *zk, ptrdiff_t i, const struct zk_call *twin,
		      struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_state state;
	struct zk_pair pair;
	int rc;

	if (!zk_call_state(twin, &state))
		return 0;
	seat->answers = state.phase != ZK_WAITING;
	if (seat->answers)
		return 0;
	if (!seat->turn_ms)
		seat->turn_ms = clock_boot_ms();
	if (clock_boot_ms() - seat->turn_ms < ZK_GRACE_MS)
		return 0;
	zk_line_pair(&seat->line, i, seat->directory, &pair);
	rc = zk_call_end(zk_delete_two(&zk->conn, &pair, twin->stat.version));
	if (rc == ZK_UNANSWERED)
		return zk_call_error(&zk->conn, rc, "remove", pair.place, err);
	/* Its ACL does not let us remove it. Its session will end one day. */
	if (rc == ZNOAUTH)
		seat->answers = true;
	return rc == ZOK || rc == ZNONODE;
}

/* Our own twin says that we wait: 0, or -1 with *err. */
static int note_waiting(struct zk_backend *zk, const struct look *look, struct error *err)
{
	struct zk_seat *seat = &zk->seat;

	if (look->waiting->rc != ZOK)
		return zk_seat_failed(zk, look->waiting->rc, "wait at", err);
	seat->phase = ZK_WAITING;
	seat->version++;
	seat->fence = look->own->rc == ZOK ? (uint64_t)look->own->stat.czxid : 0;
	return 0;
}

/* The watches on place i are set; what it does is known as far as its twin says so. */
static void note_watched(struct zk_seat *seat, ptrdiff_t i, const struct zk_call *twin)
{
	struct zk_state state;

	zk_watch_forget(seat);
	seat->watched = memory_copy(seat->line.places[i].name);
	if (!zk_call_state(twin, &state))
		return;
	seat->before_waits = state.phase == ZK_WAITING;
	seat->held_alone = state.phase == ZK_HELD &&
			   seat->line.places[i].mode == HOLD_EXCLUSIVE;
}

static int look_again(struct zk_backend *zk, struct error *err)
{
	return zk_seat_look(zk, false, err) ? -1 : 1;
}

/* All that was asked about place i is answered. As zk_watch_out(). */
static int take_in(struct zk_backend *zk, ptrdiff_t i, const struct look *look,
		   struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	int result = 0;

	if (look->waiting && note_waiting(zk, look, err))
		return -1;
	note_holder(zk, look);
	if (look->place && look->place->rc == ZNONODE) {
		/* Those before it have probably gone, too. */
		if (i > 0)
			return look_again(zk, err);
		zk_line_remove(&seat->line, 0, 1);
		return 1;
	}
	if (look->place && look->place->rc != ZOK)
		return zk_call_error(&zk->conn, look->place->rc, "watch",
				     seat->line.places[i].name, err);
	if (look->place)
		note_watched(seat, i, look->twin);
	if (look->far && look->far->rc == ZNONODE)
		return look_again(zk, err);
	if (!seat->look_ms || look->far)
		seat->look_ms = clock_boot_ms() + look_pause_ms(zk);
	if (zk_places_blocker(seat->line.places, i) < 0)
		result = check_turn(zk, i, look->twin, err);
	if (result > 0)
		zk_line_remove(&seat->line, i, 1);
	return result;
}

int zk_watch_out(struct zk_backend *zk, ptrdiff_t i, struct error *err)
{
	struct look look = { .place = NULL };
	int result;

	ask(zk, i, &look);
	result = zk_conn_wait(&zk->conn);
	if (result)
		result = zk_call_error(&zk->conn, result, "watch", zk->seat.directory, err);
	else
		result = take_in(zk, i, &look, err);
	look_finish(&look);
	return result;
}
