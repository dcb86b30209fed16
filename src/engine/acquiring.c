/* SPDX-License-Identifier: MIT */
/*
 * The supervisor acquires: it joins an outer hold, takes a lock of `file:` itself, or waits for the
 * keeper.
 */
#include "supervisor.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/ipc.h"
#include "base/signals.h"
#include "lock/hold.h"
#include "lock/view.h"
#include "environment.h"

/* How often a local waiter checks whether the lock was broken, or the work of --once-per done. */
#define CHECK_LOCAL_MS 5000
#define CHECK_DONE_MS 1000

static int64_t add_duration(int64_t start_ms, int64_t duration_ms)
{
	return duration_ms == CLOCK_NEVER ? CLOCK_NEVER : start_ms + duration_ms;
}

static enum acquired set_acquired(struct supervisor *s, uint64_t fence)
{
	s->protected = true;
	s->fence = fence;
	s->result->facts.fence = fence;
	s->result->facts.acquired_ms = atomic_load(&s->shared->held_ms);
	if (!s->result->facts.acquired_ms)
		s->result->facts.acquired_ms = clock_boot_ms();
	return ACQUIRED_YES;
}

/* Check the offer. The guard takes it on the supervisor's order. */
static enum acquired check_offer(struct supervisor *s)
{
	const bool is_valid = !s->run->argv ? shared_take(s->shared)
					    : atomic_load(&s->shared->offer) == OFFER_MADE;

	return is_valid ? set_acquired(s, atomic_load(&s->shared->fence)) : ACQUIRED_NOT_YET;
}

/* A lock that is free for a moment has still the holder that was seen before. */
static void store_wait(struct supervisor *s, const struct wait_state *seen)
{
	struct wait_state *wait = &s->result->wait;

	wait->ahead = seen->ahead;
	wait->poll_ms = seen->poll_ms;
	if (!seen->holder_known && wait->holder_known)
		return;
	wait->holder_known = true;
	wait->holder = seen->holder;
	wait->since_ms = seen->since_ms;
	s->result->done = s->run->once_ms && seen->holder.done_ms;
}

static void show_waiting(const struct supervisor *s)
{
	s->hooks->waiting(&s->result->wait);
}

static void view_local(struct supervisor *s)
{
	struct wait_state seen = { .ahead = -1 };
	struct lock_view view = { 0 };
	struct error ignored = { 0 };
	const struct hold_view *first;

	if (hold_view(s->backend, s->run->name, s->token, &view, &ignored))
		return;
	first = lock_view_first(&view);
	if (first) {
		seen.holder_known = true;
		seen.holder = first->holder;
		seen.since_ms = first->age_ms < 0 ? 0 : clock_boot_ms() - first->age_ms;
	}
	store_wait(s, &seen);
	lock_view_finish(&view);
}

/* Try a local backend once: without waiting, or waiting until until_ms or a signal. */
static enum acquired try_local(struct supervisor *s, bool wait, int64_t until_ms, int *sig)
{
	struct request request = s->request;
	struct grant *grant = &s->local_grant;
	struct error err = { 0 };
	enum outcome outcome;

	request.queue = wait;
	if (wait)
		signals_unblock(s->signals, until_ms);
	outcome = hold_acquire(s->backend, &request, grant, &err);
	if (wait)
		*sig = signals_block(s->signals);
	switch (outcome) {
	case OUTCOME_HELD:
		atomic_store(&s->shared->held_ms, clock_boot_ms());
		return set_acquired(s, grant->fence);
	case OUTCOME_BUSY:
		view_local(s);
		return ACQUIRED_NOT_YET;
	case OUTCOME_LOST:
	case OUTCOME_ERROR:
		break;
	}
	return supervisor_fail(s, &err);
}

/* Acquire a local lock, without a keeper. */
static enum acquired acquire_local(struct supervisor *s)
{
	int64_t until_ms = add_duration(s->started_ms, s->run->wait_ms);
	enum acquired acquired;
	struct error err = { 0 };
	int64_t tick_ms;
	int sig = 0;

	s->backend = backend_open(s->run->driver, s->run->uri, &s->request, &err);
	if (!s->backend)
		return supervisor_fail(s, &err);
	acquired = try_local(s, false, 0, NULL);
	/* The wait leaves time to start the guard. */
	if (acquired == ACQUIRED_NOT_YET && until_ms > clock_boot_ms() && s->run->argv &&
	    supervisor_start_guard(s, &err))
		return supervisor_fail(s, &err);
	while (acquired == ACQUIRED_NOT_YET && !s->result->done && clock_boot_ms() < until_ms) {
		show_waiting(s);
		tick_ms = clock_earlier(s->hooks->tick_ms,
					s->run->once_ms ? CHECK_DONE_MS : CHECK_LOCAL_MS);
		acquired = try_local(s, true, clock_earlier(until_ms, clock_boot_ms() + tick_ms),
				     &sig);
		if (sig) {
			/* The signal and the lock may have come together. */
			if (acquired == ACQUIRED_YES && s->protected)
				hold_release(s->backend, &s->request, &s->self, 0, 0, &err);
			s->result->end = RUN_INTERRUPTED;
			s->result->status = sig;
			return ACQUIRED_NO;
		}
	}
	if (acquired != ACQUIRED_NOT_YET)
		return acquired;
	s->result->end = RUN_NOT_OBTAINED;
	return ACQUIRED_NO;
}

static void report_reachable(struct supervisor *s)
{
	const int64_t since_ms = s->result->wait.down_since_ms;
	char text[DURATION_TEXT_SIZE];

	if (since_ms)
		supervisor_report(s, EVENT_REACHABLE, LEVEL_STEP,
				  "the server is reached again, after %s",
				  duration_format(clock_boot_ms() - since_ms, text, sizeof(text)));
	s->result->wait.down_since_ms = 0;
}

/* Handle an event of the keeper while it acquires. */
static enum acquired handle_acquiring(struct supervisor *s, const struct keeper_event *event)
{
	struct run_result *result = s->result;
	struct error err = { 0 };

	switch (event->type) {
	case KEEPER_HELD:
		return check_offer(s);
	case KEEPER_WITHDRAWN:
		supervisor_log(s, LEVEL_STEP,
			       "dlock was stopped when its turn came; back in the queue");
		keeper_order(&s->keeper, KEEPER_ORDER_RETRY);
		return ACQUIRED_NOT_YET;
	case KEEPER_WAITING:
		report_reachable(s);
		store_wait(s, &event->wait);
		if (result->done)
			break;
		show_waiting(s);
		return ACQUIRED_NOT_YET;
	case KEEPER_BUSY:
		store_wait(s, &event->wait);
		break;
	case KEEPER_REPLACED:
		report_reachable(s);
		result->wait.holder_known = result->replaced = true;
		result->wait.holder = event->wait.holder;
		result->wait.since_ms = 0;
		break;
	case KEEPER_RETRYING:
		supervisor_report(s, EVENT_UNREACHABLE, LEVEL_STEP, "%s; trying again",
				  event->error.message);
		if (!result->wait.down_since_ms)
			result->wait.down_since_ms = clock_boot_ms();
		show_waiting(s);
		return ACQUIRED_NOT_YET;
	case KEEPER_FAILED:
		return supervisor_fail(s, &event->error);
	case KEEPER_GONE:
		supervisor_keeper_died(s, &err);
		return supervisor_fail(s, &err);
	default:
		return ACQUIRED_NOT_YET;
	}
	result->end = RUN_NOT_OBTAINED;
	return ACQUIRED_NO;
}

void supervisor_give_up(struct supervisor *s)
{
	/* The entry of a dead waiter delays others, and a run that is done is in no hurry. */
	const int64_t grace_ms = s->result->done ? 2 * s->timeout_ms + KEEPER_GRACE_MS
						 : INTERRUPTED_GRACE_MS;
	struct keeper_event event;
	struct error ignored = { 0 };

	/*
	 * The keeper has sent no request that could leave a trace (mark_engaged() in
	 * keeper_process.c), or it has removed its trace.
	 */
	if (!atomic_load(&s->shared->engaged) || s->last_word.last) {
		child_end(&s->keeper.child);
		return;
	}
	keeper_order(&s->keeper, KEEPER_ORDER_RELEASE);
	if (supervisor_await_last(s, clock_boot_ms() + grace_ms, &event) &&
	    event.type == KEEPER_BUSY && event.wait.holder_known)
		store_wait(s, &event.wait);
	/* Another keeper removes the queue entry of one that was killed. */
	if (!s->keeper.child.pid && !event.last &&
	    !keeper_start(s, KEEPER_RELEASE, &ignored))
		supervisor_await_last(s, clock_boot_ms() + INTERRUPTED_GRACE_MS, &event);
	child_end(&s->keeper.child);
}

static enum acquired wait_for_lock(struct supervisor *s)
{
	int64_t until_ms = add_duration(s->started_ms, s->run->wait_ms), tick_ms;
	enum acquired acquired = ACQUIRED_NOT_YET;
	struct keeper_event event;
	struct error err = { 0 };

	/* With -n the keeper tries once, which may take the timeout of a request. */
	if (s->run->wait_ms == 0)
		until_ms = CLOCK_NEVER;
	tick_ms = add_duration(s->started_ms, s->hooks->tick_ms);
	while (acquired == ACQUIRED_NOT_YET) {
		supervisor_sleep(s, clock_earlier(until_ms, tick_ms));
		if (supervisor_interrupted(s))
			return ACQUIRED_NO;
		while (acquired == ACQUIRED_NOT_YET && keeper_event(&s->keeper, &event)) {
			acquired = handle_acquiring(s, &event);
			if (acquired == ACQUIRED_NO)
				s->last_word = event;
		}
		supervisor_check_guard(s);
		if (acquired == ACQUIRED_NOT_YET && ipc_has_failed(&err))
			acquired = supervisor_fail(s, &err);
		if (acquired != ACQUIRED_NOT_YET)
			break;
		if (clock_boot_ms() >= until_ms) {
			s->result->end = RUN_NOT_OBTAINED;
			return ACQUIRED_NO;
		}
		if (clock_boot_ms() >= tick_ms) {
			tick_ms = add_duration(clock_boot_ms(), s->hooks->tick_ms);
			if (s->result->wait.holder_known)
				show_waiting(s);
		}
	}
	return acquired;
}

/* Acquire by a keeper. */
static enum acquired acquire_remote(struct supervisor *s)
{
	struct error err = { 0 };

	/* The guard is started while the keeper waits for the network. */
	if (keeper_start(s, KEEPER_ACQUIRE, &err) ||
	    (s->run->argv && supervisor_start_guard(s, &err)))
		return supervisor_fail(s, &err);
	return wait_for_lock(s);
}

enum acquired supervisor_acquire(struct supervisor *s)
{
	const enum acquired acquired = s->run->driver->local ? acquire_local(s)
							     : acquire_remote(s);

	s->hooks->waiting(NULL);
	if (acquired == ACQUIRED_NO) {
		/* From now on every offer is void. */
		atomic_store(&s->shared->offer, OFFER_CLOSED);
		supervisor_give_up(s);
	}
	return acquired;
}

/* ---- an outer hold: the keeper verifies and renews it, see keeping.h ---- */

/*
 * Wait for the keeper's answer about the hold of a token. Returns RUN_EXITED: it holds; RUN_LOST;
 * RUN_FAILED with *err; RUN_INTERRUPTED with the result filled.
 */
static enum run_end await_answer(struct supervisor *s, struct keeper_event *event,
				 struct error *err)
{
	for (;;) {
		supervisor_sleep(s, CLOCK_NEVER);
		if (supervisor_interrupted(s))
			return RUN_INTERRUPTED;
		if (!keeper_event(&s->keeper, event))
			continue;
		switch (event->type) {
		case KEEPER_HELD:
			return RUN_EXITED;
		case KEEPER_LOST:
			return RUN_LOST;
		case KEEPER_BUSY:
		case KEEPER_FAILED:
			*err = event->error;
			return RUN_FAILED;
		default:
			supervisor_keeper_died(s, err);
			return RUN_FAILED;
		}
	}
}

/*
 * Refuse a token of this scope that does not hold, or could not be verified: s->result->end and
 * s->result->error. Returns NOT_YET: it is of another lock; NO with the result filled; YES as
 * supervisor_fail().
 */
static enum acquired refuse_token(struct supervisor *s, enum token_scope scope)
{
	const struct error why = s->result->error;

	if (s->result->end != RUN_LOST && why.kind != ERROR_UNAVAILABLE)
		return ACQUIRED_NO;
	s->result->error = (struct error){ 0 };
	/* No acquisition follows: the server may be back by then, and the hold may have ended. */
	if (s->result->end != RUN_LOST)
		return supervisor_fail(s, &why);
	if (scope == TOKEN_OF_NAME) {
		s->level = 0;
		return ACQUIRED_NOT_YET;
	}
	error_set(&s->result->error, ERROR_REFUSED, 0, "the hold of DLOCK_TOKEN has ended");
	return ACQUIRED_NO;
}

enum acquired supervisor_join(struct supervisor *s, enum keeper_mode mode,
			      struct keeper_event *event)
{
	struct error *err = &s->result->error;
	enum token_scope scope;

	s->result->end = RUN_FAILED;
	if (environment_find_token(s->run->name, s->identity, s->token, &s->level, &scope, err))
		return ACQUIRED_NO;
	if (scope == TOKEN_OF_OTHER)
		return ACQUIRED_NOT_YET;
	if (mode == KEEPER_NEST && s->level == TOKEN_LEVEL_MOST) {
		error_set(err, ERROR_USAGE, 0, "the token in DLOCK_TOKEN has the "
			  "highest level, %d", TOKEN_LEVEL_MOST);
		return ACQUIRED_NO;
	}
	if (!keeper_start(s, mode, err))
		s->result->end = await_answer(s, event, err);
	if (s->result->end != RUN_EXITED) {
		child_end(&s->keeper.child);
		keeper_drop_hold(&s->keeper);
		return refuse_token(s, scope);
	}
	s->joined = true;
	s->fence = s->result->facts.fence = atomic_load(&s->shared->fence);
	return ACQUIRED_YES;
}
