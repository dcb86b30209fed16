/* SPDX-License-Identifier: MIT */
/* Showing holds and waiters, and breaking holds. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "lock.h"

/* Read the queue and the nodes of a lock. */
static enum zk_end read_lock(struct zk_backend *zk, const char *name, struct zk_queue *queue,
			     struct error *err)
{
	char *directory = zk_conn_memory(&zk->conn, 1, ZK_PATH_SIZE);
	ptrdiff_t count = 0;
	enum zk_end end;

	zk_directory(zk, name, directory);
	end = zk_queue_fetch(&zk->conn, directory, queue, err);
	if (end)
		return end;
	/* Another process uses strategy node: the directory itself is the only entry. */
	if (queue->names->stat.ephemeralOwner) {
		queue->entries = zk_conn_memory(&zk->conn, 1, sizeof(*queue->entries));
		queue->entries[0] = (struct zk_entry){ .name = "" };
		queue->count = 1;
	}
	/*
	 * A process that waits reads only the holders, because a long queue would be slow if each
	 * waiter read all others.
	 */
	while (count < queue->count &&
	       (!zk->own.at.node[0] || zk_entries_blocker(queue->entries, count) < 0))
		count++;
	return zk_queue_read_nodes(&zk->conn, queue, count, err);
}

/* ---- rows ---- */

/* Describe another program's entry by its data and stat. */
static void describe_foreign(const struct zk_entry *entry, struct holder *holder)
{
	const char *maker = !entry->name[0] ? "dlock" : entry->uuid ? "Curator" : "kazoo";
	const struct zk_call *data = entry->data;

	/* Curator stores its host's address by default, and kazoo a name of the user's choice. */
	if (data->text)
		text_clean(data->text, strlen(data->text), holder->host, sizeof(holder->host));
	snprintf(holder->command, sizeof(holder->command), "%s, session 0x%llx", maker,
		 (unsigned long long)data->stat.ephemeralOwner);
}

static void add_row(struct rows *rows, const struct zk_entry *entry, const char *uuid, bool holds)
{
	const struct zk_call *data = entry->data;
	struct zk_record record;
	struct row *row;

	zk_record_read(&record, data->text, uuid);
	row = rows_add(rows, holds, data->text, record.foreign ? 0 : strlen(data->text));
	if (record.foreign)
		describe_foreign(entry, &row->holder);
	row->mine = record.mine || zk_entry_has_uuid(entry, uuid);
	row->mode = entry->mode;
	row->slots = entry->slots;
	row->age_ms = rows_age(holds && record.taken_ms ? record.taken_ms : data->stat.ctime);
	row->fence = holds ? (uint64_t)data->stat.czxid : 0;
	if (row->fence > rows->fence)
		rows->fence = row->fence;
}

/* Has a directory an entry, or is it a node of strategy node? Adds the names of all other nodes. */
static bool scan_names(const struct zk_call *names, struct name_list *others)
{
	bool any = names->stat.ephemeralOwner;
	const char *name = names->text;
	struct zk_entry entry;

	for (size_t i = 0; i < names->count; i++, name += strlen(name) + 1)
		if (zk_entry_parse(&entry, name))
			any |= !entry.shadow;
		else
			name_list_add(others, name, strlen(name));
	return any;
}

static enum zk_end show_lock(struct zk_backend *zk, const struct request *request,
			     struct rows *rows, struct error *err)
{
	char uuid[ZK_UUID_SIZE] = "";
	struct zk_queue queue;
	const enum zk_end end = read_lock(zk, request->name, &queue, err);

	if (end)
		return end;
	if (request->token[0])
		zk_uuid(request->token, uuid);
	for (ptrdiff_t i = 0; i < queue.count; i++)
		add_row(rows, &queue.entries[i], uuid, zk_entries_blocker(queue.entries, i) < 0);
	scan_names(queue.names, &rows->ignored);
	return ZK_DONE;
}

/* ---- the names of all locks ---- */

/* Read all directories in the root. */
static enum zk_end show_names(struct zk_backend *zk, struct rows *rows, struct error *err)
{
	struct zk_call **calls;
	const char *component;
	char path[ZK_PATH_SIZE], name[ZK_COMPONENT_SIZE];
	struct zk_queue queue;
	/* The root is read as a queue is, though its names are those of locks. */
	const enum zk_end end = zk_queue_fetch(&zk->conn, zk->root, &queue, err);

	if (end)
		return end;
	calls = zk_conn_memory(&zk->conn, queue.names->count, sizeof(struct zk_call *));
	component = queue.names->text;
	for (size_t i = 0; i < queue.names->count; i++, component += strlen(component) + 1) {
		zk_node_path(zk->root, component, path);
		calls[i] = zk_list(&zk->conn, path, NULL);
	}
	zk_conn_wait(&zk->conn);
	for (size_t i = 0; i < queue.names->count; i++)
		if (!zk_call_counts(calls[i]->rc))
			return zk_call_error(&zk->conn, calls[i]->rc, "list", zk->root, err);
	component = queue.names->text;
	for (size_t i = 0; i < queue.names->count; i++, component += strlen(component) + 1)
		if (scan_names(calls[i], &rows->ignored) &&
		    zk_path_decode(component, name, sizeof(name)))
			name_list_add(&rows->names, name, strlen(name));
	return ZK_DONE;
}

int zk_show(struct backend *backend, const struct request *request, struct rows *rows,
	    struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum zk_end end = zk_conn_begin(&zk->conn, backend->connect_timeout_ms, ZK_ASKING_MS);

	/* An expired session that has our entry is for acquire() or renew() to find. */
	while (zk_conn_try(&zk->conn, !zk->own.directory[0], &end, err))
		end = request->name ? show_lock(zk, request, rows, err)
				    : show_names(zk, rows, err);
	/* A process that gives up shows the holder and exits without close(). */
	if (zk->done)
		zk_conn_close(&zk->conn);
	zk_conn_free(&zk->conn);
	return end ? -1 : 0;
}

/* ---- removing ---- */

/* Remove the entry that transaction czxid has made, if it is still there: *outcome HELD. */
static enum zk_end remove_once(struct zk_backend *zk, const char *name, int64_t czxid,
			       enum outcome *outcome, struct error *err)
{
	struct zk_queue queue;
	const enum zk_end end = read_lock(zk, name, &queue, err);
	struct zk_pair pair;
	int32_t version;
	int rc = ZNONODE;

	for (ptrdiff_t i = 0; !end && i < queue.count; i++) {
		if (queue.entries[i].czxid != czxid)
			continue;
		zk_queue_pair(queue.directory, &queue.entries[i], &pair);
		/* With strategy node a later node has this path. Its version may differ. */
		version = queue.entries[i].data->stat.version;
		rc = zk_call_wait(zk_delete_pair(&zk->conn, &pair, version));
		/* Is it Curator's, or has somebody removed the shadow alone? */
		pair.shadow[0] = '\0';
		if (rc == ZNONODE)
			rc = zk_call_wait(zk_delete_pair(&zk->conn, &pair, version));
	}
	if (rc == ZOK)
		*outcome = OUTCOME_HELD;
	return end || rc == ZOK || rc == ZNONODE
		       ? end
		       : zk_call_error(&zk->conn, rc, "remove an entry of", queue.directory, err);
}

enum outcome zk_break(struct backend *backend, const char *name, const struct row *row,
		      struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum zk_end end = zk_conn_begin(&zk->conn, backend->connect_timeout_ms, ZK_ASKING_MS);
	enum outcome outcome = OUTCOME_LOST;

	while (zk_conn_try(&zk->conn, true, &end, err))
		end = remove_once(zk, name, (int64_t)row->fence, &outcome, err);
	return end ? OUTCOME_ERROR : outcome;
}
