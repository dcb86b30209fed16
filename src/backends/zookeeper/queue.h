/* SPDX-License-Identifier: MIT */
/*
 * Strategy queue, in three files of one level each:
 *
 *	queue.c		one try to hold, and what events mean for it
 *	watch.c		what is asked about the places before one's own
 *	seat.c		getting a place in line, and leaving it
 *
 * A try is zk_seat_take(), unless the seat has a place, and then zk_watch_out() until no place that
 * blocks ours is left, or a watch on such a place is set. zk_seat_leave() ends the session and all
 * that it has, also for the strategy node.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/backend.h"

struct zk_backend;
struct zk_seat;

/* ---- seat.c ---- */

/*
 * Takes a place, or finds the one that was taken when no answer came; then reads the line.
 * 0, or -1 with *err.
 */
int zk_seat_take(struct zk_backend *zk, const struct request *request, struct error *err);
/*
 * Reads the line again: those before us may be others than we think. watch: until something
 * changes in it. 0, or -1 with *err, also when our place is not in it any more.
 */
int zk_seat_look(struct zk_backend *zk, bool watch, struct error *err);
/* A request that concerns the place failed with rc: its fate is not known. Returns -1. */
int zk_seat_failed(struct zk_backend *zk, int rc, const char *what, struct error *err);
/* Ends the session, and all that it has. */
void zk_seat_leave(struct zk_backend *zk);
/* The session has ended by itself. */
void zk_seat_forget(struct zk_seat *seat);
/* What the session is good for, as a request sent at sent_ms was answered. */
void zk_grant(struct zk_backend *zk, int64_t sent_ms, struct grant *grant);

/* ---- watch.c ---- */

/*
 * Sees to it that a watch tells of the end of place i, which we wait for. 1: it has ended,
 * or the line has to be looked at anew; 0; -1 with *err.
 */
int zk_watch_out(struct zk_backend *zk, ptrdiff_t i, struct error *err);
/* Nothing is known any more of the place before ours. */
void zk_watch_forget(struct zk_seat *seat);
