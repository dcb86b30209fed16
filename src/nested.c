/* SPDX-License-Identifier: MIT */
#include "supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "environment.h"
#include "signals.h"

static enum run_end verify_here(struct supervisor *s, struct error *err)
{
	s->backend = backend_open(s->run->driver, s->run->uri, err);
	if (!s->backend)
		return RUN_FAILED;
	switch (s->backend->ops->verify(s->backend, &s->request, err)) {
	case OUTCOME_HELD:
		return RUN_EXITED;
	case OUTCOME_LOST:
		return RUN_LOST;
	case OUTCOME_BUSY:	/* waiting for what is asked for would be waiting for ourselves */
	case OUTCOME_ERROR:
		break;
	}
	return RUN_FAILED;
}

static enum run_end verify_by_keeper(struct supervisor *s, struct error *err)
{
	struct keeper_event event;

	if (supervisor_start_keeper(s, KEEPER_VERIFY, err))
		return RUN_FAILED;
	for (;;) {
		supervisor_sleep(s, CLOCK_NEVER);
		if (supervisor_interrupted(s))
			return RUN_INTERRUPTED;
		if (!supervisor_hear(s, &event))
			continue;
		switch (event.type) {
		case KEEPER_HELD:
			return RUN_EXITED;
		case KEEPER_LOST:
			return RUN_LOST;
		case KEEPER_BUSY:
		case KEEPER_FAILED:
			*err = event.error;
			return RUN_FAILED;
		default:
			error_set(err, ERROR_INTERNAL, 0, "the keeper process was killed");
			return RUN_FAILED;
		}
	}
}

/*
 * What the command sees is the hold that it runs under. This process stays in between,
 * so that what its own environment tells of a hold in between is still found above a
 * third run: A, in it B, in it A, in it B.
 */
static int plan_environment(struct supervisor *s, struct error *err)
{
	const char *fence = getenv("DLOCK_FENCE");
	char *fence_text;
	char **envp = environment_make(s->run->name, s->token, s->run->uri_text,
				       &fence_text, err);

	if (!envp)
		return -1;
	snprintf(fence_text, ENVIRONMENT_FENCE_SIZE, "%s", fence ? fence : "");
	return supervisor_plan_guard(s, envp, err);
}

void supervisor_run_nested(struct supervisor *s)
{
	struct error *err = &s->result->error;

	s->result->end = s->run->driver->local ? verify_here(s, err)
					       : verify_by_keeper(s, err);
	keeper_kill(&s->keeper);
	if (s->result->end == RUN_LOST)
		error_set(err, ERROR_REFUSED, 0,
			  "the run that this one is nested in does not hold it any more");
	if (s->result->end != RUN_EXITED)
		return;
	supervisor_say(s, SAY_STEP, "already held by an outer dlock run; fence %s",
		       getenv("DLOCK_FENCE"));
	if (plan_environment(s, err) || supervisor_start_guard(s, err)) {
		s->result->end = RUN_FAILED;
		return;
	}
	/* The outer run has the lock, and ends us when it loses it. */
	supervisor_run_command(s);
	guard_finish(&s->guard);
}
