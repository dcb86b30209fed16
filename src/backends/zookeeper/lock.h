/* SPDX-License-Identifier: MIT */
/*
 * The object of the ZooKeeper backend, and its seat: the one place in line, or node, that this
 * process has. All parts of the backend work on these two; backend.c says how the backend works.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/backend.h"
#include "call.h"
#include "conn.h"
#include "line.h"
#include "state.h"

/*
 * A waiter has this long to take its turn; then whoever comes after it removes its place. So a
 * dead waiter delays the next one by less than 1 s, and a hung one by less than 5 s.
 */
#define ZK_GRACE_MS 900

struct zk_seat {
	char directory[ZK_PATH_SIZE];	/* of the lock */
	char uuid[ZK_UUID_SIZE];
	struct zk_pair at;		/* at.place is "" while no place is known of */
	bool maybe;			/* the place was asked for, and no answer came */
	bool removing;			/* its removal was asked for, and no answer came */
	enum zk_phase phase;
	int32_t version;		/* of the twin's data */
	struct zk_state state;
	uint64_t fence;			/* 0: not known yet */
	int64_t sent_ms;		/* CLOCK_BOOTTIME before the place was asked for */
	uint32_t own_watch;		/* on the place; 0: none */

	/* while waiting */
	struct zk_line line;		/* the places before ours, and ours as the last one */
	bool stale;			/* the line is to be read again */
	char *watched;			/* name of the place that is watched; NULL: none */
	uint32_t place_watch;		/* on the watched place */
	uint32_t twin_watch;		/* on its twin */
	uint32_t line_watch;		/* on the directory; 0: none */
	bool answers;			/* the watched place has taken its turn, if that has come */
	bool before_waits;		/* the watched place waited when the watches were set */
	bool held_alone;		/* the watched place holds, or has held, exclusively */
	int64_t turn_ms;		/* since when it has not taken its turn; 0: it is not so */
	int64_t look_ms;		/* next look for what no watch tells of */
	bool look_near;			/* that look is at the place that we wait for */
	struct holder holder;		/* to show */
	int64_t holder_since_ms;	/* wall clock; 0: not known */
};

struct zk_backend {
	struct backend base;
	struct zk_conn conn;
	char *root;			/* "/dlock" */
	bool one_node;			/* ?strategy=node */
	struct zk_seat seat;
	uint32_t inspect_watch;		/* on the directory that inspect() listens to; 0: none */
};

static inline struct zk_backend *zk_from_backend(struct backend *backend)
{
	return (struct zk_backend *)backend;
}

/* Does this object hold, by a session of its own? */
static inline bool zk_is_holder(const struct zk_backend *zk)
{
	return zk->seat.phase == ZK_HELD && zk->seat.at.place[0];
}
