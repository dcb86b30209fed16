/* SPDX-License-Identifier: MIT */
/*
 * The queue for a lock as the server has it: the entries in their order, and the shadows of those
 * that dlock made. Every queue ends with zk_queue_finish().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conn.h"
#include "entry.h"

struct error;

struct zk_queue {
	struct zk_call *names;		/* the answer that was read; the entries point into it */
	struct zk_entry *entries;	/* in their order */
	ptrdiff_t count;
	struct zk_entry *shadows;	/* in no order */
	ptrdiff_t shadow_count;
};

/* Write the path of a node in a directory. It is "" if it has no room: such a node is foreign. */
void zk_node_path(const char *directory, const char *name, char path[static ZK_PATH_SIZE]);

/*
 * Ask for the queue as it is at the leader, and read it. A directory that is not there is an empty
 * queue. Returns 0, or -1 and sets *err; then the queue is empty, too.
 */
int zk_queue_fetch(struct zk_conn *conn, const char *directory, struct zk_queue *queue,
		   struct error *err);

/*
 * The same with the answer to zk_list(), which belongs to the queue from now on. Sends more
 * requests if numbers are the same.
 */
int zk_queue_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
		  struct zk_queue *queue, struct error *err);
void zk_queue_finish(struct zk_queue *queue);

/* The index of the last entry with that uuid, or of that name; -1: there is none. */
ptrdiff_t zk_queue_find_uuid(const struct zk_queue *queue, const char *uuid);
ptrdiff_t zk_queue_find(const struct zk_queue *queue, const char *name);

/* Write the paths of entry i and its shadow; the shadow's is "" if it has none. */
void zk_queue_pair(const struct zk_queue *queue, ptrdiff_t i, const char *directory,
		   struct zk_pair *pair);
