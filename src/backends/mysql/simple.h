/* SPDX-License-Identifier: MIT */
/*
 * What the strategy insert and the dialect shedlock have in common: a lock is a row with a token
 * and an end by the server's clock, taken, extended and given back by statements that need no
 * session. Nobody wakes a waiter when the lock becomes free: waiters poll, less and less often.
 */
#pragma once

#include "request.h"

/*
 * How one of them does it. take, look and renew end with a row: whether the lock is ours, the
 * fence, microseconds since it is held and until it expires, and the holder's text, all of which
 * are NULL when nobody holds it; and whether the server is read-only, where nothing is taken or
 * extended. release ends with a number: 0 when the lock was not held, 1 when it was.
 */
struct simple_kind {
	const char *table;
	const char *take, *look, *renew, *release, *list, *break_hold, *forget;
	const char *purge;		/* after a release; or NULL */
	/* Writes what the table notes of a holder into words->owner; NULL: see words_begin(). */
	void (*encode)(const struct request *request, struct words *words);
	void (*decode)(struct holder *holder, const char *text, size_t length);
};

struct simple {
	struct mysql_backend my;
	char zone[80];			/* shedlock: ready for SQL */
	bool waiting;			/* asleep in a statement */
	int64_t pause_ms;		/* the last one */
	int64_t stale;			/* connection that ended under a request; 0: none */
};

/* The size of "dlock-" and 32 hex digits of the token's digest, with a NUL. */
#define SIMPLE_BY_SIZE 39

extern const struct backend_ops simple_ops;

/* ---- shedlock.c ---- */

void shedlock_encode(const struct request *request, struct words *words);
void shedlock_decode(struct holder *holder, const char *text, size_t length);
int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err);
int shedlock_check(struct backend *backend, struct findings *findings, struct error *err);
