/* SPDX-License-Identifier: MIT */
/* Renewing a hold by proving it, and releasing it: see backend.c. */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"

/* Between two attempts to connect. */
#define PAUSE_MS 50

static enum outcome report_lost(const struct zk_backend *zk, const char *what, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", zk->conn.label, what);
	return OUTCOME_LOST;
}

/* Translate the result of a request about the node of a hold. */
static enum outcome outcome_of(const struct zk_backend *zk, int rc, const char *what,
			       const char *path, struct error *err)
{
	switch (rc) {
	case ZOK:
		return OUTCOME_HELD;
	case ZNONODE:
		return report_lost(zk, "its node was removed", err);
	case ZSESSIONEXPIRED:
		return report_lost(zk, "the session has expired", err);
	default:
		zk_call_error(&zk->conn, rc, what, path, err);
		return OUTCOME_ERROR;
	}
}

/* Wait for the session of the hold. HELD: it is connected. LOST: it has expired. */
static enum outcome open_session(struct zk_backend *zk, const struct request *request,
				 struct error *err)
{
	if (!zk_conn_open(&zk->conn, request->ttl_ms, err))
		return OUTCOME_HELD;
	if (err->errnum != ESTALE)
		return OUTCOME_ERROR;
	zk_own_leave(zk);
	return report_lost(zk, "the session has expired", err);
}

/* ---- renewing ---- */

/* Store the holder record. Nobody else writes the data of our node. */
static enum outcome write_text(struct zk_backend *zk, const char *text, struct error *err)
{
	struct zk_own *own = &zk->own;
	char data[ZK_RECORD_SIZE];

	if (!text)
		return OUTCOME_HELD;
	zk_record_write(data, zk->one_node ? own->uuid : NULL, ZK_HELD, own->taken_ms, text);
	return outcome_of(zk, zk_call_wait(zk_set(&zk->conn, own->at.node, data, -1)), "write",
			  own->at.node, err);
}

/*
 * Prove by a transaction, which a majority confirms, that both nodes are there and that our session
 * made them.
 */
static enum outcome prove_hold(struct zk_backend *zk, const struct request *request,
			       struct error *err)
{
	enum outcome outcome = open_session(zk, request, err);
	struct zk_call *check, *node;

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (!zk->own.watch)
		zk->own.watch = ++zk->conn.last_watch;
	zk->own.sent_ms = clock_boot_ms();
	check = zk_check_pair(&zk->conn, &zk->own.at);
	node = zk_list(&zk->conn, zk->own.at.node, zk->own.watch);
	outcome = outcome_of(zk, zk_call_wait(check), "prove", zk->own.at.node, err);
	if (outcome == OUTCOME_HELD)
		outcome = outcome_of(zk, node->rc, "prove", zk->own.at.node, err);
	if (outcome == OUTCOME_HELD && node->stat.ephemeralOwner != zk_conn_session(&zk->conn))
		outcome = report_lost(zk, "its node belongs to another session", err);
	return outcome;
}

enum outcome zk_renew(struct backend *backend, const struct request *request,
		      struct grant *grant, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum outcome outcome;

	if (!zk->own.held) {
		error_set(err, ERROR_REFUSED, 0, "%s: only the keeper that 'dlock acquire' left "
			  "behind can renew it, and here it does not answer", zk->conn.label);
		return OUTCOME_ERROR;
	}
	/* A server that hangs must leave time to ask another one. */
	zk_conn_begin(&zk->conn, clock_earlier(zk->base.timeout_ms, zk->conn.ttl_ms / 3));
	do {
		outcome = prove_hold(zk, request, err);
		if (outcome != OUTCOME_HELD)
			continue;
		zk_grant(zk, grant);
		/* Halfway to the next renewal, which needs a contact that is not too old. */
		grant->event_ms = zk->own.contact_ms = grant->sent_ms + grant->ttl_ms / 6;
		outcome = write_text(zk, request->text, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

/* ---- releasing ---- */

static enum outcome release_own(struct zk_backend *zk, const struct request *request,
				struct error *err)
{
	enum outcome outcome;

	/* The session's end removes it. A delete by path might remove the next holder's node. */
	if (zk->one_node)
		return prove_hold(zk, request, err);
	outcome = open_session(zk, request, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	return outcome_of(zk, zk_call_wait(zk_delete_pair(&zk->conn, &zk->own.at, -1)), "remove",
			  zk->own.at.node, err);
}

/* Wait before another attempt. A server that is being restarted gets all the time there is. */
static bool try_again(struct zk_backend *zk, struct error *err)
{
	if (err->errnum == ENOTCONN && clock_boot_ms() < zk->conn.deadline_ms - PAUSE_MS) {
		poll(NULL, 0, PAUSE_MS);
		err->errnum = 0;
	}
	return zk_conn_again(&zk->conn, err);
}

enum outcome zk_release(struct backend *backend, const struct request *request,
			struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	char uuid[ZK_UUID_SIZE];
	struct error ignored;
	enum outcome outcome;

	backend->resent = false;
	zk_conn_begin(&zk->conn, zk->base.timeout_ms);
	/* An entry that waits, or whose fate is not known, ends with the session. */
	if (!zk->own.held && (zk->own.at.node[0] || zk->own.maybe)) {
		zk_conn_open(&zk->conn, request->ttl_ms, &ignored);
		zk_own_leave(zk);
		zk->done = true;
		return OUTCOME_LOST;
	}
	if (!zk->own.held) {
		/* The keeper of this token was killed. */
		zk_uuid(request->token, uuid);
		outcome = zk_remove(zk, request->name, uuid, 0, err);
	} else {
		while ((outcome = release_own(zk, request, err)) == OUTCOME_ERROR &&
		       try_again(zk, err))
			backend->resent = true;
	}
	zk->done = outcome != OUTCOME_ERROR;
	if (zk->done)
		zk_own_leave(zk);
	return outcome;
}
