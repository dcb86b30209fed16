/* SPDX-License-Identifier: MIT */
/*
 * The inside of the guard's process: guard.c starts it, watches over the command's tree and
 * ends it; guard_launch.c waits for the order to run, and starts the command.
 */
#ifndef DLOCK_GUARDING_H
#define DLOCK_GUARDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guard.h"

enum order_type { ORDER_RUN, ORDER_SIGNAL, ORDER_SIGNAL_GROUP, ORDER_STOP };

struct order {
	enum order_type type;
	int sig;
	uint64_t fence;
};

struct guarding {
	const struct guard_plan *plan;
	int fd;			/* to the supervisor; -1 once it is gone */
	int supervisor_stat;	/* see procstat_open() */
	int gate_ms;		/* for how long the child waits now */
	int hold_fd;		/* stays open until the tree is dead; -1: none */
	uint64_t fence;		/* of the lock that the command runs under; 0: none */
	pid_t command;		/* 0 once reaped: its number may be somebody else's then */
	bool stopping;
	bool lost_seen;
	int64_t kill_at_ms;	/* while stopping */
};

/* What became of the command that was to be started. */
enum launched {
	LAUNCHED,
	LAUNCH_NOT_YET,		/* no order came */
	LAUNCH_ENDED,		/* the supervisor is gone, or wants no command */
	LAUNCH_TOO_LATE,
	LAUNCH_FAILED,		/* with an errno */
};

/*
 * Waits until the supervisor or the keeper says so and starts the command, with g->fence and
 * g->hold_fd as they came. Never LAUNCH_NOT_YET; *failure: the errno of LAUNCH_FAILED.
 */
enum launched guarding_launch(struct guarding *g, int *failure);

#endif
