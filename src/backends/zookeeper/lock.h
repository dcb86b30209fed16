/* SPDX-License-Identifier: MIT */
/*
 * The object of the ZooKeeper backend, with this process's one entry in the queue, or node.
 * backend.c explains how the backend works.
 */
#pragma once

#include "calls.h"
#include "layout.h"

/* The entry of this process. */
struct zk_own {
	char directory[ZK_PATH_SIZE];	/* of the lock */
	char uuid[ZK_UUID_SIZE];
	int64_t session;		/* that all below belongs to */
	struct zk_pair at;		/* at.node is "" while no entry is known */
	bool maybe;			/* the entry was asked for, and may be there */
	bool held;			/* acquire() has returned HELD */
	int64_t taken_ms;		/* as stored: see layout.h */
	/* Of a hold that was proven by a request sent at sent_ms (CLOCK_BOOTTIME); 0: none was. */
	uint64_t fence;
	int64_t sent_ms;
	bool unwatched;			/* no watch on its end is set, or it has fired */
	int64_t contact_ms;		/* CLOCK_BOOTTIME: a holder sends a request then */

	bool blocked;			/* by the last reading, an entry before ours blocks it */
	bool stale;			/* its end was reported since, or may have been */
};

struct zk_backend {
	struct backend base;
	struct zk_conn conn;
	char *root;			/* "/dlock" */
	bool one_node;			/* ?strategy=node */
	bool done;			/* only show() may follow */
	struct zk_own own;
};

static inline struct zk_backend *zk_from_backend(struct backend *backend)
{
	return (struct zk_backend *)backend;
}

/* ---- queue.c: the queue for a lock as the server has it ---- */

/* The entries in their order, without shadows, for as long as the operation that has read them. */
struct zk_queue {
	const char *directory;
	struct zk_call *names;		/* the answer that was read; the entries point into it */
	struct zk_entry *entries;	/* in their order */
	ptrdiff_t count;
};

/* Write the path of a node in a directory; "" if it is too long, as only a foreign one is. */
void zk_node_path(const char *directory, const char *name, char path[static ZK_PATH_SIZE]);

/* Write the path of a lock's directory. */
static inline void zk_directory(const struct zk_backend *zk, const char *name,
				char path[static ZK_PATH_SIZE])
{
	char component[ZK_COMPONENT_SIZE];

	zk_path_encode(name, component);
	zk_node_path(zk->root, component, path);
}

/* Read the queue as the leader has it. A missing directory is an empty queue. */
enum zk_end zk_queue_fetch(struct zk_conn *conn, const char *directory, struct zk_queue *queue,
			   struct error *err);

/* Read the queue from the reply to zk_list(). Sends more requests if numbers are the same. */
enum zk_end zk_queue_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
			  struct zk_queue *queue, struct error *err);

/*
 * Read the nodes of the first count entries, and remove the entries that have ended since the queue
 * was read.
 */
enum zk_end zk_queue_read_nodes(struct zk_conn *conn, struct zk_queue *queue, ptrdiff_t count,
				struct error *err);

/* Write the paths of an entry and of the shadow that it has if dlock made it. */
void zk_queue_pair(const char *directory, const struct zk_entry *entry, struct zk_pair *pair);

/* ---- acquire.c ---- */
backend_grant_fn zk_acquire;
int64_t zk_event(struct backend *backend);
/*
 * Wait for the answer to a request about our node. ZK_ENDED: the node has ended, as far as the
 * answer says.
 */
enum zk_end zk_own_await(const struct zk_backend *zk, struct zk_call *call, const char *what,
			 struct error *err);
/* End the session, and so all its nodes. */
void zk_own_leave(struct zk_backend *zk);
/* Fill *grant for a hold that was proven by a request sent at own.sent_ms. */
void zk_grant(struct zk_backend *zk, struct grant *grant);

/* ---- show.c ---- */
backend_show_fn zk_show;
backend_break_fn zk_break;

/* ---- check.c ---- */
/*
 * Make a node, which may exist, and all that is missing above it. mode: ZOO_PERSISTENT or
 * ZOO_CONTAINER.
 */
enum zk_end zk_make_directory(struct zk_backend *zk, const char *path, int mode,
			      struct error *err);
int zk_setup(struct backend *backend, char **plan, struct error *err);
int zk_check(struct backend *backend, struct findings *findings, struct error *err);
