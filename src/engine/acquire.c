/* SPDX-License-Identifier: MIT */
#include "supervisor.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pidfd.h"
#include "environment.h"

/*
 * Waits for the keeper to say that it is a daemon, or gives the lock back when a signal comes
 * before that. 0, or -1 with *err or, after a signal, with the result filled.
 */
static int await_detached(struct supervisor *s, struct acquire_result *result,
			  struct error *err)
{
	int64_t until_ms = CLOCK_NEVER;
	struct keeper_event event;

	while (clock_boot_ms() < until_ms) {
		supervisor_sleep(s, until_ms);
		while (supervisor_hear(s, &event)) {
			switch (event.type) {
			case KEEPER_DETACHED:
				if (until_ms == CLOCK_NEVER) {
					result->keeper = event.keeper_pid;
					return 0;
				}
				/* The order came too late; a signal has a daemon release, too. */
				kill(event.keeper_pid, SIGTERM);
				while (!s->keeper.child.reaped && clock_boot_ms() < until_ms)
					supervisor_pause(s, until_ms);
				return -1;
			case KEEPER_RELEASED:
				return -1;
			case KEEPER_LOST:
			case KEEPER_FAILED:
				*err = event.error;
				return -1;
			case KEEPER_GONE:
				return error_set(err, ERROR_INTERNAL, 0,
						 "the keeper process was killed");
			default:
				break;
			}
		}
		if (supervisor_interrupted(s) && until_ms == CLOCK_NEVER) {
			keeper_release(&s->keeper, true);
			until_ms = clock_boot_ms() + 2 * s->timeout_ms + KEEPER_GRACE_MS;
		}
	}
	return -1;
}

/* The lock is held: leaves a keeper behind, or the lease alone. */
static int settle(struct supervisor *s, struct acquire_result *result, struct error *err)
{
	int64_t end_ms = shared_lease(s->shared).end_ms;
	bool daemon = s->process || s->run->driver->local || s->shared->session;

	result->fence = s->fence;
	if (!s->process)
		result->lease_ms = end_ms == CLOCK_NEVER ? s->run->ttl_ms
							 : end_ms - clock_boot_ms();
	if (!daemon) {
		/* The keeper would renew, and the lease is to stand alone. */
		keeper_kill(&s->keeper);
		return 0;
	}
	if (s->run->driver->local &&
	    supervisor_start_keeper(s, KEEPER_ADOPT, err))
		return -1;
	if (!s->run->driver->local)
		keeper_detach(&s->keeper);
	return await_detached(s, result, err);
}

/* One more acquisition of the hold of the token, for ttl_ms at least, if it is one of this lock. */
static enum run_end acquire_again(struct supervisor *s, int64_t ttl_ms,
				  struct acquire_result *result, struct error *err)
{
	struct keeper_event event = { .lease_ms = 0 };
	enum run_end end;

	s->request.ttl_ms = ttl_ms;
	end = supervisor_ask_keeper(s, KEEPER_AGAIN, &event, err);
	s->request.ttl_ms = s->run->ttl_ms;
	result->fence = atomic_load(&s->shared->fence);
	result->lease_ms = event.lease_ms;
	return end;
}

static void acquire_new(struct supervisor *s, struct acquire_result *result)
{
	struct error err = { 0 };

	if (token_make(s->token, &err)) {
		supervisor_fail(s, &err);
		return;
	}
	if (supervisor_obtain(s) != OBTAINED_YES)
		return;
	supervisor_say_acquired(s);
	if (settle(s, result, &err)) {
		keeper_kill(&s->keeper);
		if (s->result->end != RUN_INTERRUPTED)
			supervisor_fail(s, &err);
		return;
	}
	s->result->end = RUN_EXITED;
}

void supervise_acquire(const struct acquire_request *acquire, const struct run_hooks *hooks,
		       const struct signals *signals, struct acquire_result *result)
{
	enum run_end again = RUN_LOST;
	struct error err = { 0 };
	struct supervisor s;

	*result = (struct acquire_result){ .fence = 0 };
	if (supervisor_init(&s, &acquire->run, hooks, signals, &result->run, acquire->command,
			    &err)) {
		supervisor_fail(&s, &err);
		return;
	}
	s.process = acquire->process;
	s.term_on_lost = acquire->term_on_lost;
	s.without_command = true;
	/* status shows the process that the lock is held for, as this one ends soon. */
	s.request.self.pid = acquire->process ? acquire->process->pid : getppid();
	/* Only the backend knows whether the token is one of this lock. */
	if (environment_token(acquire->run.name, s.token))
		again = acquire_again(&s, acquire->again_ttl_ms, result, &err);
	if (again == RUN_FAILED) {
		supervisor_fail(&s, &err);
	} else if (again == RUN_EXITED) {
		s.result->facts.fence = result->fence;
		supervisor_tell(&s, EVENT_JOINED, SAY_STEP, "held already; counted once more");
		result->run.end = RUN_EXITED;
	} else if (again == RUN_LOST) {
		acquire_new(&s, result);
	}
	memcpy(result->token, s.token, TOKEN_SIZE);
	if (result->run.age_ms >= 0)
		result->run.age_ms = clock_boot_ms() - result->run.age_ms;
	backend_close(s.backend);
}
