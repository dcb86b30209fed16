/* SPDX-License-Identifier: MIT */
/* An acquisition: the lock is acquired, and left to a daemon or to its lease. */
#include "run.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "obtain.h"

/*
 * Wait until the keeper is a daemon, or release the lock when a signal comes before that. Returns
 * 0, or -1 with *err or, after a signal, with the result filled.
 */
static int await_detached(struct supervisor *s, struct acquire_result *result,
			  struct error *err)
{
	int64_t until_ms = CLOCK_NEVER;
	struct keeper_event event;

	while (clock_boot_ms() < until_ms) {
		supervisor_sleep(s, until_ms);
		while (keeper_event(&s->keeper, &event)) {
			*err = event.error;
			if (event.last || event.type == KEEPER_LOST)
				return -1;
			if (event.type != KEEPER_DETACHED)
				continue;
			result->keeper = s->keeper.child.pid;
			if (until_ms == CLOCK_NEVER)
				return 0;
			/* The order came too late: a daemon releases on a signal. */
			kill(s->keeper.child.pid, SIGTERM);
			while (!s->keeper.child.reaped && clock_boot_ms() < until_ms)
				supervisor_pause(s, until_ms);
			return -1;
		}
		if (supervisor_interrupted(s) && until_ms == CLOCK_NEVER) {
			/* An unused lock has no minimum hold. */
			atomic_store(&s->job.shared->held_ms, 0);
			keeper_order(&s->keeper, KEEPER_ORDER_RELEASE);
			until_ms = supervisor_patience_end(s);
		}
	}
	return -1;
}

/* Leave a daemon behind for the hold, or the lease alone. */
static int leave_hold(struct supervisor *s, struct acquire_result *result, struct error *err)
{
	int64_t end_ms = shared_lease(s->job.shared).end_ms;
	bool daemon = s->job.run->process || s->job.run->driver->local || s->job.shared->session;

	if (!s->job.run->process)
		/* A daemon keeps the session of a shorter lease for the whole TTL. */
		result->lease_ms = daemon || end_ms == CLOCK_NEVER ? s->job.run->ttl_ms
								   : end_ms - clock_boot_ms();
	if (!daemon) {
		/* The keeper would renew the lease. */
		child_end(&s->keeper.child);
		return 0;
	}
	if (s->job.run->driver->local &&
	    supervisor_start_keeper(s, KEEPER_ADOPT, err))
		return -1;
	if (!s->job.run->driver->local)
		keeper_order(&s->keeper, KEEPER_ORDER_DETACH);
	return await_detached(s, result, err);
}

/* Acquire inside an outer hold: verify and renew it. NOT_YET: there is no such hold. */
static enum acquired acquire_nested(struct supervisor *s, struct acquire_result *result)
{
	enum acquired acquired;

	s->job.request.ttl_ms = s->job.run->asked_ttl_ms;
	acquired = obtain_joined(s, KEEPER_NEST, &result->lease_ms);
	s->job.request.ttl_ms = s->job.run->ttl_ms;
	if (acquired != ACQUIRED_YES)
		return acquired;
	child_end(&s->keeper.child);
	s->level++;
	supervisor_report(s, EVENT_JOINED, LEVEL_STEP, "held already; the outer hold goes on");
	return ACQUIRED_YES;
}

void supervise_acquire(const struct run_request *run, const struct run_hooks *hooks,
		       const struct signals *signals, struct acquire_result *result)
{
	struct error err = { 0 };
	struct supervisor s;

	*result = (struct acquire_result){ .lease_ms = 0 };
	if (supervisor_init(&s, run, hooks, signals, &result->run, &err)) {
		supervisor_fail(&s, &err);
		return;
	}
	if (acquire_nested(&s, result) == ACQUIRED_NOT_YET && obtain_lock(&s) == ACQUIRED_YES) {
		if (!leave_hold(&s, result, &err)) {
			s.result->end = RUN_EXITED;
		} else {
			child_end(&s.keeper.child);
			if (s.result->end != RUN_INTERRUPTED)
				supervisor_fail(&s, &err);
		}
	}
	result->nested = s.level > 0;
	token_write(s.token, s.level, result->token);
	backend_close(s.job.backend);
}
