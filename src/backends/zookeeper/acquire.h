/* SPDX-License-Identifier: MIT */
/*
 * Strategy queue, in three files: acquire.c tries once, with enqueue.c (our entry) and wait.c (the
 * entries before it). Functions that return int return 0, or -1 and set *err, unless the comment
 * says more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock.h"

struct error;

/* ---- enqueue.c ---- */

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

/* Get an entry, or find the one whose request got no reply. */
int zk_enqueue(struct zk_backend *zk, const struct request *request, struct error *err);

/* ---- wait.c ---- */

/* Read the queue from the answer to zk_list(), which belongs to it from now on. */
int zk_wait_read(struct zk_backend *zk, struct zk_call *names, struct error *err);
/* The entry that this watch is on has ended. */
void zk_wait_ended(struct zk_own *own, struct zk_watched *watched);
/* Write that we wait, and set the watches, in one packet. 1: try to hold again. */
int zk_wait_watch(struct zk_backend *zk, const struct request *request, struct error *err);
/* Check the suspect, and evict it if it is late. 1: read the queue again. */
int zk_wait_check(struct zk_backend *zk, struct error *err);
