/* SPDX-License-Identifier: MIT */
/*
 * The watchdog of `dlock acquire --pid`: a process beside the daemon that holds the lock. The
 * watchdog does no I/O. When the daemon is killed, or hangs until the lease is about to end, the
 * watchdog sends TERM to the process that the lock is held for. The watchdog has copies of the
 * daemon's descriptors, so that a lock that lives with them outlives the daemon until that process
 * has ended.
 *
 * Calling sequence, in the daemon: watchdog_start() as it detaches, watchdog_end() before it ends.
 */
#pragma once

#include <stdint.h>

struct error;
struct pidfd;
struct shared;

struct watchdog_plan {
	const struct pidfd *process;	/* gets TERM */
	const struct shared *shared;	/* the lease */
	int64_t notice_ms;		/* TERM this long before the lease's end */
	const char *name;		/* of the lock, for the log */
	int close_fds[2];		/* belong to the daemon alone: its sockets */
};

/*
 * Forks the watchdog. Returns the descriptor for watchdog_end(), or -1 with *err. The watchdog
 * notices the daemon's death by the closing of that descriptor.
 */
int watchdog_start(const struct watchdog_plan *plan, struct error *err);

/* The daemon ends in good order: so does the watchdog. fd -1: there is none. */
void watchdog_end(int fd);
