/* SPDX-License-Identifier: MIT */
/*
 * How a supervisor obtains the lock: inside an outer hold, by a lock of `file:` that the supervisor
 * takes itself, or by a keeper.
 */
#pragma once

#include <stdint.h>

#include "supervisor.h"

/* Acquire, with a new token. Returns YES with s->protected, or NO with the result filled. */
enum acquired obtain_lock(struct supervisor *s);

/*
 * Find the hold of the token in the environment, and let a keeper join it (KEEPER_JOIN) or renew it
 * once (KEEPER_NEST). Returns YES with s->joined and *lease_ms as in the keeper's event, or
 * without: the backend is down, and the command runs without the lock (--if-down run). NOT_YET:
 * there is no such hold, and the caller acquires. NO with the result filled.
 */
enum acquired obtain_joined(struct supervisor *s, enum keeper_mode mode, int64_t *lease_ms);
