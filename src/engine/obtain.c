/* SPDX-License-Identifier: MIT */
/* Acquires a lock, here or by a keeper, and waits for it; or joins an outer hold. */
#include "obtain.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/ipc.h"
#include "base/signals.h"
#include "lock/hold.h"
#include "lock/uri.h"
#include "environment.h"

/* ---- acquiring ---- */

/* How often a local waiter checks whether the lock was broken, or the work of --once-per done. */
#define CHECK_LOCAL_MS 5000
#define CHECK_DONE_MS 1000

static enum acquired set_acquired(struct supervisor *s)
{
	s->protected = true;
	s->result->facts.fence = atomic_load(&s->job.shared->fence);
	s->result->facts.acquired_ms = clock_boot_ms();
	return ACQUIRED_YES;
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
	s->result->done = s->job.run->once_ms && seen->holder.done_ms;
}

static void view_local(struct supervisor *s)
{
	struct wait_state seen = { .began_ms = 0 };
	struct rows view;
	struct error ignored = { 0 };

	/* Without the token, which no hold has yet. */
	if (hold_show(s->job.backend, s->job.run->name, "", &view, &ignored))
		return;
	run_view(&seen, &view);
	store_wait(s, &seen);
	rows_finish(&view);
}

/* The limit has come: only a backend that has said so has a lock that is taken. */
static enum acquired end_wait(struct supervisor *s)
{
	char location[URI_LOCATION_SIZE];

	if (!s->late_ms) {
		s->result->end = RUN_NOT_OBTAINED;
		return ACQUIRED_NO;
	}
	/* A keeper that cleans up has had its time. */
	s->last_word.last = s->late_ms > LATE_RESULT_MS;
	if (s->down.kind == ERROR_NONE)
		error_set(&s->down, ERROR_UNAVAILABLE, 0, "%s: no answer within the time of --wait",
			  uri_location(s->job.run->uri, s->job.run->driver->port, location));
	return supervisor_fail(s, &s->down);
}

/* Nobody can acquire the lock, though nobody holds it: report once why a waiter goes on. */
static void report_not_taken(struct supervisor *s, const struct error *why)
{
	if (s->down.kind == ERROR_NONE && s->job.run->wait_ms)
		supervisor_log(s, LEVEL_WARNING, "%s; trying again", why->message);
	s->down = *why;
}

/*
 * Try a local backend once: with until_ms 0 without waiting, otherwise until then or a signal. NO:
 * the result is filled.
 */
static enum acquired try_local(struct supervisor *s, int64_t until_ms)
{
	struct request request = s->job.request;
	struct grant *grant = &s->job.local_grant;
	struct error err = { 0 };
	enum outcome outcome;
	int sig = 0;

	request.queue = until_ms > 0;
	if (request.queue && signals_unblock(s->job.signals, until_ms, &err))
		return supervisor_fail(s, &err);
	outcome = hold_acquire(s->job.backend, &request, grant, &err);
	if (request.queue)
		sig = signals_block();
	if (sig) {
		/* The signal and the lock may have come together. */
		if (outcome == OUTCOME_HELD)
			hold_release(s->job.backend, &s->job.request, &s->job.self, 0, 0, &err);
		s->result->end = RUN_INTERRUPTED;
		s->result->status = sig;
		return ACQUIRED_NO;
	}
	if (outcome == OUTCOME_HELD) {
		atomic_store(&s->job.shared->held_ms, clock_boot_ms());
		atomic_store(&s->job.shared->fence, grant->fence);
		return set_acquired(s);
	}
	if (outcome != OUTCOME_BUSY)
		return supervisor_fail(s, &err);
	if (err.kind != ERROR_NONE) {
		report_not_taken(s, &err);
		return ACQUIRED_NOT_YET;
	}
	s->late_ms = 0;
	view_local(s);
	return ACQUIRED_NOT_YET;
}

/* Acquire a local lock, without a keeper. */
static enum acquired acquire_local(struct supervisor *s)
{
	int64_t until_ms = clock_after(s->started_ms, s->job.run->wait_ms);
	enum acquired acquired;
	struct error err = { 0 };
	int64_t tick_ms;

	s->job.backend = backend_open(s->job.run->driver, s->job.run->uri, &s->job.request, &err);
	if (!s->job.backend)
		return supervisor_fail(s, &err);
	acquired = try_local(s, 0);
	/* The wait leaves time to start the guard. */
	if (acquired == ACQUIRED_NOT_YET && until_ms > clock_boot_ms() && s->job.run->argv &&
	    supervisor_start_guard(s, &err))
		return supervisor_fail(s, &err);
	while (acquired == ACQUIRED_NOT_YET && !s->result->done && clock_boot_ms() < until_ms) {
		s->job.hooks->waiting(&s->result->wait);
		tick_ms = clock_earlier(s->job.hooks->tick_ms,
					s->job.run->once_ms ? CHECK_DONE_MS : CHECK_LOCAL_MS);
		acquired = try_local(s, clock_earlier(until_ms, clock_boot_ms() + tick_ms));
	}
	return acquired == ACQUIRED_NOT_YET ? end_wait(s) : acquired;
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
	bool is_valid;

	switch (event->type) {
	case KEEPER_HELD:
		report_reachable(s);
		/* The guard takes the offer on the supervisor's order. */
		is_valid = s->job.run->argv ? atomic_load(&s->job.shared->offer) == OFFER_MADE
					    : shared_take(s->job.shared);
		return is_valid ? set_acquired(s) : ACQUIRED_NOT_YET;
	case KEEPER_WITHDRAWN:
		supervisor_log(s, LEVEL_STEP,
			       "dlock was stopped when its turn came; back in the queue");
		s->late_ms = 0;
		keeper_drop_hold(&s->keeper);
		keeper_order(&s->keeper, KEEPER_ORDER_RETRY);
		return ACQUIRED_NOT_YET;
	case KEEPER_WAITING:
		report_reachable(s);
		s->late_ms = 0;
		s->down = (struct error){ .kind = ERROR_NONE };
		store_wait(s, &event->wait);
		if (result->done)
			break;
		s->job.hooks->waiting(&s->result->wait);
		return ACQUIRED_NOT_YET;
	case KEEPER_BUSY:
		store_wait(s, &event->wait);
		break;
	case KEEPER_RETRYING:
		/* Somebody has to do something about a refusal. */
		supervisor_report(s, EVENT_UNREACHABLE, event->error.kind == ERROR_REFUSED
				  ? LEVEL_WARNING : LEVEL_STEP, "%s; trying again",
				  event->error.message);
		s->down = event->error;
		if (!result->wait.down_since_ms)
			result->wait.down_since_ms = clock_boot_ms();
		s->job.hooks->waiting(&s->result->wait);
		return ACQUIRED_NOT_YET;
	case KEEPER_FAILED:
		s->down = event->error;
		s->late_ms = LATE_RESULT_MS + LATE_CLEANUP_MS;
		return event->last ? supervisor_fail(s, &s->down) : ACQUIRED_NOT_YET;
	case KEEPER_GONE:
		return supervisor_fail(s, &event->error);
	default:
		return ACQUIRED_NOT_YET;
	}
	result->end = RUN_NOT_OBTAINED;
	return ACQUIRED_NO;
}

/* Let the keeper leave the queue, or release, and end. */
static void give_up(struct supervisor *s)
{
	/* The entry of a dead waiter delays others, and a run that is done is in no hurry. */
	const int64_t now_ms = clock_boot_ms();
	const int64_t limit_ms = s->job.limit_ms > now_ms ? s->job.limit_ms : now_ms;
	int64_t until_ms = s->result->done ? supervisor_patience_end(s)
					   : now_ms + INTERRUPTED_GRACE_MS;
	struct keeper_event event;

	if (s->result->end != RUN_INTERRUPTED)
		until_ms = clock_earlier(until_ms, clock_after(LATE_CLEANUP_MS, limit_ms));
	/*
	 * Otherwise the keeper has sent no request that could leave a trace (mark_engaged() in
	 * keeper_acquire.c), or it has removed its trace.
	 */
	if (atomic_load(&s->job.shared->engaged) && !s->last_word.last) {
		keeper_order(&s->keeper, KEEPER_ORDER_RELEASE);
		if (supervisor_await_last(s, until_ms, &event) && event.type == KEEPER_BUSY &&
		    event.wait.holder_known)
			store_wait(s, &event.wait);
	}
	child_end(&s->keeper.child);
}

static enum acquired wait_for_lock(struct supervisor *s)
{
	int64_t tick_ms = clock_after(s->started_ms, s->job.hooks->tick_ms);
	enum acquired acquired;
	struct keeper_event event;
	struct error err = { 0 };

	for (;;) {
		supervisor_sleep(s, clock_earlier(clock_after(s->late_ms, s->job.limit_ms),
						  tick_ms));
		if (supervisor_interrupted(s))
			return ACQUIRED_NO;
		while (keeper_event(&s->keeper, &event)) {
			if (event.last)
				s->last_word = event;
			acquired = handle_acquiring(s, &event);
			if (acquired != ACQUIRED_NOT_YET)
				return acquired;
		}
		supervisor_check_guard(s);
		if (atomic_load(&s->job.shared->start_failed))
			return supervisor_fail(s, &s->job.shared->start_error);
		if (ipc_has_failed(&err))
			return supervisor_fail(s, &err);
		if (clock_boot_ms() >= clock_after(s->late_ms, s->job.limit_ms))
			return end_wait(s);
		if (clock_boot_ms() >= tick_ms) {
			tick_ms = clock_after(clock_boot_ms(), s->job.hooks->tick_ms);
			if (s->result->wait.holder_known || s->result->wait.down_since_ms)
				s->job.hooks->waiting(&s->result->wait);
		}
	}
}

/* Acquire by a keeper. */
static enum acquired acquire_remote(struct supervisor *s)
{
	struct error err = { 0 };

	/* The guard is started while the keeper waits for the network. */
	if (supervisor_start_keeper(s, KEEPER_ACQUIRE, &err) ||
	    (s->job.run->argv && supervisor_start_guard(s, &err)))
		return supervisor_fail(s, &err);
	return wait_for_lock(s);
}

/* Report the acquisition, with the time that it took and the fence. */
static void report_acquired(const struct supervisor *s)
{
	int64_t waited_ms = clock_boot_ms() - s->started_ms;
	int64_t session_ms = atomic_load(&s->job.shared->session_ms);
	char text[DURATION_TEXT_SIZE], granted[DURATION_TEXT_SIZE], location[URI_LOCATION_SIZE];

	if (!job_reports(&s->job, LEVEL_STEP))
		return;
	supervisor_report(s, EVENT_ACQUIRED, LEVEL_STEP,
			  "acquired after %s, fence %llu, %s%s%son %s",
			  duration_format(waited_ms, text, sizeof(text)),
			  (unsigned long long)s->result->facts.fence,
			  session_ms ? "session timeout " : "",
			  session_ms ? duration_format(session_ms, granted, sizeof(granted)) : "",
			  session_ms ? ", " : "",
			  uri_location(s->job.run->uri, s->job.run->driver->port, location));
}

enum acquired obtain_lock(struct supervisor *s)
{
	enum acquired acquired;
	struct error err = { 0 };

	if (token_make(s->token, s->job.run->name, s->job.identity, s->job.run->argv, &err))
		return supervisor_fail(s, &err);
	acquired = s->job.run->driver->local ? acquire_local(s) : acquire_remote(s);
	s->job.hooks->waiting(NULL);
	if (acquired == ACQUIRED_NO) {
		/* From now on every offer is void. */
		atomic_store(&s->job.shared->offer, OFFER_CLOSED);
		give_up(s);
	}
	if (acquired == ACQUIRED_YES && s->protected)
		report_acquired(s);
	return acquired;
}

/* ---- an outer hold: the keeper verifies and renews it, see keeper_join.h ---- */

/*
 * Refuse a token of this scope after the keeper's answer that it does not hold, or that this could
 * not be verified. Returns NOT_YET: it is of another lock; NO with s->result->error; YES as
 * supervisor_fail().
 */
static enum acquired refuse_token(struct supervisor *s, enum token_scope scope,
				  const struct keeper_event *event)
{
	const bool lost = event->type == KEEPER_LOST;

	/* No acquisition follows: the server may be back by then, and the hold may have ended. */
	if (!lost && event->error.kind == ERROR_UNAVAILABLE)
		return supervisor_fail(s, &event->error);
	if (lost && scope == TOKEN_OF_NAME) {
		s->level = 0;
		return ACQUIRED_NOT_YET;
	}
	s->result->error = event->error;
	if (lost) {
		s->result->end = RUN_LOST;
		error_set(&s->result->error, ERROR_REFUSED, 0,
			  "the hold of DLOCK_TOKEN has ended; unset DLOCK_TOKEN to begin again");
	}
	return ACQUIRED_NO;
}

enum acquired obtain_joined(struct supervisor *s, enum keeper_mode mode, int64_t *lease_ms)
{
	struct error *err = &s->result->error;
	struct keeper_event event;
	bool interrupted;
	enum token_scope scope;

	s->result->end = RUN_FAILED;
	if (environment_find_token(s->job.run->name, s->job.identity, s->token, &s->level, &scope,
				   err))
		return ACQUIRED_NO;
	if (scope == TOKEN_OF_OTHER)
		return ACQUIRED_NOT_YET;
	if (mode == KEEPER_NEST && s->level == TOKEN_LEVEL_MOST) {
		error_set(err, ERROR_USAGE, 0, "the token in DLOCK_TOKEN has the "
			  "highest level, %d", TOKEN_LEVEL_MOST);
		return ACQUIRED_NO;
	}
	if (supervisor_start_keeper(s, mode, err))
		return ACQUIRED_NO;
	do {
		supervisor_sleep(s, CLOCK_NEVER);
		interrupted = supervisor_interrupted(s);
	} while (!interrupted && !keeper_event(&s->keeper, &event));
	if (!interrupted && event.type == KEEPER_HELD) {
		*lease_ms = event.lease_ms;
		s->result->end = RUN_EXITED;
		s->job.joined = true;
		s->result->facts.fence = atomic_load(&s->job.shared->fence);
		return ACQUIRED_YES;
	}
	child_end(&s->keeper.child);
	keeper_drop_hold(&s->keeper);
	return interrupted ? ACQUIRED_NO : refuse_token(s, scope, &event);
}
