/* SPDX-License-Identifier: MIT */
/* Our entry in the queue: getting it, finding the one that an earlier request made, its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "acquire.h"

/* The server may remove a directory as soon as it was made, because it is empty. */
#define MAKE_TRIES 20

/* ---- its end ---- */

void zk_watch_forget(struct zk_own *own)
{
	for (int i = 0; i < ZK_WATCHED; i++)
		free(own->watched[i].name);
	memset(own->watched, 0, sizeof(own->watched));
}

void zk_own_forget(struct zk_own *own)
{
	zk_watch_forget(own);
	free(own->nearest);
	free(own->suspect);
	free(own->next);
	*own = (struct zk_own){ .held = false };
}

void zk_own_leave(struct zk_backend *zk)
{
	zk_conn_close(&zk->conn);
	zk_own_forget(&zk->own);
}

/* Our entry is gone, though the session is not. Sets *err. Returns -1. */
int zk_own_gone(struct zk_backend *zk, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: its entry in the queue was removed, because it "
		  "did not respond when its turn came: back in the queue, at its end",
		  zk->conn.label);
	/* A waiter reports it before it tries again: see zk_queue_acquire(). */
	if (zk->own.state == ZK_WAITING)
		err->errnum = ESTALE;
	/* With what is left of it: the shadow, should somebody have removed the entry alone. */
	zk_own_leave(zk);
	return -1;
}

/* A request that writes our entry has failed with rc. Sets *err. Returns -1. */
int zk_own_failed(struct zk_backend *zk, int rc, const char *what, struct error *err)
{
	if (rc == ZNONODE)
		return zk_own_gone(zk, err);
	zk_call_error(&zk->conn, rc, what, zk->own.at.node, err);
	/* It may have been written. find_entry() reads what is stored. */
	zk->own.maybe = true;
	zk->own.at.node[0] = '\0';
	return -1;
}

/* Delete our entry, and keep the session for what is shown next. */
void zk_own_delete(struct zk_backend *zk)
{
	if (zk_call_end(zk_delete_pair(&zk->conn, &zk->own.at, -1)) != ZOK)
		zk_conn_close(&zk->conn);
	zk_own_forget(&zk->own);
}

/* Our entry was written. 0, or -1 with *err. */
int zk_own_written(struct zk_backend *zk, const struct zk_call *set, enum zk_state state,
			struct error *err)
{
	if (set->rc != ZOK)
		return zk_own_failed(zk, set->rc, "write", err);
	/* An older session of ours had an entry with this uuid, and ours was removed. */
	if (set->stat.ephemeralOwner != zk_conn_session(&zk->conn))
		return zk_own_gone(zk, err);
	zk->own.version = set->stat.version;
	zk->own.fence = (uint64_t)set->stat.czxid;
	zk->own.state = state;
	return 0;
}

/* ---- getting it ---- */

int zk_find_node(struct zk_backend *zk, const char *directory, const char *uuid,
		 struct zk_pair *pair, struct zk_call **data, struct error *err)
{
	struct zk_queue queue;
	ptrdiff_t i;
	int rc;

	*data = NULL;
	*pair = (struct zk_pair){ .node = "" };
	if (zk_queue_fetch(&zk->conn, directory, true, &queue, err))
		return -1;
	i = zk_queue_find_uuid(&queue, uuid);
	if (zk->one_node)
		memcpy(pair->node, directory, ZK_PATH_SIZE);
	else if (i >= 0)
		zk_queue_pair(&queue, i, directory, pair);
	zk_queue_finish(&queue);
	if (!pair->node[0])
		return 0;
	*data = zk_get(&zk->conn, pair->node, 0);
	rc = zk_call_wait(*data);
	if (rc == ZOK)
		return 0;
	zk_call_free(*data);
	*data = NULL;
	return rc == ZNONODE ? 0 : zk_call_error(&zk->conn, rc, "read", pair->node, err);
}

/* An earlier request got no reply: is there an entry of this session with our uuid? */
static int find_entry(struct zk_backend *zk, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_record record;
	struct zk_call *data;

	if (zk_find_node(zk, own->directory, own->uuid, &own->at, &data, err)) {
		own->at.node[0] = '\0';
		return -1;
	}
	own->maybe = false;
	/* An entry of an older session of ours ends with that session. */
	if (!data || data->stat.ephemeralOwner != zk_conn_session(&zk->conn)) {
		own->at.node[0] = '\0';
	} else {
		zk_record_read(&record, data->text, data->length, "");
		own->state = record.state;
		own->version = data->stat.version;
		/* An entry that is ZK_NEW has to be written, because others may have evicted it. */
		own->fence = own->state == ZK_NEW ? 0 : (uint64_t)data->stat.czxid;
		own->stale = true;
	}
	zk_call_free(data);
	return 0;
}

/*
 * The transaction that made the two nodes, if no other has added or removed any since: the
 * directory, if it is the same one, counts them (cversion), and knows the last one (pzxid).
 * 0: not known. The reply to a transaction does not contain the number.
 */
static uint64_t fence_of(const struct zk_call *before, const struct Stat *after)
{
	if (before->rc != ZOK || before->stat.czxid != after->czxid ||
	    (uint32_t)after->cversion - (uint32_t)before->stat.cversion != 2)
		return 0;
	return (uint64_t)after->pzxid;
}

/* There is an entry. names: the answer to zk_list() after it was made. */
static int take_entry(struct zk_backend *zk, uint64_t fence, struct zk_call *names,
		      struct error *err)
{
	struct zk_own *own = &zk->own;

	own->state = ZK_NEW;
	own->version = 0;
	own->watch = 0;
	own->maybe = own->was_read = false;
	if (zk_wait_read(zk, names, err))
		return -1;
	/* If it was not free when it was made, it has to be written before it holds. */
	own->fence = own->blocked ? 0 : fence;
	return 0;
}

/* No entry was made. 1: try again, there is a directory now; -1 with *err. */
static int take_refusal(struct zk_backend *zk, int rc, struct error *err)
{
	struct zk_own *own = &zk->own;

	if (rc == ZNOCHILDRENFOREPHEMERALS)
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s is a node by itself: others take "
			  "this lock with ?strategy=node", zk->conn.label, own->directory);
	else if (rc != ZNONODE)
		zk_call_error(&zk->conn, rc, "create a node in", own->directory, err);
	own->maybe = rc != ZNONODE && err->kind == ERROR_UNAVAILABLE;
	return rc != ZNONODE || zk_make_directory(zk, own->directory, err) ? -1 : 1;
}

/* Ask for an entry, and for the queue with it, in one write. 0; 1: try again; -1 with *err. */
static int try_enqueue(struct zk_backend *zk, const struct request *request, struct error *err)
{
	char prefix[ZK_PREFIX_SIZE], data[ZK_RECORD_SIZE];
	struct zk_own *own = &zk->own;
	struct zk_call *before, *created, *names;
	struct zk_pair pair;
	int rc, result;

	zk_entry_name(request->mode, request->slots, own->uuid, false, prefix);
	zk_node_path(own->directory, prefix, pair.node);
	zk_entry_name(request->mode, request->slots, own->uuid, true, prefix);
	zk_node_path(own->directory, prefix, pair.shadow);
	zk_record_write(data, NULL, ZK_NEW, 0, request->text);
	own->taken_ms = 0;
	own->maybe = true;
	own->sent_ms = clock_boot_ms();
	before = zk_get(&zk->conn, own->directory, 0);
	created = zk_create_pair(&zk->conn, &pair, data);
	names = zk_list(&zk->conn, own->directory, 0);
	rc = zk_call_wait(created);
	if (rc == ZOK)
		rc = names->rc;
	if (rc == ZOK) {
		result = take_entry(zk, fence_of(before, &names->stat), names, err);
	} else {
		zk_call_free(names);
		result = take_refusal(zk, rc, err);
	}
	zk_call_free(before);
	zk_call_free(created);
	return result;
}

int zk_enqueue(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	int result = 1;

	zk_directory(zk, request->name, own->directory);
	zk_uuid(request->token, own->uuid);
	if (own->maybe && find_entry(zk, err))
		return -1;
	if (own->at.node[0])
		return 0;
	for (int tries = 0; result > 0 && tries < MAKE_TRIES; tries++)
		result = try_enqueue(zk, request, err);
	return result <= 0 ? result :
	       error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s is removed again and again",
			 zk->conn.label, own->directory);
}
