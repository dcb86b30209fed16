/* SPDX-License-Identifier: MIT */
/*
 * Beside the keeper of `dlock acquire --pid`, as the guard is beside that of a run:
 * a process that does no I/O, and tells the process that the lock is held for when the
 * keeper is killed, or hangs until the lease is about to end. It shares the
 * keeper's descriptors, so that a lock that lives with them outlasts the keeper until
 * that process has ended.
 */
#ifndef DLOCK_WATCHDOG_H
#define DLOCK_WATCHDOG_H

#include <stdint.h>

struct error;
struct pidfd;
struct shared;

struct watchdog_plan {
	const struct pidfd *process;	/* gets TERM */
	const struct shared *shared;	/* the lease */
	int64_t notice_ms;		/* so long before its end */
	int close_fd;			/* the keeper's alone */
};

/*
 * Forks it. Returns the descriptor through which watchdog_end() reaches it, and whose
 * closing by the keeper's death it notices; -1 with *err.
 */
int watchdog_start(const struct watchdog_plan *plan, struct error *err);

/* The keeper ends in good order. */
void watchdog_end(int fd);

#endif
