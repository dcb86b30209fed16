/* SPDX-License-Identifier: MIT */
/* Giving a hold back, at once or after the rest of its minimum hold: see backend.c. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/linger.h"
#include "directory.h"
#include "lock.h"
#include "ops.h"
#include "queue.h"
#include "token.h"
#include "turn.h"

/* Between two attempts to connect. */
#define PAUSE_MS 50

/*
 * Removes the place, and hands over to the next in line. *removing: an earlier request to remove it
 * was not answered; so HELD, too, when it is not there any more.
 */
static enum outcome remove_place(struct zk_backend *zk, const struct zk_found *found,
				 bool *removing, struct error *err)
{
	struct zk_call *removed = zk->one_node
		? zk_delete(&zk->conn, found->at.place, found->version)
		: zk_delete_two(&zk->conn, &found->at, -1);
	struct zk_call *names = zk_list(&zk->conn, found->directory, 0);
	int rc = zk_call_wait(removed);

	zk_call_free(removed);
	if (rc != ZOK && rc != ZNONODE) {
		*removing = true;
		zk_call_free(names);
		zk_call_error(&zk->conn, rc, "remove", found->at.place, err);
		return OUTCOME_ERROR;
	}
	if (names->rc == ZOK && !names->count) {
		zk_tidy_directory(zk, found->directory, &names->stat);
		zk_call_free(names);
	} else {
		/* The supervisor waits that long for a release to end. */
		zk_hand_over(zk, found->directory, names,
			     clock_boot_ms() + 2 * zk->base.timeout_ms);
	}
	return rc == ZOK || *removing ? OUTCOME_HELD : zk_lost(zk, "its node was removed", err);
}

/* What the holder knows without asking. */
static void find_own(const struct zk_seat *seat, struct zk_found *found)
{
	memcpy(found->directory, seat->directory, ZK_PATH_SIZE);
	found->at = seat->at;
	found->waits = false;
}

/*
 * In the process that keeps the lock while dlock itself returns. It has none of the library's
 * threads, which keep a session alive, and so takes the session over on a connection of its own.
 * Until it has, the session lives from the last ping of the process before.
 */
static void keep(void *context, int64_t until_ms)
{
	struct zk_backend *zk = context;
	struct zk_found found;
	struct error unread = { 0 };
	bool removing = false;

	if (zk_conn_adopt(&zk->conn))
		return;
	do {
		zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
		if (!zk_conn_open(&zk->conn, zk->conn.asked_ms, &unread))
			break;
		if (unread.errnum == ESTALE)
			return;
	} while (clock_boot_ms() < until_ms);
	linger_until(until_ms, 0);
	find_own(&zk->seat, &found);
	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	if (!zk_conn_open(&zk->conn, zk->conn.asked_ms, &unread) && !zk->one_node)
		remove_place(zk, &found, &removing, &unread);
	zk_conn_close(&zk->conn);
}

/* The holder knows where its place is. BUSY: its state has changed as it was to be kept. */
static enum outcome release_own(struct zk_backend *zk, const struct request *request,
				int64_t keep_ms, struct error *err)
{
	enum outcome outcome = OUTCOME_HELD;
	struct zk_found found;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err)) {
		if (err->errnum != ESTALE)
			return OUTCOME_ERROR;
		zk_seat_forget(&zk->seat);
		return zk_lost(zk, "the session has expired", err);
	}
	find_own(&zk->seat, &found);
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
		if (outcome == OUTCOME_HELD && linger_start(keep_ms, NULL, 0, keep, zk, err))
			return OUTCOME_ERROR;
		return outcome;
	}
	/* The end of the session removes the node. By its path, the next holder's might go. */
	if (zk->one_node)
		return OUTCOME_HELD;
	return remove_place(zk, &found, &zk->seat.removing, err);
}

static enum outcome release_other(struct zk_backend *zk, const struct request *request,
				  bool *removing, struct error *err)
{
	struct zk_found found;
	enum outcome outcome = zk_find(zk, request, &found, err);

	/* A place in line, of a keeper that was killed. */
	if (outcome == OUTCOME_LOST && found.waits) {
		outcome = remove_place(zk, &found, removing, err);
		return outcome == OUTCOME_ERROR ? outcome : OUTCOME_LOST;
	}
	if (outcome != OUTCOME_HELD)
		return outcome == OUTCOME_LOST && *removing ? OUTCOME_HELD : outcome;
	return remove_place(zk, &found, removing, err);
}

/* After an error. A server that is being restarted gets all the time that there is. */
static bool try_again(struct zk_backend *zk, struct error *err)
{
	int64_t now = clock_boot_ms();

	if (err->kind != ERROR_UNAVAILABLE || err->errnum != ENOTCONN ||
	    now >= zk->conn.deadline_ms - PAUSE_MS)
		return zk_conn_again(&zk->conn, err);
	zk_conn_rest(&zk->conn, now + PAUSE_MS);
	*err = (struct error){ .kind = ERROR_NONE };
	return true;
}

enum outcome zk_release(struct backend *backend, const struct request *request,
			int64_t keep_ms, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	const bool holder = zk_is_holder(zk);
	struct error unread;
	enum outcome outcome;
	bool removing = false;

	zk_conn_begin(&zk->conn, zk->base.timeout_ms);
	/* A place in line, or one that may be there, goes with the session. */
	if (!holder && (zk->seat.at.place[0] || zk->seat.maybe)) {
		zk_conn_open(&zk->conn, request->ttl_ms, &unread);
		zk_seat_leave(zk);
		return OUTCOME_LOST;
	}
	do
		outcome = holder ? release_own(zk, request, keep_ms, err)
				 : release_other(zk, request, &removing, err);
	while (outcome == OUTCOME_BUSY || (outcome == OUTCOME_ERROR && try_again(zk, err)));
	if (outcome == OUTCOME_ERROR)
		return outcome;
	if (request->forget && zk->seat.directory[0])
		zk_remove_directory(zk, zk->seat.directory);
	/* The session is now that of the process that keeps the lock. */
	if (outcome == OUTCOME_HELD && holder && keep_ms > 0)
		zk_conn_abandon(&zk->conn);
	zk_seat_leave(zk);
	return outcome;
}
