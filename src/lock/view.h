/* SPDX-License-Identifier: MIT */
/* Reports of backends about locks and themselves, for people. They contain no secret. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend.h"
#include "holder.h"

/* A holder or a waiter. */
struct hold_view {
	struct holder holder;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT */
	uint64_t fence;		/* 0: not known, or a waiter */
	int64_t age_ms;		/* since it holds, or waits; -1: not known */
	int64_t expires_ms;	/* from now; -1: not before it is released */
	bool mine;		/* of the token of the view */
	char id[ROW_ID_SIZE];	/* see struct row */
};

struct lock_view {
	uint64_t fence;		/* the last one given; 0: not known */
	struct hold_view *holds;
	size_t hold_count;
	struct hold_view *waiters;	/* in the order of the queue */
	size_t waiter_count;
	/* Data of other programs beside the lock, which is neither hold nor waiter. */
	struct name_list ignored;
};

/*
 * Make *view from the rows of show(), and take over rows->ignored. Limits times to sane values
 * (lease.h).
 */
void lock_view_make(struct lock_view *view, struct rows *rows);
void lock_view_finish(struct lock_view *view);

/* Returns the first holder; NULL: there is none. */
const struct hold_view *lock_view_first(const struct lock_view *view);
/* Returns how many waiters are before that of the token; -1: it does not wait. */
int64_t lock_view_ahead(const struct lock_view *view);

enum severity {
	FINDING_OK,
	FINDING_NOTE,		/* good to know, without a need to change something */
	FINDING_WARNING,	/* locks work, but an operator should change something */
	FINDING_ERROR,		/* locks do not work */
};

struct finding {
	enum severity severity;
	char topic[24];		/* one word: "version", "persistence" */
	char text[240];
	char remedy[240];	/* what to do; "": nothing */
};

struct findings {
	struct finding *rows;
	size_t count;
};

/* Add a row. remedy may be NULL. */
void findings_add(struct findings *findings, enum severity severity, const char *topic,
		  const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * Measure how long requests take, and add the finding "round-trip", which ends with where. ping
 * sends one request: it returns 0, or -1 and sets *err. Returns 0 or -1.
 */
int findings_add_round_trip(struct findings *findings, struct backend *backend,
			    int (*ping)(struct backend *backend, struct error *err),
			    const char *where, struct error *err);

/* Add the finding "clock": how far the server's clock is ahead of the clock of this host. */
void findings_add_skew(struct findings *findings, int64_t skew_ms);
void findings_finish(struct findings *findings);
