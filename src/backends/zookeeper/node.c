/* SPDX-License-Identifier: MIT */
/*
 * Strategy node: the lock is one ephemeral node, <root>/<name>, of whoever makes it; the
 * others watch it, and all of them try when it goes. That is a herd, and no order. The node
 * says in its data whose it is: "uuid=…&state=…&host=…". Only exclusive holds.
 *
 * It ends with its session, so that who ends his own removes nobody else's. Who releases by
 * the token alone, from elsewhere, removes the version that it has looked at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"

/* Waiters look so often, too, for what no watch tells of. */
#define LOOK_MS 5000
/* How often in a row it may be gone when it is looked at, and there when it is made. */
#define TRIES 100

bool zk_node_is(const struct zk_call *data, const char *uuid)
{
	return data->rc == ZOK && data->length >= 5 + ZK_UUID_SIZE - 1 &&
	       !strncmp(data->text, "uuid=", 5) &&
	       !strncmp(data->text + 5, uuid, ZK_UUID_SIZE - 1);
}

static void write_text(const char *uuid, const struct zk_state *state, const char *who,
		       char text[static ZK_NODE_TEXT_SIZE])
{
	char state_text[ZK_STATE_SIZE];

	zk_state_write(state, state_text);
	snprintf(text, ZK_NODE_TEXT_SIZE, "uuid=%.36s&%s&%s", uuid, state_text, who);
}

void zk_node_text(const char *old, size_t length, const struct zk_state *state,
		  char text[static ZK_NODE_TEXT_SIZE])
{
	char who[HOLDER_TEXT_SIZE];
	struct holder holder;

	holder_decode(&holder, old, length);
	holder_encode(&holder, who);
	write_text(old + 5, state, who, text);
}

static enum outcome hold(struct zk_backend *zk, const struct Stat *stat, int64_t sent_ms,
			 struct grant *grant)
{
	struct zk_seat *seat = &zk->seat;

	snprintf(seat->place, ZK_PATH_SIZE, "%s", seat->directory);
	snprintf(seat->twin, ZK_PATH_SIZE, "%s", seat->directory);
	seat->phase = ZK_HELD;
	seat->fence = (uint64_t)stat->czxid;
	seat->session = zk_conn_session(&zk->conn);
	zk_grant(zk, sent_ms, grant);
	return OUTCOME_HELD;
}

/* Somebody has it; or is it ours, of a request whose answer was lost? */
static enum outcome read_holder(struct zk_backend *zk, const struct zk_call *data,
				struct grant *grant)
{
	static const struct zk_place place = { .name = "", .maker = ZK_DLOCK };
	struct zk_state state;
	int64_t since_ms;

	zk_state_read(&state, data->text, data->length);
	zk_describe(&place, data, state.phase == ZK_UNKNOWN ? NULL : &state, &grant->holder,
		    &since_ms);
	grant->age_ms = since_ms ? clock_wall_ms() - since_ms : -1;
	if (since_ms && grant->age_ms < 0)
		grant->age_ms = 0;
	grant->ahead = -1;
	grant->retry_ms = clock_boot_ms() + clock_earlier(LOOK_MS, zk->conn.ttl_ms / 4);
	return OUTCOME_BUSY;
}

/* A node that is no lock of this kind. Empty, it is a directory that was left; ZOK: gone. */
static int remove_other(struct zk_backend *zk, const struct Stat *stat, struct error *err)
{
	if (!stat->numChildren) {
		zk_remove_directory(zk, zk->seat.directory);
		return 0;
	}
	error_set(err, ERROR_REFUSED, 0, "%s: %.200s has nodes below it: others take this lock "
		  "without ?strategy=node", zk->conn.label, zk->seat.directory);
	return -1;
}

static struct zk_call *create(struct zk_backend *zk, const struct request *request)
{
	struct zk_seat *seat = &zk->seat;
	char who[HOLDER_TEXT_SIZE], text[ZK_NODE_TEXT_SIZE];

	seat->state = (struct zk_state){ .phase = ZK_HELD, .min_ms = request->min_hold_ms,
					 .ttl_ms = zk->conn.ttl_ms, .count = 1,
					 .since_ms = clock_wall_ms() };
	holder_encode(&request->self, who);
	write_text(seat->uuid, &seat->state, who, text);
	seat->maybe = true;
	return zk_create(&zk->conn, seat->directory, text, ZOO_EPHEMERAL);
}

/* HELD, BUSY, ERROR; LOST: the node has just gone, or its root was not there. */
static enum outcome try_once(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	int64_t sent_ms = clock_boot_ms();
	struct zk_call *created = create(zk, request), *data;
	enum outcome outcome = OUTCOME_LOST;
	int rc;

	seat->place_watch = zk_watch_number(&zk->conn);
	data = zk_get(&zk->conn, seat->directory, seat->place_watch);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : created->rc;
	if (rc == ZNONODE && zk_make_root(zk, err)) {
		outcome = OUTCOME_ERROR;
	} else if (rc != ZOK && rc != ZNODEEXISTS && rc != ZNONODE) {
		if (err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "create", seat->directory, err);
		outcome = OUTCOME_ERROR;
	} else if (data->rc == ZOK && zk_node_is(data, seat->uuid) &&
		   data->stat.ephemeralOwner == zk_conn_session(&zk->conn)) {
		seat->own_watch = seat->place_watch;
		outcome = hold(zk, &data->stat, sent_ms, grant);
	} else if (data->rc == ZOK && data->stat.ephemeralOwner) {
		outcome = read_holder(zk, data, grant);
	} else if (data->rc == ZOK && remove_other(zk, &data->stat, err)) {
		outcome = OUTCOME_ERROR;
	}
	if (err->kind != ERROR_UNAVAILABLE)
		seat->maybe = false;
	zk_call_free(created);
	zk_call_free(data);
	return outcome;
}

static enum outcome try_some_times(struct zk_backend *zk, const struct request *request,
				   struct grant *grant, struct error *err)
{
	enum outcome outcome = OUTCOME_LOST;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err))
		return OUTCOME_ERROR;
	/* Last heard of too long ago: see take_turn() in queue.c. */
	if (zk_conn_lease(&zk->conn, clock_boot_ms()) < zk->conn.ttl_ms / 2) {
		zk_conn_kick(&zk->conn);
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: connecting anew", zk->conn.label);
		return OUTCOME_ERROR;
	}
	for (int i = 0; i < TRIES && outcome == OUTCOME_LOST; i++)
		outcome = try_once(zk, request, grant, err);
	if (outcome != OUTCOME_LOST)
		return outcome;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s comes and goes", zk->conn.label,
		  zk->seat.directory);
	return OUTCOME_ERROR;
}

enum outcome zk_node_acquire(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err)
{
	enum outcome outcome;

	if (request->mode == HOLD_SHARED || request->mode == HOLD_SLOT) {
		error_set(err, ERROR_USAGE, 0, "?strategy=node has exclusive holds only: no %s",
			  request->mode == HOLD_SHARED ? "--shared" : "--slots");
		return OUTCOME_ERROR;
	}
	zk_directory(zk, request->name, zk->seat.directory);
	zk_uuid(request->token, zk->seat.uuid);
	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = try_some_times(zk, request, grant, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	if (outcome == OUTCOME_BUSY && !request->queue)
		zk_seat_leave(zk);
	return outcome;
}

int64_t zk_node_event(struct zk_backend *zk)
{
	int64_t next_ms = CLOCK_NEVER;
	struct zk_event event;

	while (zk_conn_event(&zk->conn, &event))
		if (event.watch == zk->seat.place_watch)
			next_ms = 0;
	return zk_conn_broken(&zk->conn) ? 0 : next_ms;
}
