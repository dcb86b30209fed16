/* SPDX-License-Identifier: MIT */
/*
 * A process that stays behind for the rest of a minimum hold after the program has returned. The
 * lock lives with a descriptor or a session, which some process must keep.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;

/*
 * Forks a process called dlock-min-hold, in a session of its own. It keeps open only the count
 * descriptors in keep, so that nobody who reads a pipe of the caller waits for it. The process
 * calls run(context, until_ms) and exits; until_ms is keep_ms from now on CLOCK_BOOTTIME. run
 * sleeps with linger_until() at some point; when run is NULL the process only does that. 0, or -1
 * with *err.
 */
int linger_start(int64_t keep_ms, const int *keep, size_t count,
		 void (*run)(void *context, int64_t until_ms), void *context, struct error *err);

/*
 * Sleep until until_ms, also across a suspend of the machine, or until SIGTERM or other comes.
 * other: SIGURG, or 0 for none. Returns the signal, or 0 at until_ms.
 */
int linger_until(int64_t until_ms, int other);
