/* SPDX-License-Identifier: MIT */
/* Keeping a lock for a least time, after dlock has returned. */
#ifndef DLOCK_ZOOKEEPER_KEEP_H
#define DLOCK_ZOOKEEPER_KEEP_H

#include <stdint.h>

struct error;
struct zk_backend;

/*
 * Leaves the session, and so the lock, to a process of its own, which ends it in keep_ms.
 * This one must not use it any more. 0, or -1 with *err.
 */
int zk_keep(struct zk_backend *zk, int64_t keep_ms, struct error *err);

#endif
