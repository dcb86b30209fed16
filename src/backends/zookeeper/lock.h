/* SPDX-License-Identifier: MIT */
/* The parts of the ZooKeeper backend share this; see backend.c for how it works. */
#ifndef DLOCK_ZOOKEEPER_LOCK_H
#define DLOCK_ZOOKEEPER_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/backend.h"
#include "call.h"
#include "conn.h"
#include "place.h"
#include "state.h"

struct findings;
struct lock_view;
struct name_list;

/*
 * One that has its turn has so long to take it; then whoever comes after it removes its
 * place. A dead one must not delay the next by more than 1 s, a hung one by 5 s (SPEC, 2.7).
 */
#define ZK_GRACE_MS 900

/* What the one node of strategy node says: its uuid, its state, and who holds it. */
#define ZK_NODE_TEXT_SIZE (HOLDER_TEXT_SIZE + ZK_STATE_SIZE + ZK_UUID_SIZE + 16)

/* All places of a lock, in their order, and the twins of those of dlock, in none. */
struct zk_line {
	struct zk_call *names;		/* has the strings; or, when it was shortened, ... */
	char *kept;
	ptrdiff_t dropped;		/* so many places are not in it */
	struct zk_place *places;
	ptrdiff_t count;
	struct zk_place *twins;
	ptrdiff_t twin_count;
};

/* The one place, or node, that this process has, or may have. */
struct zk_seat {
	char directory[ZK_PATH_SIZE];	/* of the lock */
	char uuid[ZK_UUID_SIZE];
	char place[ZK_PATH_SIZE];	/* paths; "": none that is known of */
	char twin[ZK_PATH_SIZE];	/* with strategy node both are the same */
	int64_t session;		/* that made it */
	bool maybe;			/* it was asked for, and no answer came */
	bool removing;			/* the same of its removal */
	enum zk_phase phase;
	int32_t version;		/* of the twin's data */
	struct zk_state state;
	uint64_t fence;			/* 0: not known yet */
	int64_t sent_ms;		/* before the place was asked for */
	uint32_t own_watch;

	/* while waiting */
	struct zk_line line;		/* places before ours, and ours */
	bool stale;			/* the line is to be read again */
	char *watched;			/* the place that is */
	uint32_t place_watch;
	uint32_t line_watch;		/* on the directory; 0: none */
	uint32_t twin_watch;
	bool answers;			/* the watched one, if it is its turn, has taken it */
	bool before_waits;		/* it waited when the watches were set */
	bool held_alone;		/* it holds, or has held, and nobody with it */
	int64_t turn_ms;		/* since when it does not; 0: it is not so */
	int64_t look_ms;		/* next look for what no watch tells of */
	bool look_near;			/* at the place that we wait for */
	struct holder holder;
	int64_t holder_since_ms;	/* wall clock; 0: not known */
};

struct zk_backend {
	struct backend base;
	struct zk_conn conn;
	char *root;			/* "/dlock" */
	bool one_node;			/* ?strategy=node */
	struct zk_seat seat;
	uint32_t inspect_watch;
};

struct zk_backend *zk_from_backend(struct backend *backend);

/* ---- line.c ---- */

/* The path of a lock's directory, of a node in it. */
void zk_directory(const struct zk_backend *zk, const char *name, char path[static ZK_PATH_SIZE]);
void zk_node(const char *directory, const char *name, char path[static ZK_PATH_SIZE]);

/* Make the root, or a directory in it, and the root if it is missing. 0, or -1 with *err. */
int zk_make_root(struct zk_backend *zk, struct error *err);
int zk_make_directory(struct zk_backend *zk, const char *path, struct error *err);
/* Removes a directory if it is empty; the other, if it is one that no server removes. */
void zk_remove_directory(struct zk_backend *zk, const char *path);
void zk_tidy_directory(struct zk_backend *zk, const char *path, const struct Stat *stat);

/*
 * Reads the answer to zk_list(), which is *line's then; one that failed, or that has not
 * come, gives an empty line. Asks for more if numbers are the same. 0, or -1 with *err; the
 * caller ends with zk_line_finish(), in any case.
 */
int zk_line_read(struct zk_backend *zk, const char *directory, struct zk_call *names,
		 struct zk_line *line, struct error *err);
/* Asks and waits, for both. A directory that is not there is an empty line. */
int zk_line_get(struct zk_backend *zk, const char *directory, uint32_t watch,
		struct zk_line *line, struct error *err);
void zk_line_finish(struct zk_line *line);

/*
 * Keeps of a long line the places that place me, the last one then, may have to ask about:
 * so many, and two.
 */
#define ZK_LINE_KEPT 17
void zk_line_shorten(struct zk_line *line, ptrdiff_t me);

/* The place with that uuid, or name; -1: there is none. */
ptrdiff_t zk_line_find_uuid(const struct zk_line *line, const char *uuid);
ptrdiff_t zk_line_find(const struct zk_line *line, const char *name);
void zk_line_remove(struct zk_line *line, ptrdiff_t i, ptrdiff_t count);

/* The twin of a place, or NULL: it is not dlock's. */
const struct zk_place *zk_line_twin(const struct zk_line *line, const struct zk_place *place);

/*
 * Who a place belongs to, by its data, its stat and, unless that is NULL, its state.
 * *since_ms is on the wall clock, the server's if need be; 0: not known.
 */
void zk_describe(const struct zk_place *place, const struct zk_call *data,
		 const struct zk_state *state, struct holder *holder, int64_t *since_ms);

/*
 * Sees to it that those whose turn it is take it, and removes the places of those who do
 * not, until one has, nobody is there, or the time is up. Best effort. names: what zk_list()
 * has answered after the last holder went; freed here.
 */
void zk_hand_over(struct zk_backend *zk, const char *directory, struct zk_call *names,
		  int64_t until_ms);

/* ---- node.c: strategy node ---- */

enum outcome zk_node_acquire(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err);
int64_t zk_node_event(struct zk_backend *zk);
/* Does the node's data have this uuid? */
bool zk_node_is(const struct zk_call *data, const char *uuid);
/* The same data with another state. */
void zk_node_text(const char *old, size_t length, const struct zk_state *state,
		  char text[static ZK_NODE_TEXT_SIZE]);

/* ---- seat.c: a place in line ---- */

/*
 * Takes a place, or finds the one that was taken when no answer came; then the line is read.
 * 0, or -1 with *err.
 */
int zk_seat_take(struct zk_backend *zk, const struct request *request, struct error *err);
/* Keeps what of *line is before our place, which is in it. 0, or -1 with *err: it is not. */
int zk_seat_sit(struct zk_backend *zk, struct zk_line *line, struct error *err);
/* The place is not there any more, though the session is: ERROR. */
enum outcome zk_seat_gone(struct zk_backend *zk, struct error *err);
/* Ends the session, and all that it has. */
void zk_seat_leave(struct zk_backend *zk);
void zk_seat_forget(struct zk_seat *seat);
/* It holds: what the session is good for when a request sent then was answered. */
void zk_grant(struct zk_backend *zk, int64_t sent_ms, struct grant *grant);

/* ---- watch.c ---- */

/*
 * Sees to it that a watch tells of the end of place i, which we wait for. 1: it has ended,
 * or the line has to be looked at anew; 0; -1 with *err.
 */
int zk_watch_out(struct zk_backend *zk, ptrdiff_t i, struct error *err);
/* Reads the line again: those before us may be others than we think. 0 or -1. */
int zk_read_again(struct zk_backend *zk, bool watch, struct error *err);

/* ---- queue.c: see struct backend_ops ---- */

enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err);
int64_t zk_queue_event(struct zk_backend *zk);

/* ---- token.c: the place of a token, whoever made it ---- */

struct zk_found {
	bool waits;			/* it does not hold */
	bool counted;			/* by zk_count(): there is one more, or one less */
	char directory[ZK_PATH_SIZE];
	char paths[2][ZK_PATH_SIZE];	/* of the place and its twin */
	enum hold_mode mode;
	int slots;			/* HOLD_SLOT */
	struct zk_state state;
	int32_t version;		/* of the twin */
	uint64_t fence;
	char text[ZK_NODE_TEXT_SIZE];	/* strategy node: what the node says */
};

/* HELD with *found; LOST, perhaps with found->waits; ERROR. Through the leader. */
enum outcome zk_find(struct zk_backend *zk, const struct request *request,
		     struct zk_found *found, struct error *err);
/* The same by found->paths. */
enum outcome zk_find_again(struct zk_backend *zk, struct zk_found *found, struct error *err);
/* Writes the state, unless somebody else has meanwhile. HELD, LOST, BUSY: do it again. */
enum outcome zk_write_state(struct zk_backend *zk, const struct zk_found *found,
			    struct error *err);
/*
 * Adds to how often it was acquired, if that leaves one. HELD with found->counted, LOST,
 * BUSY: the hold does not cover request, as *err says; ERROR.
 */
enum outcome zk_count(struct zk_backend *zk, const struct request *request, int by,
		      struct zk_found *found, struct error *err);
enum outcome zk_lost(const struct zk_backend *zk, const char *what, struct error *err);

/* ---- hold.c, token.c: see struct backend_ops ---- */

/* Does this object hold, by a session of its own? */
bool zk_is_holder(const struct zk_backend *zk);

enum outcome zk_hold_renew(struct zk_backend *zk, const struct request *request,
			   struct grant *grant, struct error *err);
enum outcome zk_renew_other(struct zk_backend *zk, const struct request *request,
			    struct grant *grant, struct error *err);
enum outcome zk_hold_verify(struct zk_backend *zk, const struct request *request,
			    struct error *err);
enum outcome zk_hold_release(struct zk_backend *zk, const struct request *request,
			     enum release how, int64_t keep_ms, struct error *err);
enum outcome zk_hold_again(struct zk_backend *zk, const struct request *request,
			   struct grant *grant, struct error *err);

/* Frees what a process of its own has kept, and ends the session. */
void zk_hold_end(struct zk_backend *zk);

/* ---- inspect.c, check.c: see struct backend_ops ---- */

int zk_inspect(struct backend *backend, const char *name, bool listen, struct lock_view *view,
	       struct error *err);
int zk_list_names(struct backend *backend, struct name_list *names, struct error *err);
int zk_break(struct backend *backend, const char *name, struct lock_view *view,
	     struct error *err);
int zk_setup(struct backend *backend, struct error *err);
int zk_plan(struct backend *backend, char **text, struct error *err);
int zk_check(struct backend *backend, struct findings *findings, struct error *err);

#endif
