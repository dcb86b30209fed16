/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "directory.h"
#include "lock.h"
#include "path.h"
#include "queue.h"
#include "token.h"

/* The server may remove a directory as soon as it was made, for it is empty. */
#define MAKE_TRIES 20

void zk_seat_forget(struct zk_seat *seat)
{
	zk_line_finish(&seat->line);
	free(seat->watched);
	*seat = (struct zk_seat){ .maybe = false };
}

void zk_seat_leave(struct zk_backend *zk)
{
	zk_conn_close(&zk->conn);
	zk_seat_forget(&zk->seat);
}

/* The place is not there any more, though the session is: fills *err. Returns -1. */
static int gone(struct zk_backend *zk, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: the place in line was taken away, for it did "
		  "not answer when its turn came: back in line, at its end", zk->conn.label);
	/* A waiter is told before it tries again: see zk_conn_again(). */
	if (zk->seat.phase == ZK_WAITING)
		err->errnum = ESTALE;
	/* With what is left of it: the twin, should somebody have removed the place alone. */
	zk_seat_leave(zk);
	return -1;
}

int zk_seat_failed(struct zk_backend *zk, int rc, const char *what, struct error *err)
{
	if (rc == ZNONODE)
		return gone(zk, err);
	zk_call_error(&zk->conn, rc, what, zk->seat.at.place, err);
	/* What was to be written may be there, or not: the data of the twin will tell. */
	zk->seat.maybe = true;
	zk->seat.at.place[0] = '\0';
	return -1;
}

void zk_grant(struct zk_backend *zk, int64_t sent_ms, struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = zk_conn_lease(&zk->conn, sent_ms);
	zk->base.session_ms = zk->conn.ttl_ms;
	grant->fence = zk->seat.fence;
}

/* ---- the line ---- */

/* Keeps of the line that was read our place and those before it, for they are what matters. */
static int sit(struct zk_backend *zk, struct zk_line *line, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	ptrdiff_t me = zk_line_find(line, strrchr(seat->at.place, '/') + 1);

	if (me < 0) {
		zk_line_finish(line);
		return gone(zk, err);
	}
	zk_line_finish(&seat->line);
	seat->line = *line;
	zk_line_shorten(&seat->line, me);
	if (!seat->line.kept)
		seat->line.count = me + 1;
	seat->look_ms = 0;
	return 0;
}

int zk_seat_look(struct zk_backend *zk, bool watch, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_line line;

	seat->line_watch = watch ? zk_watch_number(&zk->conn) : 0;
	if (zk_line_get(&zk->conn, seat->directory, seat->line_watch, &line, err))
		return -1;
	return sit(zk, &line, err);
}

/* ---- getting a place ---- */

/* An earlier request was not answered: is there a place of this session with our uuid? */
static int find_seat(struct zk_backend *zk, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_found found;

	memcpy(found.directory, seat->directory, ZK_PATH_SIZE);
	if (zk_find_uuid(zk, seat->uuid, &found, err) == OUTCOME_ERROR)
		return -1;
	seat->maybe = false;
	/* There is none, or one of an older session of ours, which goes with that session. */
	if (found.owner != zk_conn_session(&zk->conn))
		return 0;
	seat->at = found.at;
	seat->state = found.state;
	seat->phase = found.state.phase;
	seat->version = found.version;
	return zk_seat_look(zk, false, err);
}

/* Requests that go in one write: for a place, and for the line with it. */
struct sitting {
	struct zk_call *made;		/* the directory; NULL: it was not asked for */
	struct zk_call *before;		/* the directory's stat */
	struct zk_call *created;
	struct zk_call *names;
};

static void send_sitting(struct zk_backend *zk, const struct request *request, bool make,
			 struct sitting *sitting)
{
	char prefix[ZK_PREFIX_SIZE], state[ZK_STATE_SIZE], who[HOLDER_TEXT_SIZE];
	const char *const texts[2] = { who, state };
	struct zk_seat *seat = &zk->seat;
	struct zk_pair pair;

	zk_place_name(request->mode, request->slots, seat->uuid, false, prefix);
	zk_node(seat->directory, prefix, pair.place);
	zk_place_name(request->mode, request->slots, seat->uuid, true, prefix);
	zk_node(seat->directory, prefix, pair.twin);
	holder_encode(&request->self, who);
	seat->state = (struct zk_state){ .phase = ZK_TRYING, .min_ms = request->min_hold_ms,
					 .ttl_ms = zk->conn.ttl_ms };
	zk_state_write(&seat->state, state);
	seat->maybe = true;
	seat->sent_ms = clock_boot_ms();
	sitting->made = make ? zk_create(&zk->conn, seat->directory, "", ZOO_CONTAINER) : NULL;
	sitting->before = zk_exists(&zk->conn, seat->directory, 0);
	sitting->created = zk_create_two(&zk->conn, &pair, texts);
	sitting->names = zk_list(&zk->conn, seat->directory, 0);
}

/*
 * The transaction that made the two nodes, if no other has added or removed any since: the
 * directory, if it is the same one, counts them (cversion), and knows the last one (pzxid).
 * 0: not known.
 */
static uint64_t fence_of(const struct sitting *sitting)
{
	const struct Stat *before = &sitting->before->stat, *after = &sitting->names->stat;

	if (sitting->before->rc != ZOK || before->czxid != after->czxid ||
	    (uint32_t)after->cversion - (uint32_t)before->cversion != 2)
		return 0;
	return (uint64_t)after->pzxid;
}

/* The place is there, and so is the line. */
static int settle(struct zk_backend *zk, struct sitting *sitting, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct zk_call *names = sitting->names;
	struct zk_line line;

	snprintf(seat->at.place, ZK_PATH_SIZE, "%s", sitting->created->made[0]);
	snprintf(seat->at.twin, ZK_PATH_SIZE, "%s", sitting->created->made[1]);
	seat->phase = ZK_TRYING;
	seat->version = 0;
	seat->fence = fence_of(sitting);
	seat->maybe = false;
	sitting->names = NULL;
	if (zk_line_read(&zk->conn, seat->directory, names, &line, err))
		return -1;
	return sit(zk, &line, err);
}

static void refuse_place(struct zk_backend *zk, int rc, struct error *err)
{
	if (rc == ZNOCHILDRENFOREPHEMERALS)
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s is a node by itself: others take "
			  "this lock with ?strategy=node", zk->conn.label, zk->seat.directory);
	else
		zk_call_error(&zk->conn, rc, "create a node in", zk->seat.directory, err);
}

/* make: the directory, too. 0 with a place; 1: there is no directory; -1 with *err. */
static int try_to_sit(struct zk_backend *zk, const struct request *request, bool make,
		      struct error *err)
{
	struct sitting sitting;
	int rc, result = -1;

	send_sitting(zk, request, make, &sitting);
	rc = zk_call_wait(sitting.created);
	if (rc == ZOK)
		rc = sitting.names->rc;
	if (rc == ZOK)
		result = settle(zk, &sitting, err);
	else if (rc == ZNONODE)
		result = 1;
	else
		refuse_place(zk, rc, err);
	if (result >= 0 || err->kind != ERROR_UNAVAILABLE)
		zk->seat.maybe = false;
	zk_call_free(sitting.made);
	zk_call_free(sitting.before);
	zk_call_free(sitting.created);
	zk_call_free(sitting.names);
	return result;
}

int zk_seat_take(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	int result;

	zk_directory(zk, request->name, seat->directory);
	zk_uuid(request->token, seat->uuid);
	if (seat->maybe && find_seat(zk, err))
		return -1;
	for (int tries = 0; !seat->at.place[0] && tries < MAKE_TRIES; tries++) {
		result = try_to_sit(zk, request, tries > 0, err);
		if (result <= 0)
			return result;
		/* The root is missing, or the server has no containers. */
		if (tries > 0 && zk_make_directory(zk, seat->directory, err))
			return -1;
	}
	if (seat->at.place[0])
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s is removed again and again",
			 zk->conn.label, seat->directory);
}
