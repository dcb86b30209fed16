/* SPDX-License-Identifier: MIT */
/* Proving a hold, and releasing it: see backend.c. */
#include <errno.h>
#include <poll.h>
#include <string.h>

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

static enum outcome fail(const struct zk_backend *zk, int rc, const char *what,
			 const char *path, struct error *err)
{
	zk_call_error(&zk->conn, rc, what, path, err);
	return OUTCOME_ERROR;
}

/* HELD with a session, which is that of the hold; LOST; ERROR. */
static enum outcome open_session(struct zk_backend *zk, const struct request *request,
				 struct error *err)
{
	if (!zk_conn_open(&zk->conn, request->ttl_ms, err))
		return OUTCOME_HELD;
	if (err->errnum != ESTALE)
		return OUTCOME_ERROR;
	zk_own_forget(&zk->own);
	return report_lost(zk, "the session has expired", err);
}

/* ---- renewing ---- */

/* Nobody else writes the data of a node whose session is ours. */
static enum outcome write_text(struct zk_backend *zk, const char *text, struct error *err)
{
	struct zk_own *own = &zk->own;
	char data[ZK_RECORD_SIZE];
	int rc;

	if (!text)
		return OUTCOME_HELD;
	zk_record_write(data, zk->one_node ? own->uuid : NULL, ZK_HELD, own->taken_ms, text);
	rc = zk_call_end(zk_set(&zk->conn, own->at.node, data, -1));
	if (rc == ZNONODE)
		return report_lost(zk, "its node was removed", err);
	return rc == ZOK ? OUTCOME_HELD : fail(zk, rc, "write", own->at.node, err);
}

/*
 * A transaction that a majority has agreed to says that both nodes are there, and the session is
 * still the one that made them.
 */
static enum outcome prove(struct zk_backend *zk, const struct request *request,
			  struct grant *grant, struct error *err)
{
	enum outcome outcome = open_session(zk, request, err);
	struct zk_call *check, *node;
	int64_t sent_ms, owner;
	int rc;

	if (outcome != OUTCOME_HELD)
		return outcome;
	sent_ms = clock_boot_ms();
	check = zk_check_pair(&zk->conn, &zk->own.at);
	node = zk_list(&zk->conn, zk->own.at.node, zk->own.watch);
	rc = zk_call_wait(check);
	if (rc == ZOK)
		rc = node->rc;
	owner = rc == ZOK ? node->stat.ephemeralOwner : 0;
	zk_call_free(check);
	zk_call_free(node);
	if (rc == ZNONODE)
		return report_lost(zk, "its node was removed", err);
	if (rc == ZOK && owner != zk_conn_session(&zk->conn))
		return report_lost(zk, "its node belongs to another session", err);
	if (rc == ZSESSIONEXPIRED)
		return report_lost(zk, "the session has expired", err);
	if (rc != ZOK)
		return fail(zk, rc, "renew", zk->own.at.node, err);
	zk_grant(zk, sent_ms, grant);
	return write_text(zk, request->text, err);
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
	do
		outcome = prove(zk, request, grant, err);
	while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

/* ---- releasing ---- */

/* The end of the session removes the node: by its path, the next holder's might be removed. */
static enum outcome release_node(struct zk_backend *zk, struct error *err)
{
	struct zk_call *node = zk_get(&zk->conn, zk->own.at.node, 0);
	const int rc = zk_call_wait(node);
	const int64_t owner = rc == ZOK ? node->stat.ephemeralOwner : 0;

	zk_call_free(node);
	if (rc != ZOK && rc != ZNONODE)
		return fail(zk, rc, "read", zk->own.at.node, err);
	return owner == zk_conn_session(&zk->conn) ? OUTCOME_HELD
		: report_lost(zk, "its node was removed", err);
}

static enum outcome remove_pair(struct zk_backend *zk, const struct zk_pair *pair,
				int32_t version, struct error *err)
{
	const int rc = zk_call_end(zk_delete_pair(&zk->conn, pair, version));

	if (rc == ZNONODE)
		return report_lost(zk, "its node was removed", err);
	return rc == ZOK ? OUTCOME_HELD : fail(zk, rc, "remove", pair->node, err);
}

static enum outcome release_own(struct zk_backend *zk, const struct request *request,
				struct error *err)
{
	const enum outcome outcome = open_session(zk, request, err);

	if (outcome != OUTCOME_HELD)
		return outcome;
	return zk->one_node ? release_node(zk, err) : remove_pair(zk, &zk->own.at, -1, err);
}

/* Find the node of a token whose keeper was killed. pair->node is "" if there is none. 0 or -1. */
static int find_pair(struct zk_backend *zk, const struct request *request, const char *uuid,
		     struct zk_pair *pair, struct error *err)
{
	char directory[ZK_PATH_SIZE];
	struct zk_call *sync, *names;
	struct zk_queue queue = { .count = 0 };
	ptrdiff_t i;
	int failed;

	*pair = (struct zk_pair){ .node = "" };
	zk_directory(zk, request->name, directory);
	sync = zk_sync(&zk->conn, zk->root);
	names = zk_list(&zk->conn, directory, 0);
	failed = zk_call_wait(sync);
	if (failed)
		failed = zk_call_error(&zk->conn, failed, "sync", zk->root, err);
	else if (zk->one_node)
		memcpy(pair->node, directory, ZK_PATH_SIZE);
	else
		failed = zk_queue_read(&zk->conn, directory, names, &queue, err);
	i = zk_queue_find_uuid(&queue, uuid);
	if (i >= 0)
		zk_queue_pair(&queue, i, directory, pair);
	zk_queue_finish(&queue);
	zk_call_free(sync);
	zk_call_free(names);
	return failed;
}

static enum outcome release_other(struct zk_backend *zk, const struct request *request,
				  struct error *err)
{
	enum outcome outcome = OUTCOME_LOST;
	char uuid[ZK_UUID_SIZE];
	struct zk_record record = { .mine = false };
	struct zk_call *data;
	struct zk_pair pair;
	int rc;

	zk_uuid(request->token, uuid);
	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err) ||
	    find_pair(zk, request, uuid, &pair, err))
		return OUTCOME_ERROR;
	if (!pair.node[0])
		return OUTCOME_LOST;
	data = zk_get(&zk->conn, pair.node, 0);
	rc = zk_call_wait(data);
	if (rc == ZOK)
		zk_record_read(&record, data->text, data->length, uuid);
	if (rc != ZOK && rc != ZNONODE)
		outcome = fail(zk, rc, "read", pair.node, err);
	else if (rc == ZOK && (!zk->one_node || record.mine))
		outcome = remove_pair(zk, &pair, zk->one_node ? data->stat.version : -1, err);
	zk_call_free(data);
	/* A waiter was removed, of a keeper that was killed. */
	return outcome == OUTCOME_HELD && record.state == ZK_WAITING ? OUTCOME_LOST : outcome;
}

/* After an error. A server that is being restarted gets all the time that there is. */
static bool try_again(struct zk_backend *zk, struct error *err)
{
	const int64_t now = clock_boot_ms();

	if (err->kind != ERROR_UNAVAILABLE || err->errnum != ENOTCONN ||
	    now >= zk->conn.deadline_ms - PAUSE_MS)
		return zk_conn_again(&zk->conn, err);
	poll(NULL, 0, PAUSE_MS);
	*err = (struct error){ .kind = ERROR_NONE };
	return true;
}

enum outcome zk_release(struct backend *backend, const struct request *request,
			struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	const bool held = zk->own.held;
	struct error ignored;
	enum outcome outcome;

	backend->resent = false;
	zk_conn_begin(&zk->conn, zk->base.timeout_ms);
	/* An entry that waits, or one that may be there, ends with the session. */
	if (!held && (zk->own.at.node[0] || zk->own.maybe)) {
		zk_conn_open(&zk->conn, request->ttl_ms, &ignored);
		zk_own_leave(zk);
		zk->done = true;
		return OUTCOME_LOST;
	}
	for (;;) {
		outcome = held ? release_own(zk, request, err) : release_other(zk, request, err);
		if (outcome != OUTCOME_ERROR || !try_again(zk, err))
			break;
		backend->resent = true;
	}
	zk->done = outcome != OUTCOME_ERROR;
	if (zk->done)
		zk_own_leave(zk);
	return outcome;
}
