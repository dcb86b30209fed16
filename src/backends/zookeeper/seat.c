/* SPDX-License-Identifier: MIT */
/* Getting a place in the line of strategy queue, and leaving it: see backend.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"

/* A directory may be removed as soon as it was made, for it is empty. */
#define MAKE_TRIES 20

void zk_seat_forget(struct zk_seat *seat)
{
	zk_line_finish(&seat->line);
	free(seat->watched);
	*seat = (struct zk_seat){ .session = 0 };
}

void zk_seat_leave(struct zk_backend *zk)
{
	zk_conn_close(&zk->conn);
	zk_seat_forget(&zk->seat);
}

void zk_grant(struct zk_backend *zk, int64_t sent_ms, struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = zk_conn_lease(&zk->conn, sent_ms);
	grant->fence = zk->seat.fence;
}

/* ---- getting a place ---- */

static const char *name_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* It is in the line that was read: it and those before it are what matters. */
int zk_seat_sit(struct zk_backend *zk, struct zk_line *line, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	ptrdiff_t me = zk_line_find(line, name_of(seat->place));

	if (me < 0) {
		zk_line_finish(line);
		zk_seat_gone(zk, err);
		return -1;
	}
	zk_line_finish(&seat->line);
	seat->line = *line;
	zk_line_shorten(&seat->line, me);
	if (!seat->line.kept)
		seat->line.count = me + 1;
	seat->look_ms = 0;
	return 0;
}

/*
 * An earlier request was not answered: is there a place of this session with our uuid? The
 * server that is asked now may not have heard of it yet: hence sync.
 */
static int find_seat(struct zk_backend *zk, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	const struct zk_place *twin;
	struct zk_call *call = zk_sync(&zk->conn, zk->root);
	struct zk_line line;
	ptrdiff_t i;
	int failed = zk_line_get(zk, seat->directory, 0, &line, err);

	if (!failed && call->rc != ZOK) {
		zk_call_error(&zk->conn, call->rc, "sync", zk->root, err);
		failed = -1;
	}
	zk_call_free(call);
	if (failed) {
		zk_line_finish(&line);
		return -1;
	}
	i = zk_line_find_uuid(&line, seat->uuid);
	twin = i < 0 ? NULL : zk_line_twin(&line, &line.places[i]);
	if (!twin) {
		seat->maybe = false;
		zk_line_finish(&line);
		return 0;
	}
	zk_node(seat->directory, line.places[i].name, seat->place);
	zk_node(seat->directory, twin->name, seat->twin);
	call = zk_get(&zk->conn, seat->twin, 0);
	if (zk_conn_wait(&zk->conn, err) || call->rc != ZOK ||
	    call->stat.ephemeralOwner != zk_conn_session(&zk->conn)) {
		/* Of an older session of ours: it goes with that. */
		seat->place[0] = '\0';
		if (err->kind == ERROR_NONE)
			seat->maybe = false;
		zk_call_free(call);
		zk_line_finish(&line);
		return err->kind == ERROR_NONE ? 0 : -1;
	}
	zk_state_read(&seat->state, call->text, call->length);
	seat->phase = seat->state.phase;
	seat->version = call->stat.version;
	seat->session = call->stat.ephemeralOwner;
	seat->maybe = false;
	zk_call_free(call);
	return zk_seat_sit(zk, &line, err);
}

static void refuse_place(struct zk_backend *zk, int rc, struct error *err)
{
	if (rc == ZNOCHILDRENFOREPHEMERALS)
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s is a node by itself: others take "
			  "this lock with ?strategy=node", zk->conn.label, zk->seat.directory);
	else
		zk_call_error(&zk->conn, rc, "create a node in", zk->seat.directory, err);
}

/* Requests that go in one write: for a place, and for the line with it. */
struct sitting {
	struct zk_call *made;		/* the directory, if it was not there; NULL: not asked */
	struct zk_call *before;		/* the directory's stat */
	struct zk_call *created;
	struct zk_call *names;
};

static void send_sitting(struct zk_backend *zk, const struct request *request, bool make,
			 struct sitting *sitting)
{
	char prefixes[2][ZK_PREFIX_SIZE], paths[2][ZK_PATH_SIZE], text[ZK_STATE_SIZE];
	const char *const path[2] = { paths[0], paths[1] };
	char who[HOLDER_TEXT_SIZE];
	const char *const texts[2] = { who, text };
	struct zk_seat *seat = &zk->seat;

	for (int twin = 0; twin < 2; twin++) {
		zk_place_name(request->mode, request->slots, seat->uuid, twin, prefixes[twin]);
		zk_node(seat->directory, prefixes[twin], paths[twin]);
	}
	holder_encode(&request->self, who);
	seat->state = (struct zk_state){ .phase = ZK_TRYING, .min_ms = request->min_hold_ms,
					 .ttl_ms = zk->conn.ttl_ms, .count = 1 };
	zk_state_write(&seat->state, text);
	seat->maybe = true;
	seat->sent_ms = clock_boot_ms();
	sitting->made = make ? zk_create(&zk->conn, seat->directory, "", ZOO_CONTAINER) : NULL;
	sitting->before = zk_exists(&zk->conn, seat->directory, 0);
	sitting->created = zk_create_two(&zk->conn, path, texts);
	sitting->names = zk_list(&zk->conn, seat->directory, 0);
}

/*
 * The transaction that made the two nodes, if no other has added or removed any since: the
 * directory, if it is the same one, counts that (cversion), and knows the last one (pzxid).
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

	snprintf(seat->place, ZK_PATH_SIZE, "%s", sitting->created->made[0]);
	snprintf(seat->twin, ZK_PATH_SIZE, "%s", sitting->created->made[1]);
	seat->session = zk_conn_session(&zk->conn);
	seat->phase = ZK_TRYING;
	seat->version = 0;
	seat->fence = fence_of(sitting);
	seat->maybe = false;
	sitting->names = NULL;
	if (!zk_line_read(zk, seat->directory, names, &line, err))
		return zk_seat_sit(zk, &line, err);
	zk_line_finish(&line);
	return -1;
}

/* make: the directory, too. ZOK; ZNONODE; or another with *err. */
static int try_to_sit(struct zk_backend *zk, const struct request *request, bool make,
		      struct error *err)
{
	struct sitting sitting;
	int rc;

	send_sitting(zk, request, make, &sitting);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : sitting.created->rc;
	if (rc == ZOK)
		rc = sitting.names->rc;
	if (rc == ZOK && settle(zk, &sitting, err))
		rc = ZOPERATIONTIMEOUT;
	else if (rc != ZOK && rc != ZNONODE && err->kind == ERROR_NONE)
		refuse_place(zk, rc, err);
	if (err->kind != ERROR_UNAVAILABLE)
		zk->seat.maybe = false;
	zk_call_free(sitting.made);
	zk_call_free(sitting.before);
	zk_call_free(sitting.created);
	zk_call_free(sitting.names);
	return rc;
}

int zk_seat_take(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	int rc;

	zk_directory(zk, request->name, seat->directory);
	zk_uuid(request->token, seat->uuid);
	if (seat->maybe && find_seat(zk, err))
		return -1;
	for (int tries = 0; !seat->place[0] && tries < MAKE_TRIES; tries++) {
		rc = try_to_sit(zk, request, tries > 0, err);
		if (rc != ZOK && err->kind != ERROR_NONE)
			return -1;
		/* The root is missing, or the server has no containers. */
		if (rc == ZNONODE && tries > 0 && zk_make_directory(zk, seat->directory, err))
			return -1;
	}
	if (seat->place[0])
		return 0;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s is removed again and again",
		  zk->conn.label, seat->directory);
	return -1;
}

enum outcome zk_seat_gone(struct zk_backend *zk, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: the place in line was taken away, for it did "
		  "not answer when its turn came: back in line, at its end", zk->conn.label);
	/* Who has waited is told, and tries again: see zk_conn_again(). */
	if (zk->seat.phase == ZK_WAITING)
		err->errnum = ESTALE;
	/* With what is left of it: the twin, should somebody have removed the one alone. */
	zk_seat_leave(zk);
	return OUTCOME_ERROR;
}
