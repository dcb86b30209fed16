/* SPDX-License-Identifier: MIT */
/* What guard and keeper read of the supervisor, as it was at their fork. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/terminal.h"
#include "lock/backend.h"
#include "lock/holder.h"
#include "request.h"
#include "shared.h"

struct job {
	const struct run_request *run;
	const struct run_hooks *hooks;
	const struct signals *signals;
	struct terminal terminal;
	struct shared *shared;
	int lost_fd;			/* eventfd that wakes the guard after a loss */
	/*
	 * The guard writes a byte when the command's tree is dead, so that the release does not
	 * wait for the supervisor. End of file: supervisor and guard are dead, and the keeper ends.
	 */
	int guard_pipe[2];
	uint64_t identity;		/* uri_identity() */
	struct request request;		/* its texts are the supervisor's */
	struct holder self;
	struct backend *backend;	/* local drivers only; they need no keeper, except for */
	struct grant local_grant;	/* KEEPER_ADOPT and KEEPER_KEEP; and what it granted */
	bool joined;			/* by an outer hold, whose token is in the environment */
	int64_t limit_ms;		/* of the wait; CLOCK_NEVER: none, or tried only once */
};

/* Is this level reported? Otherwise save the time to format the message. */
static inline bool job_reports(const struct job *job, enum level level)
{
	return level >= job->hooks->least;
}
