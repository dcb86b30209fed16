/* SPDX-License-Identifier: MIT */
/*
 * Strategy node: the lock is one ephemeral node, <root>/<name>, of whoever makes it. All others
 * watch it, and all of them try when it goes, so there is a herd and no order. The node says in
 * its data whose it is (state.h). There are only exclusive holds.
 *
 * The holder releases by ending its session, which removes no node of anybody else's. Another
 * process that releases by the token removes the version of the node that it has looked at.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "directory.h"
#include "lock.h"
#include "ops.h"
#include "path.h"
#include "queue.h"

/* How often a waiter looks for what no watch tells of. */
#define LOOK_MS 5000
/* How often in a row the node may be there when it is made, and gone when it is read. */
#define TRIES 100

static enum outcome hold(struct zk_backend *zk, const struct Stat *stat, int64_t sent_ms,
			 struct grant *grant)
{
	struct zk_seat *seat = &zk->seat;

	memcpy(seat->at.place, seat->directory, ZK_PATH_SIZE);
	memcpy(seat->at.twin, seat->directory, ZK_PATH_SIZE);
	seat->phase = ZK_HELD;
	seat->fence = (uint64_t)stat->czxid;
	zk_grant(zk, sent_ms, grant);
	return OUTCOME_HELD;
}

static enum outcome busy(struct zk_backend *zk, const struct zk_call *data, struct grant *grant)
{
	static const struct zk_place place = { .name = "", .maker = ZK_DLOCK };
	struct zk_state state;
	int64_t since_ms;

	zk_call_state(data, &state);
	zk_describe(&place, data, &state, &grant->holder, &since_ms);
	grant->age_ms = zk_age_ms(since_ms);
	grant->ahead = -1;
	grant->retry_ms = clock_boot_ms() + clock_earlier(LOOK_MS, zk->conn.ttl_ms / 4);
	return OUTCOME_BUSY;
}

/* The node is no lock of this kind, but a directory: removed if it was left empty. 0 or -1. */
static int remove_other(struct zk_backend *zk, const struct Stat *stat, struct error *err)
{
	if (!stat->numChildren) {
		zk_remove_directory(zk, zk->seat.directory);
		return 0;
	}
	return error_set(err, ERROR_REFUSED, 0, "%s: %.200s has nodes below it: others take this "
			 "lock without ?strategy=node", zk->conn.label, zk->seat.directory);
}

static struct zk_call *create(struct zk_backend *zk, const struct request *request)
{
	struct zk_seat *seat = &zk->seat;
	char who[HOLDER_TEXT_SIZE], text[ZK_NODE_SIZE];

	seat->state = (struct zk_state){ .phase = ZK_HELD, .min_ms = request->min_hold_ms,
					 .ttl_ms = zk->conn.ttl_ms,
					 .since_ms = clock_wall_ms() };
	holder_encode(&request->self, who);
	zk_node_write(seat->uuid, &seat->state, who, text);
	seat->maybe = true;
	return zk_create(&zk->conn, seat->directory, text, ZOO_EPHEMERAL);
}

/* The node was to be made, with result rc, and read. As try_once(). */
static enum outcome judge(struct zk_backend *zk, int rc, const struct zk_call *data,
			  int64_t sent_ms, struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;

	if (rc == ZNONODE && zk_make_root(zk, err))
		return OUTCOME_ERROR;
	if (rc != ZOK && rc != ZNODEEXISTS && rc != ZNONODE) {
		zk_call_error(&zk->conn, rc, "create", seat->directory, err);
		return OUTCOME_ERROR;
	}
	if (data->rc == ZNONODE)
		return OUTCOME_LOST;
	if (data->rc != ZOK) {
		zk_call_error(&zk->conn, data->rc, "read", seat->directory, err);
		return OUTCOME_ERROR;
	}
	/* It may also be of an earlier request, whose answer was lost. */
	if (zk_node_is(data->text, seat->uuid) &&
	    data->stat.ephemeralOwner == zk_conn_session(&zk->conn)) {
		seat->own_watch = seat->place_watch;
		return hold(zk, &data->stat, sent_ms, grant);
	}
	if (data->stat.ephemeralOwner)
		return busy(zk, data, grant);
	return remove_other(zk, &data->stat, err) ? OUTCOME_ERROR : OUTCOME_LOST;
}

/* HELD; BUSY; ERROR; LOST: try again, the node has just gone, or its root was missing. */
static enum outcome try_once(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	int64_t sent_ms = clock_boot_ms();
	struct zk_call *created = create(zk, request), *data;
	enum outcome outcome;

	seat->place_watch = zk_watch_number(&zk->conn);
	data = zk_get(&zk->conn, seat->directory, seat->place_watch);
	outcome = judge(zk, zk_call_wait(created), data, sent_ms, grant, err);
	if (outcome != OUTCOME_ERROR || err->kind != ERROR_UNAVAILABLE)
		seat->maybe = false;
	zk_call_free(created);
	zk_call_free(data);
	return outcome;
}

static enum outcome try_some_times(struct zk_backend *zk, const struct request *request,
				   struct grant *grant, struct error *err)
{
	enum outcome outcome = OUTCOME_LOST;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err) || !zk_conn_fresh(&zk->conn, err))
		return OUTCOME_ERROR;
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

	zk_directory(zk, request->name, zk->seat.directory);
	zk_uuid(request->token, zk->seat.uuid);
	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do
		outcome = try_some_times(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	if (outcome == OUTCOME_BUSY && !request->queue)
		zk_seat_leave(zk);
	return outcome;
}
