/* SPDX-License-Identifier: MIT */
/* Reading the queue for a lock. */
#include <stdio.h>
#include <string.h>

#include "lock.h"

void zk_node_path(const char *directory, const char *name, char path[static ZK_PATH_SIZE])
{
	if (snprintf(path, ZK_PATH_SIZE, *name ? "%s/%s" : "%s%s", directory, name) >=
	    ZK_PATH_SIZE)
		path[0] = '\0';
}

enum zk_end zk_queue_read_nodes(struct zk_conn *conn, struct zk_queue *queue, ptrdiff_t count,
				struct error *err)
{
	static const struct zk_call not_read = { .rc = ZOK };
	struct zk_entry *entry = queue->entries;
	const ptrdiff_t all = queue->count;
	char path[ZK_PATH_SIZE];

	for (ptrdiff_t i = 0; i < all; i++) {
		zk_node_path(queue->directory, entry[i].name, path);
		entry[i].data = i < count ? zk_get(conn, path, NULL) : &not_read;
	}
	zk_conn_wait(conn);
	queue->count = 0;
	for (ptrdiff_t i = 0; i < all; i++) {
		const int rc = entry[i].data->rc;

		if (rc == ZNONODE)
			continue;
		if (!zk_call_counts(rc))
			return zk_call_error(conn, rc, "list", queue->directory, err);
		entry[i].czxid = entry[i].data->stat.czxid;
		entry[queue->count++] = entry[i];
	}
	return ZK_DONE;
}

enum zk_end zk_queue_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
			  struct zk_queue *queue, struct error *err)
{
	struct zk_entry entry;
	const char *name;
	enum zk_end end;

	*queue = (struct zk_queue){ .directory = directory, .names = names };
	zk_conn_wait(conn);
	if (names->rc != ZOK && names->rc != ZNONODE)
		return zk_call_error(conn, names->rc, "list", directory, err);
	queue->entries = zk_conn_memory(conn, names->count, sizeof(*queue->entries));
	name = names->text;
	for (size_t i = 0; i < names->count; i++, name += strlen(name) + 1)
		if (zk_entry_parse(&entry, name) && !entry.shadow)
			queue->entries[queue->count++] = entry;
	if (!zk_entries_sort(queue->entries, (size_t)queue->count))
		return ZK_DONE;
	/* Several nodes have one number: find out which was made first. */
	end = zk_queue_read_nodes(conn, queue, queue->count, err);
	zk_entries_sort(queue->entries, (size_t)queue->count);
	return end;
}

enum zk_end zk_queue_fetch(struct zk_conn *conn, const char *directory, struct zk_queue *queue,
			   struct error *err)
{
	struct zk_call *sync = zk_sync(conn, directory);
	struct zk_call *names = zk_list(conn, directory, NULL);
	const int failed = zk_call_wait(sync);

	return failed ? zk_call_error(conn, failed, "sync", directory, err)
		      : zk_queue_read(conn, directory, names, queue, err);
}

void zk_queue_pair(const char *directory, const struct zk_entry *entry, struct zk_pair *pair)
{
	char name[ZK_PREFIX_SIZE];

	zk_node_path(directory, entry->name, pair->node);
	pair->shadow[0] = '\0';
	if (!entry->uuid)
		return;
	zk_entry_shadow(entry, name);
	zk_node_path(directory, name, pair->shadow);
}
