/* SPDX-License-Identifier: MIT */
/*
 * The queue for a lock as the server has it: the entries in their order, without shadows. It lives
 * as long as the operation that reads it (conn.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conn.h"
#include "entry.h"

struct error;

struct zk_queue {
	const char *directory;
	struct zk_call *names;		/* the answer that was read; the entries point into it */
	struct zk_entry *entries;	/* in their order */
	ptrdiff_t count;
};

/* Write the path of a node in a directory; "" if it is too long, as only a foreign one is. */
void zk_node_path(const char *directory, const char *name, char path[static ZK_PATH_SIZE]);

/*
 * Read the queue as the leader has it. A missing directory is an empty queue. Returns 0, or -1 and
 * sets *err.
 */
int zk_queue_fetch(struct zk_conn *conn, const char *directory, struct zk_queue *queue,
		   struct error *err);

/* Read the queue from the reply to zk_list(). Sends more requests if numbers are the same. */
int zk_queue_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
		  struct zk_queue *queue, struct error *err);

/*
 * Read the nodes of the first count entries, and remove the entries that have ended since the queue
 * was read. Returns 0, or -1 and sets *err.
 */
int zk_queue_read_nodes(struct zk_conn *conn, struct zk_queue *queue, ptrdiff_t count,
			struct error *err);

/* Find the last entry with that uuid. Returns its index, or -1. */
ptrdiff_t zk_queue_find_uuid(const struct zk_queue *queue, const char *uuid);

/* Write the paths of an entry and of the shadow that it has if dlock made it. */
void zk_queue_pair(const char *directory, const struct zk_entry *entry, struct zk_pair *pair);

/* Delete an entry in this version of its data, and its shadow if it has one. Returns the result. */
int zk_queue_delete(struct zk_conn *conn, const char *directory, const struct zk_entry *entry,
		    int32_t version);
