/* SPDX-License-Identifier: MIT */
/*
 * The line for a lock as the server has it: the places in their order, and the twins of those that
 * dlock made. zk_line_get() reads the line; where other requests are sent along, zk_list(),
 * zk_conn_wait() and zk_line_read() do. Every line ends with zk_line_finish().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call.h"
#include "place.h"

struct error;
struct holder;
struct zk_state;

struct zk_line {
	struct zk_call *names;		/* has the strings; once the line was shortened, ... */
	char *kept;			/* ... this has them */
	ptrdiff_t dropped;		/* how many places are not in it any more */
	struct zk_place *places;	/* in their order */
	ptrdiff_t count;
	struct zk_place *twins;		/* in no order */
	ptrdiff_t twin_count;
};

/* Writes the path of a node in a directory; of the directory itself when name is "". */
void zk_node(const char *directory, const char *name, char path[static ZK_PATH_SIZE]);

/*
 * Takes the answer to zk_list(), which *line owns from then on; an answer that failed, or that
 * has not come, gives an empty line. Asks for more if numbers are the same. 0, or -1 with *err and
 * an empty line.
 */
int zk_line_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
		 struct zk_line *line, struct error *err);
/* Asks and waits, for both. A directory that is not there is an empty line. */
int zk_line_get(struct zk_conn *conn, const char *directory, uint32_t watch,
		struct zk_line *line, struct error *err);
void zk_line_finish(struct zk_line *line);

/*
 * Shortens a long line to what the waiter at place me may have to ask about: the head, the place
 * that it waits for, and the last ZK_LINE_KEPT, of which its own is then the last.
 */
#define ZK_LINE_KEPT 17
void zk_line_shorten(struct zk_line *line, ptrdiff_t me);

/* The index of the place with that uuid, or that name; -1: there is none. */
ptrdiff_t zk_line_find_uuid(const struct zk_line *line, const char *uuid);
ptrdiff_t zk_line_find(const struct zk_line *line, const char *name);
/* Takes out count places from i on. */
void zk_line_remove(struct zk_line *line, ptrdiff_t i, ptrdiff_t count);

/* The twin of place i, or NULL: dlock did not make that place. */
const struct zk_place *zk_line_twin(const struct zk_line *line, ptrdiff_t i);
/* Writes the paths of place i and its twin; false: it has none. */
bool zk_line_pair(const struct zk_line *line, ptrdiff_t i, const char *directory,
		  struct zk_pair *pair);

/*
 * Fills holder with whom a place belongs to, by its data, its stat and its state (NULL: dlock
 * has written none). *since_ms is on the wall clock, the server's if need be; 0: not known.
 */
void zk_describe(const struct zk_place *place, const struct zk_call *data,
		 const struct zk_state *state, struct holder *holder, int64_t *since_ms);

/* How long ago that was, at least 0; -1 when since_ms is 0. */
int64_t zk_age_ms(int64_t since_ms);
