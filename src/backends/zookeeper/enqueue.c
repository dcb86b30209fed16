/* SPDX-License-Identifier: MIT */
/* Getting an entry in the queue, or finding the one that an earlier request may have made. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "acquire.h"

/* The server may remove a directory as soon as it was made, because it is empty. */
#define MAKE_TRIES 20

/* An earlier request got no reply: is there an entry of this session with our uuid? */
static int find_entry(struct zk_backend *zk, struct error *err)
{
	struct zk_own *own = &zk->own;
	struct zk_call *sync = zk_sync(&zk->conn, zk->root), *data = NULL;
	struct zk_call *names = zk_list(&zk->conn, own->directory, 0);
	struct zk_queue queue = { .count = 0 };
	struct zk_record record;
	int failed = zk_conn_wait(&zk->conn);
	ptrdiff_t i = -1;

	if (failed)
		zk_call_error(&zk->conn, failed, "list", own->directory, err);
	else
		failed = zk_queue_read(&zk->conn, own->directory, names, &queue, err);
	if (!failed)
		i = zk_queue_find_uuid(&queue, own->uuid);
	if (i >= 0) {
		zk_queue_pair(&queue, i, own->directory, &own->at);
		data = zk_get(&zk->conn, own->at.node, 0);
		failed = zk_call_wait(data) == ZK_UNANSWERED
			 ? zk_call_error(&zk->conn, ZK_UNANSWERED, "read", own->at.node, err) : 0;
	}
	own->maybe = failed;
	/* An entry of an older session of ours ends with that session. */
	if (failed || !data || data->rc != ZOK ||
	    data->stat.ephemeralOwner != zk_conn_session(&zk->conn)) {
		own->at.node[0] = '\0';
	} else {
		zk_record_read(&record, data->text, data->length, "");
		own->state = record.state;
		own->version = data->stat.version;
		/* An entry that is ZK_NEW has to be written, because others may have evicted it. */
		own->fence = own->state == ZK_NEW ? 0 : (uint64_t)data->stat.czxid;
		own->stale = true;
	}
	zk_queue_finish(&queue);
	zk_call_free(sync);
	zk_call_free(names);
	zk_call_free(data);
	return failed ? -1 : 0;
}

/* Requests that go in one write: for an entry, and for the queue with it. */
struct enqueue {
	struct zk_call *made;		/* the directory; NULL: it was not asked for */
	struct zk_call *before;		/* the directory's stat */
	struct zk_call *created;
	struct zk_call *names;
};

static void send_enqueue(struct zk_backend *zk, const struct request *request, bool make,
			 struct enqueue *sent)
{
	char prefix[ZK_PREFIX_SIZE], data[ZK_RECORD_SIZE];
	struct zk_own *own = &zk->own;
	struct zk_pair pair;

	zk_entry_name(request->mode, request->slots, own->uuid, false, prefix);
	zk_node_path(own->directory, prefix, pair.node);
	zk_entry_name(request->mode, request->slots, own->uuid, true, prefix);
	zk_node_path(own->directory, prefix, pair.shadow);
	own->taken_ms = 0;
	own->was_read = false;
	zk_record_write(data, NULL, ZK_NEW, 0, request->text);
	own->maybe = true;
	own->sent_ms = clock_boot_ms();
	sent->made = make ? zk_create(&zk->conn, own->directory, "", ZOO_CONTAINER) : NULL;
	sent->before = zk_get(&zk->conn, own->directory, 0);
	sent->created = zk_create_pair(&zk->conn, &pair, data);
	sent->names = zk_list(&zk->conn, own->directory, 0);
}

/*
 * The transaction that made the two nodes, if no other has added or removed any since: the
 * directory, if it is the same one, counts them (cversion), and knows the last one (pzxid).
 * 0: not known. The reply to a transaction does not contain the number.
 */
static uint64_t fence_of(const struct enqueue *sent)
{
	const struct Stat *before = &sent->before->stat, *after = &sent->names->stat;

	if (sent->before->rc != ZOK || before->czxid != after->czxid ||
	    (uint32_t)after->cversion - (uint32_t)before->cversion != 2)
		return 0;
	return (uint64_t)after->pzxid;
}

static int take_entry(struct zk_backend *zk, const struct enqueue *sent, struct error *err)
{
	struct zk_own *own = &zk->own;

	snprintf(own->at.node, ZK_PATH_SIZE, "%s", sent->created->made[0]);
	snprintf(own->at.shadow, ZK_PATH_SIZE, "%s", sent->created->made[1]);
	own->state = ZK_NEW;
	own->version = 0;
	own->watch = 0;
	own->fence = fence_of(sent);
	own->maybe = false;
	if (zk_take_queue(zk, sent->names, err))
		return -1;
	/* It was not free when it was made, so it has to be written before it holds. */
	if (own->nearest)
		own->fence = 0;
	return 0;
}

static void refuse_entry(struct zk_backend *zk, int rc, struct error *err)
{
	if (rc == ZNOCHILDRENFOREPHEMERALS)
		error_set(err, ERROR_REFUSED, 0, "%s: %.200s is a node by itself: others take "
			  "this lock with ?strategy=node", zk->conn.label, zk->own.directory);
	else
		zk_call_error(&zk->conn, rc, "create a node in", zk->own.directory, err);
}

/* make: the directory, too. 0 with an entry; 1: there is no directory; -1 with *err. */
static int try_enqueue(struct zk_backend *zk, const struct request *request, bool make,
		       struct error *err)
{
	struct enqueue sent;
	int rc, result = -1;

	send_enqueue(zk, request, make, &sent);
	rc = zk_call_wait(sent.created);
	if (rc == ZOK)
		rc = sent.names->rc;
	if (rc == ZOK)
		result = take_entry(zk, &sent, err);
	else if (rc == ZNONODE)
		result = 1;
	else
		refuse_entry(zk, rc, err);
	if (result >= 0 || err->kind != ERROR_UNAVAILABLE)
		zk->own.maybe = false;
	zk_call_free(sent.made);
	zk_call_free(sent.before);
	zk_call_free(sent.created);
	zk_call_free(sent.names);
	return result;
}

/* Get an entry, or find the one whose request got no reply. 0, or -1 with *err. */
int zk_enqueue(struct zk_backend *zk, const struct request *request, struct error *err)
{
	struct zk_own *own = &zk->own;
	int result;

	zk_directory(zk, request->name, own->directory);
	zk_uuid(request->token, own->uuid);
	if (own->maybe && find_entry(zk, err))
		return -1;
	for (int tries = 0; !own->at.node[0] && tries < MAKE_TRIES; tries++) {
		result = try_enqueue(zk, request, tries > 0, err);
		if (result <= 0)
			return result;
		/* The root is missing. */
		if (tries > 0 && zk_make_directory(zk, own->directory, err))
			return -1;
	}
	if (own->at.node[0])
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s is removed again and again",
			 zk->conn.label, own->directory);
}
