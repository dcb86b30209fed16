/* SPDX-License-Identifier: MIT */
/* What people see of a command that may have to wait: lines on stderr. */
#ifndef DLOCK_PROGRESS_H
#define DLOCK_PROGRESS_H

#include <stdbool.h>

#include "engine/supervise.h"

struct progress {
	const char *name;	/* of the lock */
	int verbosity;
	bool live;		/* waiting shows a line on a terminal */
	bool line_shown;
	bool said_waiting;
	char last_holder[320];	/* -v: what was said last of whom we wait for */
};

/* Starts a zeroed one, and makes the hooks that feed it. */
void progress_init(struct progress *progress, const char *name, int verbosity,
		   struct run_hooks *hooks);

/* Prints "dlock: NAME: text", instead of the live line if there is one. */
void progress_print(struct progress *progress, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A warning: not said with -q. */
void progress_warn(struct progress *progress, const char *text);

/*
 * Says how a run or an acquisition ended that came to nothing. Returns the exit
 * status; not_obtained: the one for that case.
 */
int progress_report_failure(struct progress *progress, const struct run_result *result,
			    int not_obtained);

#endif
