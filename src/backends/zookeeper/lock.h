/* SPDX-License-Identifier: MIT */
/*
 * The object of the ZooKeeper backend, with the one entry in the queue, or node, of this process.
 * All parts of the backend work on it; backend.c says how the backend works.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lock/backend.h"
#include "call.h"
#include "conn.h"
#include "path.h"
#include "queue.h"
#include "record.h"

/* A watch on the end of an entry. */
struct zk_watched {
	char *name;			/* NULL: none */
	uint32_t number;
};

enum { ZK_WATCHED = 3 };

/* The entry of this process. */
struct zk_own {
	char directory[ZK_PATH_SIZE];	/* of the lock */
	char uuid[ZK_UUID_SIZE];
	struct zk_pair at;		/* at.node is "" while no entry is known */
	bool maybe;			/* the entry was asked for, and no reply came */
	bool held;			/* acquire() has returned HELD */
	enum zk_state state;		/* as stored */
	int32_t version;		/* of the stored data */
	int64_t taken_ms;		/* see record.h */
	/* 0: not known yet. An entry in ZK_NEW whose fence is known holds if no entry blocks it. */
	uint64_t fence;
	int64_t sent_ms;		/* CLOCK_BOOTTIME before the request that may prove it */
	uint32_t watch;			/* on its end; 0: none */

	/* while it waits */
	struct zk_queue queue;		/* entries before ours, and ours as the last one */
	ptrdiff_t ahead;		/* how many were before ours when it was read */
	int other_slots;		/* slots of an entry before ours that disagrees; or 0 */
	bool whole;			/* all entries before ours are in the queue */
	bool was_read;			/* the queue, since this entry was made; then: */
	int32_t last_free;		/* number of the last one before ours that could hold */
	bool any;			/* see zk_entries_any() */
	const char *nearest;		/* the nearest entry that blocks ours; NULL: none does */
	const char *second;		/* the nearest entry that blocks that one */
	struct zk_watched watched[ZK_WATCHED];
	uint32_t directory_watch;	/* for a slot that any end may let in; 0: none */
	bool turn;			/* the nearest one has ended */
	bool stale;			/* the queue has to be read again */
	bool alert;			/* an end was seen: the next holder must follow in time */
	int64_t list_ms;		/* CLOCK_BOOTTIME: read the queue again */
	int64_t check_ms;		/* check whether those that could hold do */
	int64_t look_ms;		/* check what no watch reports */
};

struct zk_backend {
	struct backend base;
	struct zk_conn conn;
	char *root;			/* "/dlock" */
	bool one_node;			/* ?strategy=node */
	bool done;			/* it only has to show who has the lock, and then ends */
	struct zk_own own;
};

static inline struct zk_backend *zk_from_backend(struct backend *backend)
{
	return (struct zk_backend *)backend;
}

/* Write the path of a lock's directory. */
static inline void zk_directory(const struct zk_backend *zk, const char *name,
				char path[static ZK_PATH_SIZE])
{
	char component[ZK_COMPONENT_SIZE];

	zk_path_encode(name, component);
	snprintf(path, ZK_PATH_SIZE, "%s/%s", zk->root, component);
}

/* ---- acquire.c: strategy queue ---- */
enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err);
int64_t zk_queue_event(struct zk_backend *zk);
/* End the session, and all nodes that it has. */
void zk_own_leave(struct zk_backend *zk);
/* The session has ended by itself. */
void zk_own_forget(struct zk_own *own);
/* Fill *grant for a hold that was proven by a request sent at sent_ms. */
void zk_grant(struct zk_backend *zk, int64_t sent_ms, struct grant *grant);

/* ---- node.c: strategy node ---- */
enum outcome zk_node_acquire(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err);

/* ---- hold.c ---- */
backend_grant_fn zk_renew;
backend_release_fn zk_release;

/* ---- show.c ---- */
backend_show_fn zk_show;
backend_break_fn zk_break;
/* Add a finding if other programs keep nodes of their own in directories of locks. 0 or -1. */
int zk_check_ignored(struct zk_backend *zk, struct findings *findings, struct error *err);

/* ---- check.c ---- */
/* Make the root, or a directory in it and the root if it is missing. 0, or -1 with *err. */
int zk_make_root(struct zk_backend *zk, struct error *err);
int zk_make_directory(struct zk_backend *zk, const char *path, struct error *err);
int zk_setup(struct backend *backend, char **plan, struct error *err);
int zk_check(struct backend *backend, struct findings *findings, struct error *err);
