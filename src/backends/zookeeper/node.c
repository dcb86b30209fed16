/* SPDX-License-Identifier: MIT */
/*
 * Strategy node: the lock is one ephemeral node, <root>/<name>, and its maker holds it. All others
 * watch it and try when it ends, so there is a herd and no order. There are only exclusive holds.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock.h"

static enum outcome begin_hold(struct zk_backend *zk, const struct Stat *stat, struct grant *grant)
{
	zk->own.held = true;
	zk->own.fence = (uint64_t)stat->czxid;
	zk_grant(zk, grant);
	return OUTCOME_HELD;
}

static enum outcome wait_for_end(const struct zk_backend *zk, struct grant *grant)
{
	grant->retry_ms = clock_earlier(hold_retry_at(-1, false, false),
					clock_boot_ms() + zk->conn.ttl_ms / 4);
	return OUTCOME_BUSY;
}

/* The node is a directory of strategy queue: remove it if it is empty. */
static enum outcome remove_other(struct zk_backend *zk, const struct Stat *stat, struct error *err)
{
	if (!stat->numChildren) {
		zk_call_wait(zk_delete_directory(&zk->conn, zk->own.directory));
		return zk_report_ended(zk, err);
	}
	error_set(err, ERROR_REFUSED, 0, "%s: %.200s has nodes below it: others take this lock "
		  "without ?strategy=node", zk->conn.label, zk->own.directory);
	return OUTCOME_ERROR;
}

/* Take the results of making (rc) and reading the node. */
static enum outcome take_replies(struct zk_backend *zk, int rc, const struct zk_call *data,
				 struct grant *grant, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_record record;

	if (rc == ZNONODE && zk_make_directory(zk, zk->root, ZOO_PERSISTENT, err))
		return OUTCOME_ERROR;
	if (rc != ZOK && rc != ZNODEEXISTS && rc != ZNONODE) {
		zk_call_error(&zk->conn, rc, "create", own->directory, err);
		return OUTCOME_ERROR;
	}
	if (data->rc == ZNONODE)
		return zk_report_ended(zk, err);
	if (data->rc != ZOK) {
		zk_call_error(&zk->conn, data->rc, "read", own->directory, err);
		return OUTCOME_ERROR;
	}
	zk_record_read(&record, data->text, own->uuid);
	/* An earlier request, whose reply was lost, may have made it. */
	if (record.mine && data->stat.ephemeralOwner == zk_conn_session(&zk->conn))
		return begin_hold(zk, &data->stat, grant);
	if (data->stat.ephemeralOwner)
		return wait_for_end(zk, grant);
	return remove_other(zk, &data->stat, err);
}

enum outcome zk_node_try(struct zk_backend *zk, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *created, *data;
	char text[ZK_RECORD_SIZE];
	enum outcome outcome;

	memcpy(own->at.node, own->directory, ZK_PATH_SIZE);
	if (zk_conn_open(&zk->conn, request->ttl_ms, err) || !zk_conn_fresh(&zk->conn, err))
		return OUTCOME_ERROR;
	own->taken_ms = clock_wall_ms();
	zk_record_write(text, own->uuid, ZK_HELD, own->taken_ms, request->text);
	own->maybe = true;
	own->stale = false;
	own->sent_ms = clock_boot_ms();
	own->watch = ++zk->conn.last_watch;
	created = zk_create(&zk->conn, own->directory, text, ZOO_EPHEMERAL);
	data = zk_get(&zk->conn, own->directory, own->watch);
	outcome = take_replies(zk, zk_call_wait(created), data, grant, err);
	if (outcome != OUTCOME_ERROR || err->kind != ERROR_UNAVAILABLE)
		own->maybe = false;
	return outcome;
}
