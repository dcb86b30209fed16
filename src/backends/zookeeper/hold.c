/* SPDX-License-Identifier: MIT */
/* Holding, and giving back: see backend.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "keep.h"
#include "lock.h"

/* Between two attempts to connect, for a release. */
#define PAUSE_MS 50

bool zk_is_holder(const struct zk_backend *zk)
{
	return zk->seat.phase == ZK_HELD && zk->seat.place[0];
}

/* An outcome that is not known. A session that has expired took the lock along. */
static enum outcome failed(struct zk_backend *zk, struct error *err)
{
	if (err->errnum != ESTALE)
		return OUTCOME_ERROR;
	zk_seat_forget(&zk->seat);
	return zk_lost(zk, "the session has expired", err);
}

/* ---- the holder itself ---- */

/* The daemon tells for how long it will hold: for `dlock status`. */
static void write_until(struct zk_backend *zk, const struct request *request)
{
	struct error ignored = { 0 };
	struct zk_found found = { .version = 0 };

	if (zk->seat.state.until_ms == request->until_ms)
		return;
	memcpy(found.paths[0], zk->seat.place, ZK_PATH_SIZE);
	memcpy(found.paths[1], zk->seat.twin, ZK_PATH_SIZE);
	if (zk_find_again(zk, &found, &ignored) != OUTCOME_HELD)
		return;
	found.state.until_ms = request->until_ms;
	if (zk_write_state(zk, &found, &ignored) == OUTCOME_HELD)
		zk->seat.state.until_ms = request->until_ms;
}

/*
 * Both nodes are there, says a transaction that a majority has agreed to; and the session is
 * still the one that made them.
 */
static enum outcome prove(struct zk_backend *zk, const struct request *request,
			  struct grant *grant, struct error *err)
{
	const char *const paths[2] = { zk->seat.place, zk->seat.twin };
	struct zk_call *check, *own;
	int64_t sent_ms, owner = 0;
	int rc;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err))
		return failed(zk, err);
	sent_ms = clock_boot_ms();
	check = zk_check_two(&zk->conn, paths);
	own = zk_exists(&zk->conn, zk->seat.place, zk->seat.own_watch);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : check->rc;
	if (rc == ZOK)
		rc = own->rc;
	if (rc == ZOK)
		owner = own->stat.ephemeralOwner;
	zk_call_free(check);
	zk_call_free(own);
	if (rc == ZNONODE)
		return zk_lost(zk, "its node was removed", err);
	if (rc == ZOK && owner != zk_conn_session(&zk->conn))
		return zk_lost(zk, "its node belongs to another session", err);
	if (rc == ZSESSIONEXPIRED)
		return zk_lost(zk, "the session has expired", err);
	if (rc != ZOK) {
		if (err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "renew", zk->seat.place, err);
		return OUTCOME_ERROR;
	}
	zk_grant(zk, sent_ms, grant);
	write_until(zk, request);
	return OUTCOME_HELD;
}

enum outcome zk_hold_renew(struct zk_backend *zk, const struct request *request,
			   struct grant *grant, struct error *err)
{
	enum outcome outcome;
	int64_t limit_ms = zk->base.timeout_ms;

	if (!zk_is_holder(zk))
		return zk_renew_other(zk, request, grant, err);
	/* A server that hangs must leave time to ask another one. */
	limit_ms = clock_earlier(limit_ms, zk->conn.ttl_ms / 3);
	zk_conn_begin(&zk->conn, limit_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = prove(zk, request, grant, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

/* ---- releasing ---- */

/* Takes the place away. *removing: it may have been before, and the answer was lost. */
static enum outcome remove_place(struct zk_backend *zk, const struct zk_found *found,
				 bool *removing, struct error *err)
{
	const char *const paths[2] = { found->paths[0], found->paths[1] };
	struct zk_call *removed = zk->one_node
		? zk_delete(&zk->conn, paths[0], found->version)
		: zk_delete_two(&zk->conn, paths, -1);
	struct zk_call *names = zk_list(&zk->conn, found->directory, 0);
	int rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : removed->rc;
	bool before = *removing;

	*removing |= rc != ZOK && rc != ZNONODE;
	zk_call_free(removed);
	if (rc != ZOK && rc != ZNONODE) {
		zk_call_free(names);
	} else if (names->rc == ZOK && !names->count) {
		zk_tidy_directory(zk, found->directory, &names->stat);
		zk_call_free(names);
	} else {
		/* For as long as the supervisor waits for the end of this. */
		zk_hand_over(zk, found->directory, names,
			     clock_boot_ms() + 2 * zk->base.timeout_ms);
	}
	if (rc == ZOK || (rc == ZNONODE && before))
		return OUTCOME_HELD;
	if (rc == ZNONODE)
		return zk_lost(zk, "its node was removed", err);
	if (err->kind == ERROR_NONE)
		zk_call_error(&zk->conn, rc, "remove", found->paths[0], err);
	return OUTCOME_ERROR;
}

void zk_hold_end(struct zk_backend *zk)
{
	struct error ignored = { 0 };
	struct zk_found found;
	bool removing = false;

	memcpy(found.directory, zk->seat.directory, ZK_PATH_SIZE);
	memcpy(found.paths[0], zk->seat.place, ZK_PATH_SIZE);
	memcpy(found.paths[1], zk->seat.twin, ZK_PATH_SIZE);
	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	if (!zk_conn_open(&zk->conn, zk->conn.asked_ms, &ignored) && !zk->one_node)
		remove_place(zk, &found, &removing, &ignored);
	zk_conn_close(&zk->conn);
}

/* The holder's own way: it knows where its place is. */
static enum outcome release_own(struct zk_backend *zk, const struct request *request,
				int64_t keep_ms, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	enum outcome outcome = OUTCOME_HELD;
	struct zk_found found;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err))
		return failed(zk, err);
	found.waits = false;
	memcpy(found.directory, seat->directory, ZK_PATH_SIZE);
	memcpy(found.paths[0], seat->place, ZK_PATH_SIZE);
	memcpy(found.paths[1], seat->twin, ZK_PATH_SIZE);
	if (zk->one_node)
		outcome = zk_find(zk, request, &found, err);
	else if (keep_ms > 0)
		outcome = zk_find_again(zk, &found, err);
	if (outcome == OUTCOME_LOST)
		return zk_lost(zk, "its node was removed", err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (keep_ms > 0) {
		found.state.phase = ZK_KEPT;
		found.state.until_ms = clock_wall_ms() + keep_ms;
		outcome = zk_write_state(zk, &found, err);
		if (outcome == OUTCOME_HELD && zk_keep(zk, keep_ms, err))
			return OUTCOME_ERROR;
		return outcome;
	}
	/* Not by its path: another one's may be there by now. This ends with the session. */
	if (zk->one_node)
		return OUTCOME_HELD;
	return remove_place(zk, &found, &seat->removing, err);
}

static enum outcome release_other(struct zk_backend *zk, const struct request *request,
				  bool *removing, struct error *err)
{
	struct zk_found found;
	enum outcome outcome = zk_find(zk, request, &found, err);

	/* The place in line that a keeper left which was killed. */
	if (outcome == OUTCOME_LOST && found.waits) {
		outcome = remove_place(zk, &found, removing, err);
		return outcome == OUTCOME_ERROR ? outcome : OUTCOME_LOST;
	}
	if (outcome != OUTCOME_HELD)
		return outcome == OUTCOME_LOST && *removing ? OUTCOME_HELD : outcome;
	return remove_place(zk, &found, removing, err);
}

/* A place in line, or one that may be there, goes with the session. */
static enum outcome leave(struct zk_backend *zk, const struct request *request,
			  struct error *err)
{
	*err = (struct error){ .kind = ERROR_NONE };
	zk_conn_open(&zk->conn, request->ttl_ms, err);
	zk_seat_leave(zk);
	return OUTCOME_LOST;
}

/* After an error; a server that is restarted gets the time that there is. */
static bool try_again(struct zk_backend *zk, const struct error *err)
{
	int64_t now = clock_boot_ms();

	if (err->kind == ERROR_UNAVAILABLE && err->errnum == ENOTCONN &&
	    now < zk->conn.deadline_ms - PAUSE_MS) {
		zk_conn_rest(&zk->conn, now + PAUSE_MS);
		return true;
	}
	return zk_conn_again(&zk->conn, err);
}

enum outcome zk_hold_release(struct zk_backend *zk, const struct request *request,
			     enum release how, int64_t keep_ms, struct error *err)
{
	const bool holder = zk_is_holder(zk);
	enum outcome outcome;
	struct zk_found found;
	bool removing = false;

	zk_conn_begin(&zk->conn, zk->base.timeout_ms);
	if (!holder && (zk->seat.place[0] || zk->seat.maybe))
		return leave(zk, request, err);
	if (how != RELEASE_ALL) {
		outcome = zk_count(zk, request, -1, &found, err);
		if (outcome != OUTCOME_HELD)
			return outcome;
		if (found.counted)
			return OUTCOME_BUSY;
		if (how == RELEASE_COUNTED)
			return OUTCOME_HELD;
	}
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = holder ? release_own(zk, request, keep_ms, err)
				 : release_other(zk, request, &removing, err);
		/* BUSY: its state has changed as it was to be kept. */
	} while ((outcome == OUTCOME_ERROR && try_again(zk, err)) || outcome == OUTCOME_BUSY);
	if (outcome == OUTCOME_ERROR)
		return outcome;
	if (request->forget && zk->seat.directory[0])
		zk_remove_directory(zk, zk->seat.directory);
	/* What is kept is another process's now. */
	if (outcome == OUTCOME_HELD && holder && keep_ms > 0)
		zk_conn_abandon(&zk->conn);
	zk_seat_leave(zk);
	return outcome;
}
