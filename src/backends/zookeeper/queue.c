/* SPDX-License-Identifier: MIT */
/* Reading the queue for a lock: queue.h. */
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

void zk_node_path(const char *directory, const char *name, char path[static ZK_PATH_SIZE])
{
	if (snprintf(path, ZK_PATH_SIZE, *name ? "%s/%s" : "%s%s", directory, name) >=
	    ZK_PATH_SIZE)
		path[0] = '\0';
}

/* Read which of several nodes with one number was made first. */
static int read_czxids(struct zk_conn *conn, const char *directory, struct zk_queue *queue,
		       struct error *err)
{
	struct zk_call **calls = memory_new((size_t)queue->count, sizeof(*calls));
	char path[ZK_PATH_SIZE];
	int failed;

	for (ptrdiff_t i = 0; i < queue->count; i++) {
		zk_node_path(directory, queue->entries[i].name, path);
		calls[i] = zk_get(conn, path, 0);
	}
	failed = zk_conn_wait(conn);
	for (ptrdiff_t i = 0; i < queue->count; i++) {
		if (!failed && calls[i]->rc == ZOK)
			queue->entries[i].czxid = calls[i]->stat.czxid;
		zk_call_free(calls[i]);
	}
	free(calls);
	zk_entries_sort(queue->entries, (size_t)queue->count);
	return failed ? zk_call_error(conn, failed, "list", directory, err) : 0;
}

static void parse_names(struct zk_queue *queue)
{
	const char *name = queue->names->text;
	const size_t count = queue->names->count;
	struct zk_entry entry;

	queue->entries = memory_new(count, sizeof(*queue->entries));
	queue->shadows = memory_new(count, sizeof(*queue->shadows));
	for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
		if (!zk_entry_parse(&entry, name))
			continue;
		if (entry.shadow)
			queue->shadows[queue->shadow_count++] = entry;
		else
			queue->entries[queue->count++] = entry;
	}
}

int zk_queue_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
		  struct zk_queue *queue, struct error *err)
{
	int failed = 0;

	*queue = (struct zk_queue){ .names = names };
	if (names->rc == ZOK)
		parse_names(queue);
	else if (names->rc != ZNONODE)
		failed = zk_call_error(conn, names->rc, "list", directory, err);
	if (!failed && zk_entries_sort(queue->entries, (size_t)queue->count))
		failed = read_czxids(conn, directory, queue, err);
	if (failed)
		zk_queue_finish(queue);
	return failed;
}

int zk_queue_fetch(struct zk_conn *conn, const char *directory, struct zk_queue *queue,
		   struct error *err)
{
	struct zk_call *sync = zk_sync(conn, directory), *names = zk_list(conn, directory, 0);
	const int failed = zk_call_wait(sync);

	zk_call_free(sync);
	if (!failed)
		return zk_queue_read(conn, directory, names, queue, err);
	*queue = (struct zk_queue){ .count = 0 };
	zk_call_free(names);
	return zk_call_error(conn, failed, "sync", directory, err);
}

void zk_queue_finish(struct zk_queue *queue)
{
	zk_call_free(queue->names);
	free(queue->entries);
	free(queue->shadows);
	*queue = (struct zk_queue){ .count = 0 };
}

static const struct zk_entry *find_shadow(const struct zk_queue *queue, ptrdiff_t i)
{
	const char *uuid = zk_entry_uuid(&queue->entries[i]);

	for (ptrdiff_t k = 0; uuid && k < queue->shadow_count; k++)
		if (zk_entry_has_uuid(&queue->shadows[k], uuid))
			return &queue->shadows[k];
	return NULL;
}

ptrdiff_t zk_queue_find_uuid(const struct zk_queue *queue, const char *uuid)
{
	ptrdiff_t i = queue->count - 1;

	while (i >= 0 && !zk_entry_has_uuid(&queue->entries[i], uuid))
		i--;
	return i;
}

ptrdiff_t zk_queue_find(const struct zk_queue *queue, const char *name)
{
	for (ptrdiff_t i = 0; i < queue->count; i++)
		if (!strcmp(queue->entries[i].name, name))
			return i;
	return -1;
}

void zk_queue_pair(const struct zk_queue *queue, ptrdiff_t i, const char *directory,
		   struct zk_pair *pair)
{
	const struct zk_entry *shadow = find_shadow(queue, i);

	zk_node_path(directory, queue->entries[i].name, pair->node);
	pair->shadow[0] = '\0';
	if (shadow)
		zk_node_path(directory, shadow->name, pair->shadow);
}
