/* SPDX-License-Identifier: MIT */
/*
 * Strategy queue, in five files: acquire.c tries once, with enqueue.c (getting an entry), ahead.c
 * (the entries before it), watch.c (waiting for their ends) and, below these, own.c (our entry).
 * Functions that return int return 0, or -1 and set *err, unless the comment says more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock.h"

struct error;

/* ---- own.c ---- */

/* Take the reply to a request that has written state into our entry. */
int zk_own_written(struct zk_backend *zk, const struct zk_call *set, enum zk_state state,
		   struct error *err);
/* A request that writes our entry has failed with rc. Returns -1. */
int zk_own_failed(struct zk_backend *zk, int rc, const char *what, struct error *err);
/* Our entry is gone, though the session is not. Returns -1. */
int zk_own_gone(struct zk_backend *zk, struct error *err);
/* Delete our entry, and keep the session for what is shown next. */
void zk_own_delete(struct zk_backend *zk);
/* Forget which ends are watched. */
void zk_watch_forget(struct zk_own *own);

/* ---- enqueue.c ---- */

/* Get an entry, or find the one whose request got no reply. Reads the queue, too. */
int zk_enqueue(struct zk_backend *zk, const struct request *request, struct error *err);

/* ---- ahead.c ---- */

/* Read the queue. claim: in the same packet, write that we hold. */
int zk_read_queue(struct zk_backend *zk, const struct request *request, bool claim,
		  struct error *err);
/* Take the reply with the names of the queue. */
int zk_take_queue(struct zk_backend *zk, struct zk_call *names, struct error *err);
/* How long to wait until the next check of what no watch reports. */
int64_t zk_check_pause(const struct zk_backend *zk, ptrdiff_t ahead);
/* Set check_ms: when the first of those that could hold, and may still wait, is late. */
void zk_schedule_check(struct zk_own *own);

/* ---- watch.c ---- */

/* Write that we wait, and set the watches, in one packet. 1: the nearest one has ended. */
int zk_watch_others(struct zk_backend *zk, const struct request *request, struct error *err);
/* The entry that a watch was set on has ended. */
void zk_watch_ended(struct zk_own *own, struct zk_watched *watched);
/* Check those before us that could hold. 1: read the queue again. */
int zk_check_others(struct zk_backend *zk, struct error *err);
