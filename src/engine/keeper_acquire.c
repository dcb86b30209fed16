/* SPDX-License-Identifier: MIT */
/* Acquires the lock, waits in the queue, and offers the lock to the guard. */
#include "keeper_acquire.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"

/*
 * The time to take an offer. It must not delay the next waiter for longer than 5 s in all, requests
 * included.
 */
#define OFFER_MS       3000
/* The keeper polls whether the offer was taken. */
#define OFFER_CHECK_MS 150

/* Pauses between attempts to queue again after a connection was lost. */
#define RECONNECT_FIRST_MS 50
#define RECONNECT_LAST_MS  2000
/* The least pause between two views of a lock while waiting. */
#define VIEW_EACH_MS	   1000
/* The time for a server to come back with --if-down run, even if leases are shorter. */
#define PATIENCE_MS	   30000

/* Release a lock that no command has used, and that has no minimum hold. */
static void __attribute__((noreturn)) release_and_exit(struct keeping *k, bool was_held)
{
	release_lock(k, was_held);
	_exit(0);
}

/* Does this end the wait? Before the lock is held there is no command to wait for. */
static bool gives_up(enum wake wake)
{
	return wake == WAKE_RELEASE || wake == WAKE_ORPHANED || wake == WAKE_ABANDONED;
}

/*
 * Offer the lock. False: the offer was withdrawn, reported, and the lock released. True: the hold
 * begins with *wake. Does not return when the supervisor is dead.
 */
static bool offer_lock(struct keeping *k, struct grant *grant, enum wake *wake)
{
	struct shared *shared = k->job->shared;
	int64_t limit_ms = OFFER_MS;
	int made = OFFER_MADE, before = atomic_load(&shared->offer);

	/* When the lock is taken, most of its lease must be left. */
	if (grant->ttl_ms)
		limit_ms = clock_earlier(limit_ms, grant->ttl_ms / 3);
	limit_ms += clock_boot_ms();
	atomic_store(&shared->fence, grant->fence);
	atomic_store(&shared->held_ms, 0);
	if (before == OFFER_CLOSED ||
	    !atomic_compare_exchange_strong(&shared->offer, &before, OFFER_MADE))
		release_and_exit(k, true);
	k->stage = STAGE_OFFERED;
	send_event(k, KEEPER_HELD);
	*wake = WAKE_TIME;
	while (*wake == WAKE_TIME && atomic_load(&shared->offer) == OFFER_MADE &&
	       clock_boot_ms() < limit_ms)
		*wake = sleep_until(k, clock_boot_ms() + OFFER_CHECK_MS, false);
	k->abandoned = *wake == WAKE_ABANDONED;
	/* At the order to release, the command may have ended already. */
	if (*wake == WAKE_RELEASE || *wake == WAKE_DETACH ||
	    !atomic_compare_exchange_strong(&shared->offer, &made, OFFER_WITHDRAWN))
		return true;
	if (*wake != WAKE_TIME)
		release_and_exit(k, true);
	k->stage = STAGE_WITHDRAWN;
	send_event(k, KEEPER_WITHDRAWN);
	hold_release(k->backend, &k->request, &k->self, 0, 0, &k->event.error);
	return false;
}

/*
 * Tell the supervisor who holds the lock: once; every second if a wait is shown; at each try with
 * --once-per.
 */
static void report_waiting(struct keeping *k)
{
	const bool shown = job_reports(k->job, LEVEL_STEP) ||
			   k->job->hooks->tick_ms != CLOCK_NEVER;

	if (!k->viewed_ms || k->job->run->once_ms ||
	    (shown && clock_boot_ms() >= k->viewed_ms + VIEW_EACH_MS))
		view_lock(k);
	send_event(k, KEEPER_WAITING);
}

/*
 * Return when to read again whether the holder has done the work of --once-per, which not every
 * backend announces. The first waiter ends then, which wakes the next one.
 */
static int64_t next_view(const struct keeping *k)
{
	if (!k->job->run->once_ms)
		return CLOCK_NEVER;
	return clock_boot_ms() + (k->event.wait.ahead > 0 ? HOLD_RETRY_MS : VIEW_EACH_MS);
}

/*
 * Sleep between two tries, without the backend if its connection has failed. True: give up.
 */
static bool await_turn(struct keeping *k, int64_t retry_ms, bool with_backend)
{
	int64_t view_ms;

	do {
		enum wake wake;

		view_ms = with_backend ? next_view(k) : CLOCK_NEVER;
		wake = sleep_until(k, clock_earlier(retry_ms, view_ms), with_backend);
		if (gives_up(wake))
			return true;
		if (wake == WAKE_EVENT)
			retry_ms = clock_earlier(retry_ms, k->backend->ops->event(k->backend));
		if (clock_boot_ms() >= view_ms)
			report_waiting(k);
	} while (clock_boot_ms() < retry_ms);
	return false;
}

/*
 * Is a failed try repeated? A waiter that had an answer goes on through all that a server may say,
 * with --if-down run for one TTL or PATIENCE_MS, whichever is longer: by then no lease is left.
 */
static bool tries_again(const struct keeping *k, bool in_line, int64_t down_ms)
{
	const enum error_kind kind = k->event.error.kind;
	const enum if_down if_down = k->job->run->if_down;

	if (!in_line)
		return kind == ERROR_UNAVAILABLE && if_down == IF_DOWN_WAIT && k->request.queue;
	if (if_down == IF_DOWN_RUN && down_ms > PATIENCE_MS && down_ms > k->request.ttl_ms)
		return false;
	return kind == ERROR_UNAVAILABLE || kind == ERROR_REFUSED;
}

/* Handle a failed try: try again later, or clean up and end the process. */
static void acquire_failed(struct keeping *k, bool in_line, int64_t *down_since_ms,
			   int64_t *pause_ms)
{
	static char last_message[sizeof(k->event.error.message)];
	int64_t now = clock_boot_ms();

	if (k->event.error.kind == ERROR_CANCELLED && !atomic_load(&k->job->shared->engaged))
		send_and_exit(k, KEEPER_BUSY);
	if (k->event.error.kind == ERROR_CANCELLED)
		release_and_exit(k, false);
	if (!*down_since_ms) {
		*down_since_ms = now;
		*pause_ms = RECONNECT_FIRST_MS;
	}
	if (!tries_again(k, in_line, now - *down_since_ms)) {
		struct error ignored;

		/* A request without a reply may have left an entry: remove it. */
		k->backend->cancel_fd = -1;
		limit_calls(k, CLOCK_NEVER);
		if (atomic_load(&k->job->shared->engaged)) {
			send_event(k, KEEPER_FAILED);
			hold_release(k->backend, &k->request, &k->self, 0, 0, &ignored);
		}
		send_and_exit(k, KEEPER_FAILED);
	}
	/* The same message is sent once. */
	if (*pause_ms == RECONNECT_FIRST_MS || strcmp(last_message, k->event.error.message) != 0)
		send_event(k, KEEPER_RETRYING);
	memcpy(last_message, k->event.error.message, sizeof(last_message));
	if (await_turn(k, clock_boot_ms() + *pause_ms, false))
		release_and_exit(k, false);
	*pause_ms = *pause_ms * 2 > RECONNECT_LAST_MS ? RECONNECT_LAST_MS : *pause_ms * 2;
}

/*
 * Set the flag that further requests may leave an entry at the server. A supervisor that gives up
 * closes the offer before it reads the flag: either it sees the flag, or this process sees the
 * closed offer, and sends nothing.
 */
static void mark_engaged(struct keeping *k)
{
	struct shared *shared = k->job->shared;

	atomic_store(&shared->engaged, 1);
	if (atomic_load(&shared->offer) == OFFER_CLOSED)
		send_and_exit(k, KEEPER_BUSY);
}

/* Return the time that is left for a request of the wait. */
static int64_t wait_left(const struct keeping *k)
{
	return k->job->limit_ms - (clock_boot_ms() - LATE_REQUEST_MS);
}

static enum outcome try_once(struct keeping *k, struct grant *grant)
{
	const struct backend_ops *ops = k->backend->ops;
	struct error *err = &k->event.error;

	k->backend->cancel_fd = k->fd;
	limit_calls(k, wait_left(k));
	if (!atomic_load(&k->job->shared->engaged)) {
		if (ops->connect && ops->connect(k->backend, &k->request, err))
			return OUTCOME_ERROR;
		mark_engaged(k);
	}
	limit_calls(k, wait_left(k));
	*grant = (struct grant){ .hold_fd = -1 };
	return hold_acquire(k->backend, &k->request, grant, err);
}

/*
 * Try and wait until the lock is held. in_line: this waiter had an answer already. Ends the process
 * when it cannot be acquired.
 */
static void try_until_held(struct keeping *k, struct grant *grant, bool in_line)
{
	int64_t down_since_ms = 0, pause_ms = 0;
	enum outcome outcome;

	while ((outcome = try_once(k, grant)) != OUTCOME_HELD) {
		if (outcome != OUTCOME_BUSY) {
			/* A refused fence is that of a hold. */
			acquire_failed(k, in_line && grant->fence < BACKEND_FENCE_END,
				       &down_since_ms, &pause_ms);
			continue;
		}
		in_line = true;
		down_since_ms = 0;
		if (!k->request.queue) {
			view_lock(k);
			send_and_exit(k, KEEPER_BUSY);
		}
		k->event.wait.poll_ms = grant->poll_ms;
		report_waiting(k);
		if (await_turn(k, grant->retry_ms, true))
			release_and_exit(k, false);
	}
	k->backend->cancel_fd = -1;
	limit_calls(k, CLOCK_NEVER);
	k->hold_fd = grant->hold_fd;
	publish_lease(k, grant);
}

enum wake acquire_lock(struct keeping *k, struct grant *grant)
{
	enum wake wake;

	for (bool in_line = false;; in_line = k->request.queue) {
		k->stage = STAGE_ACQUIRING;
		try_until_held(k, grant, in_line);
		if (offer_lock(k, grant, &wake))
			return wake;
		do {
			wake = sleep_until(k, CLOCK_NEVER, false);
			if (gives_up(wake))
				send_and_exit(k, KEEPER_RELEASED);
		} while (wake != WAKE_RETRY);
	}
}
