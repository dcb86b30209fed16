/* SPDX-License-Identifier: MIT */
/* Proving a hold: see backend.c. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock.h"
#include "ops.h"
#include "queue.h"
#include "token.h"

/* Writes for how long a keeper will hold, for `dlock status`. Best effort. */
static void write_until(struct zk_backend *zk, const struct request *request)
{
	struct error unread;
	struct zk_found found = { .at = zk->seat.at };

	if (zk->seat.state.until_ms == request->until_ms ||
	    zk_find_again(zk, &found, &unread) != OUTCOME_HELD)
		return;
	found.state.until_ms = request->until_ms;
	if (zk_write_state(zk, &found, &unread) == OUTCOME_HELD)
		zk->seat.state.until_ms = request->until_ms;
}

/*
 * A transaction that a majority has agreed to says that both nodes are there, and the session is
 * still the one that made them.
 */
static enum outcome prove(struct zk_backend *zk, const struct request *request,
			  struct grant *grant, struct error *err)
{
	struct zk_call *check, *own;
	int64_t sent_ms, owner;
	int rc;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err)) {
		if (err->errnum != ESTALE)
			return OUTCOME_ERROR;
		zk_seat_forget(&zk->seat);
		return zk_lost(zk, "the session has expired", err);
	}
	sent_ms = clock_boot_ms();
	check = zk_check_two(&zk->conn, &zk->seat.at);
	own = zk_exists(&zk->conn, zk->seat.at.place, zk->seat.own_watch);
	rc = zk_call_wait(check);
	if (rc == ZOK)
		rc = own->rc;
	owner = rc == ZOK ? own->stat.ephemeralOwner : 0;
	zk_call_free(check);
	zk_call_free(own);
	if (rc == ZNONODE)
		return zk_lost(zk, "its node was removed", err);
	if (rc == ZOK && owner != zk_conn_session(&zk->conn))
		return zk_lost(zk, "its node belongs to another session", err);
	if (rc == ZSESSIONEXPIRED)
		return zk_lost(zk, "the session has expired", err);
	if (rc != ZOK) {
		zk_call_error(&zk->conn, rc, "renew", zk->seat.at.place, err);
		return OUTCOME_ERROR;
	}
	zk_grant(zk, sent_ms, grant);
	write_until(zk, request);
	return OUTCOME_HELD;
}

static enum outcome renew_own(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err)
{
	enum outcome outcome;

	/* A server that hangs must leave time to ask another one. */
	zk_conn_begin(&zk->conn, clock_earlier(zk->base.timeout_ms, zk->conn.ttl_ms / 3));
	do
		outcome = prove(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

static enum outcome find(struct zk_backend *zk, const struct request *request,
			 struct zk_found *found, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do
		outcome = zk_find(zk, request, found, err);
	while (outcome == OUTCOME_ERROR && zk_conn_ask_again(&zk->conn, err));
	return outcome;
}

enum outcome zk_renew(struct backend *backend, const struct request *request,
		      struct grant *grant, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	struct zk_found found;
	enum outcome outcome;

	if (zk_is_holder(zk))
		return renew_own(zk, request, grant, err);
	outcome = find(zk, request, &found, err);
	/* Only the process with the session can extend a hold that has an end. */
	if (outcome == OUTCOME_HELD && found.state.until_ms) {
		error_set(err, ERROR_REFUSED, 0, "%s: only the keeper that 'dlock acquire' left "
			  "behind can renew it, and here it does not answer", zk->conn.label);
		return OUTCOME_ERROR;
	}
	/* Without an end of its own, it is held for as long as its process lives. */
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	return outcome;
}

enum outcome zk_verify(struct backend *backend, const struct request *request,
		       struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	struct zk_found found;
	struct grant unread;
	enum outcome outcome;

	if (zk_is_holder(zk))
		return renew_own(zk, request, &unread, err);
	outcome = find(zk, request, &found, err);
	return outcome == OUTCOME_HELD ? hold_mode_covers(found.mode, found.slots, request, err)
				       : outcome;
}
