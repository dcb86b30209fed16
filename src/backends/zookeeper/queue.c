/* SPDX-License-Identifier: MIT */
/* The queue for a lock as the server has it: queue.h. */
#include "queue.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "conn.h"

/* A list of names that is longer gives its memory back to the kernel: a waiter stays small. */
#define LONG_LIST 16384

void zk_node_path(const char *directory, const char *name, char path[static ZK_PATH_SIZE])
{
	if (snprintf(path, ZK_PATH_SIZE, *name ? "%s/%s" : "%s%s", directory, name) >=
	    ZK_PATH_SIZE)
		path[0] = '\0';
}

/* Some nodes have the same number: read which one was made first. */
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

static void parse_names(struct zk_queue *queue, size_t count)
{
	const char *name = queue->names;
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
	*queue = (struct zk_queue){ .count = 0 };
	if (names->rc == ZNONODE)
		return 0;
	if (names->rc != ZOK)
		return zk_call_error(conn, names->rc, "list", directory, err);
	queue->names = memory_new(names->length + 1, 1);
	memcpy(queue->names, names->text, names->length);
	parse_names(queue, names->count);
	if (!zk_entries_sort(queue->entries, (size_t)queue->count) ||
	    !read_czxids(conn, directory, queue, err))
		return 0;
	zk_queue_finish(queue);
	return -1;
}

void zk_queue_finish(struct zk_queue *queue)
{
	free(queue->names);
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

/* Copy an entry to the end of a list; its name goes to text. Returns the end of the text. */
static char *copy_entry(struct zk_entry *entries, ptrdiff_t *count, const struct zk_entry *entry,
			char *text)
{
	entries[*count] = *entry;
	entries[(*count)++].name = text;
	return stpcpy(text, entry->name) + 1;
}

void zk_queue_keep(struct zk_queue *queue, const ptrdiff_t *indices, ptrdiff_t count)
{
	struct zk_queue kept = { .count = 0 };
	const struct zk_entry *shadow;
	size_t size = 1;
	char *text;

	for (ptrdiff_t i = 0; i < count; i++) {
		shadow = find_shadow(queue, indices[i]);
		size += strlen(queue->entries[indices[i]].name) + 1;
		size += shadow ? strlen(shadow->name) + 1 : 0;
	}
	text = kept.names = memory_new(size, 1);
	kept.entries = memory_new((size_t)count, sizeof(*kept.entries));
	kept.shadows = memory_new((size_t)count, sizeof(*kept.shadows));
	for (ptrdiff_t i = 0; i < count; i++) {
		shadow = find_shadow(queue, indices[i]);
		text = copy_entry(kept.entries, &kept.count, &queue->entries[indices[i]], text);
		if (shadow)
			text = copy_entry(kept.shadows, &kept.shadow_count, shadow, text);
	}
	size = (size_t)queue->count * sizeof(*kept.entries);
	zk_queue_finish(queue);
	if (size > LONG_LIST)
		malloc_trim(0);
	*queue = kept;
}

void zk_queue_remove(struct zk_queue *queue, ptrdiff_t i)
{
	queue->count--;
	memmove(queue->entries + i, queue->entries + i + 1,
		(size_t)(queue->count - i) * sizeof(*queue->entries));
}

ptrdiff_t zk_queue_find_uuid(const struct zk_queue *queue, const char *uuid)
{
	for (ptrdiff_t i = 0; i < queue->count; i++)
		if (zk_entry_has_uuid(&queue->entries[i], uuid))
			return i;
	return -1;
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
