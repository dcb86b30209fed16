/* SPDX-License-Identifier: MIT */
#include "keeper_join.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/pidfd.h"
#include "base/signals.h"
#include "lock/lease.h"
#include "lock/uri.h"
#include "shared.h"
#include "watchdog.h"

/* A daemon tells its process so long before the lease ends (kill-after of `run`). */
#define NOTICE_MS 5000

void keeping_publish(struct keeping *k, const struct grant *grant)
{
	struct lease_span lease = { .end_ms = CLOCK_NEVER, .ttl_ms = grant->ttl_ms };

	if (grant->ttl_ms)
		lease.end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	shared_set_lease(k->plan->shared, lease);
}

int64_t keeping_rest_of_hold(const struct keeping *k)
{
	int64_t held_ms = atomic_load(&k->plan->shared->held_ms);

	if (!held_ms)
		return 0;
	return lease_keep(held_ms, k->min_hold_ms, clock_boot_ms());
}

void keeping_release(struct keeping *k, bool was_held)
{
	k->backend->cancel_fd = -1;
	/* Renewals may have been bounded by what was left of the lease. */
	if (k->timeout_ms) {
		k->backend->timeout_ms = k->timeout_ms;
		k->backend->connect_timeout_ms = k->connect_timeout_ms;
	}
	switch (k->backend->ops->release(k->backend, &k->request, RELEASE_ALL,
					 keeping_rest_of_hold(k), &k->event.error)) {
	case OUTCOME_HELD:
	case OUTCOME_BUSY:
		keeping_finish(k, KEEPER_RELEASED);
	case OUTCOME_LOST:
		keeping_finish(k, was_held ? KEEPER_LOST : KEEPER_BUSY);
	case OUTCOME_ERROR:
		break;
	}
	keeping_finish(k, KEEPER_FAILED);
}

/*
 * Tells the process that the daemon holds the lock for; then there is nothing to hold, but
 * perhaps a session to end.
 */
static void lost_daemon(struct keeping *k)
{
	if (k->plan->process && k->plan->term_on_lost)
		pidfd_signal(k->plan->process, SIGTERM);
	/* Who asks must not wait for what comes now: what is left of a session ends with it. */
	keeping_end_daemon(k);
	k->listener = -1;
	backend_close(k->backend);
	_exit(0);
}

/* Wakes the guard, and tells the supervisor. */
static void tell_lost(struct keeping *k)
{
	static const uint64_t one = 1;

	if (write(k->plan->lost_fd, &one, sizeof(one)) < 0)
		shared_set_lease(k->plan->shared, (struct lease_span){ .end_ms = 0, .ttl_ms = 1 });
	k->ending.at_once = true;
	keeping_tell(k, KEEPER_LOST);
}

void keeping_lose(struct keeping *k)
{
	enum wake wake = WAKE_TIME;

	tell_lost(k);
	while (wake != WAKE_RELEASE && !keeping_end_tree(k, wake)) {
		keeping_watch(k);
		wake = keeping_rest(k, keeping_end_next(k), false);
	}
}

/* The lock is not ours any more: leave only to release. */
static void lost(struct keeping *k)
{
	if (k->listener >= 0)
		lost_daemon(k);
	keeping_lose(k);
	keeping_release(k, true);
}

/* ---- the daemon ---- */

static int start_watchdog(struct keeping *k)
{
	const struct watchdog_plan plan = {
		.process = k->plan->process, .shared = k->plan->shared,
		.notice_ms = NOTICE_MS, .close_fd = k->listener,
	};

	if (!k->plan->process || !k->plan->term_on_lost)
		return 0;
	k->watchdog = watchdog_start(&plan, &k->event.error);
	return k->watchdog < 0 ? -1 : 0;
}

void keeping_end_after(struct keeping *k, int64_t ttl_ms)
{
	k->until_ms = clock_boot_ms() + ttl_ms;
	k->request.until_ms = clock_wall_ms() + ttl_ms;
}

void keeping_detach(struct keeping *k, struct grant *grant)
{
	k->listener = keeper_socket_listen(k->request.token, k->socket_path,
					   &k->event.error);
	/* A descriptor of the caller's would keep its pipes open. */
	fds_close_inherited();
	if (k->listener < 0 || start_watchdog(k)) {
		struct error why = k->event.error;

		k->backend->ops->release(k->backend, &k->request, RELEASE_ALL, 0, &k->event.error);
		k->event.error = why;
		keeping_finish(k, KEEPER_FAILED);
	}
	k->timer = clock_timer_open();
	umask(077);
	if (chdir("/"))
		keeping_finish(k, KEEPER_FAILED);
	k->own_ms = k->request.ttl_ms;
	if (!k->plan->process)
		keeping_end_after(k, k->own_ms);
	/* From now on it is this process that holds, and until then. */
	k->backend->ops->renew(k->backend, &k->request, grant, &k->event.error);
	k->event.keeper_pid = getpid();
	keeping_tell(k, KEEPER_DETACHED);
	keeping_end_notes();
	close(k->fd);
	k->fd = -1;
}

/* A query renews the lock: a lease without a process starts anew, for ttl_ms. */
static void renew_for(struct keeping *k, int64_t ttl_ms, struct grant *grant,
		      struct keeper_reply *reply)
{
	k->own_ms = ttl_ms;
	/* A run that has joined counts on the end that it was told. */
	if (k->until_ms != CLOCK_NEVER &&
	    !(keeping_has_members(k) && k->until_ms > clock_boot_ms() + ttl_ms))
		keeping_end_after(k, ttl_ms);
	reply->outcome = k->backend->ops->renew(k->backend, &k->request, grant,
						&reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	keeping_publish(k, grant);
	reply->lease_ms = k->until_ms == CLOCK_NEVER ? 0 : ttl_ms;
}

/* One more acquisition: the lease starts anew, and is never made shorter. */
static void again_for(struct keeping *k, const struct keeper_query *query, struct grant *grant,
		      struct keeper_reply *reply)
{
	const struct backend_ops *ops = k->backend->ops;
	struct request asked = k->request;
	struct keeper_reply renewed = { .outcome = OUTCOME_LOST };
	struct grant counted = { 0 };

	asked.mode = query->mode;
	asked.slots = query->slots;
	asked.ttl_ms = query->ttl_ms;
	reply->outcome = ops->again(k->backend, &asked, &counted, &reply->error);
	reply->fence = counted.fence;
	if (reply->outcome != OUTCOME_HELD || k->until_ms == CLOCK_NEVER)
		return;
	/* It counts, whatever becomes of this: the next renewal tells of a loss. */
	renew_for(k, query->ttl_ms > k->own_ms ? query->ttl_ms : k->own_ms, grant, &renewed);
	reply->lease_ms = renewed.lease_ms;
}

/* Answers one query. Does not return when it ends the hold. */
static void answer(struct keeping *k, struct grant *grant)
{
	const struct request *request = &k->request;
	const struct backend_ops *ops = k->backend->ops;
	struct keeper_reply reply = { .outcome = OUTCOME_LOST };
	struct keeper_query query;
	struct request asked = *request;
	int fd = keeper_socket_accept(k->listener, &query);

	if (fd < 0)
		return;
	if (strcmp(query.token, request->token) != 0) {
		keeper_socket_answer(fd, &reply);
		return;
	}
	/* Another lock, or another backend: no answer says that we are not the one. */
	if (strcmp(query.name, request->name) != 0 ||
	    query.backend != uri_identity(k->plan->uri)) {
		close(fd);
		return;
	}
	switch (query.verb) {
	case KEEPER_VERB_RELEASE:
		reply.outcome = ops->release(k->backend, request, RELEASE_ONE,
					     keeping_rest_of_hold(k),
					     &reply.error);
		break;
	case KEEPER_VERB_RENEW:
		renew_for(k, query.ttl_ms ? query.ttl_ms : k->own_ms, grant, &reply);
		break;
	case KEEPER_VERB_VERIFY:
		asked.mode = HOLD_ANY;
		reply.outcome = ops->verify(k->backend, &asked, &reply.error);
		break;
	case KEEPER_VERB_AGAIN:
		again_for(k, &query, grant, &reply);
		break;
	case KEEPER_VERB_JOIN:
		if (keeping_join_answer(k, &query, grant, fd) == OUTCOME_LOST)
			lost(k);
		return;
	case KEEPER_VERB_STAY:
		if (keeping_stay_answer(k, grant, fd) == OUTCOME_LOST)
			lost(k);
		return;
	}
	if (query.verb == KEEPER_VERB_RELEASE && reply.outcome == OUTCOME_HELD) {
		/* Gone before the caller hears of it: it may look for us at once. */
		keeping_end_daemon(k);
		keeper_socket_answer(fd, &reply);
		_exit(0);
	}
	keeper_socket_answer(fd, &reply);
	if (reply.outcome == OUTCOME_LOST)
		lost(k);
}

/* ---- holding ---- */

/* How long the lease is, or, without one, how often to look that it is still ours. */
static int64_t period(const struct keeping *k, const struct grant *grant)
{
	return grant->ttl_ms ? grant->ttl_ms : k->request.ttl_ms;
}

/* When the lease is to be renewed, or a loan made a whole lease. */
static int64_t next_renewal(const struct keeping *k, const struct grant *grant)
{
	if (grant->lent)
		return clock_boot_ms() + KEEPING_LENT_MS;
	return k->plan->no_renew ? CLOCK_NEVER : lease_renew_at(grant->sent_ms, period(k, grant));
}

/* When a daemon must act without being asked: its end, or the end of its lease. */
static int64_t daemon_deadline(const struct keeping *k)
{
	if (k->listener < 0)
		return CLOCK_NEVER;
	return clock_earlier(k->until_ms,
			     lease_stop(shared_lease(k->plan->shared), NOTICE_MS).term_ms);
}

/* Renews or, with --no-renew, verifies. Returns the time of the next one. */
static int64_t renew(struct keeping *k, struct grant *grant, bool *trouble)
{
	const struct backend_ops *ops = k->backend->ops;
	const bool verify = k->plan->no_renew && !grant->lent;
	enum outcome outcome;

	outcome = verify
		? ops->verify(k->backend, &k->request, &k->event.error)
		: ops->renew(k->backend, &k->request, grant, &k->event.error);
	switch (outcome) {
	case OUTCOME_HELD:
		if (*trouble)
			keeping_tell(k, KEEPER_RENEWED);
		*trouble = grant->lent = false;
		if (!verify)
			keeping_publish(k, grant);
		return next_renewal(k, grant);
	case OUTCOME_ERROR:
		if (!*trouble)
			keeping_tell(k, KEEPER_TROUBLE);
		*trouble = true;
		return clock_boot_ms() + lease_retry_ms(period(k, grant));
	case OUTCOME_LOST:
	case OUTCOME_BUSY:
		break;
	}
	lost(k);
	return CLOCK_NEVER;
}

/*
 * No renewal goes on beyond the time when the command must be dead, or a daemon's process be
 * told: this process may be the only one left to see to that. False: it is too late to begin one.
 */
static bool bound_calls(struct keeping *k)
{
	const struct lease_span lease = shared_lease(k->plan->shared);
	int64_t deadline_ms = lease_stop(lease, k->plan->kill_after_ms).kill_ms, rest_ms;

	if (k->listener >= 0)
		deadline_ms = daemon_deadline(k);
	rest_ms = deadline_ms - clock_boot_ms();
	if (rest_ms <= 0)
		return false;
	k->backend->timeout_ms = clock_earlier(rest_ms, k->timeout_ms);
	k->backend->connect_timeout_ms = clock_earlier(rest_ms, k->connect_timeout_ms);
	return true;
}

/* For how long an offer may stay taken without the command being started; CLOCK_NEVER: it is. */
static int64_t unstarted_until(const struct keeping *k)
{
	const struct shared *shared = k->plan->shared;

	if (k->plan->gate_fd < 0 || atomic_load(&shared->offer) != OFFER_TAKEN)
		return CLOCK_NEVER;
	return atomic_load(&shared->held_ms) + KEEPING_OFFER_MS;
}

/*
 * The supervisor took the offer, and was stopped before it ordered the guard to start the command:
 * the lock is given back, for nobody knows for how long that will be.
 */
static void give_back_unstarted(struct keeping *k)
{
	int taken = OFFER_TAKEN;

	if (clock_boot_ms() >= unstarted_until(k) &&
	    atomic_compare_exchange_strong(&k->plan->shared->offer, &taken, OFFER_WITHDRAWN))
		keeping_release(k, true);
}

void keeping_hold(struct keeping *k, struct grant *grant)
{
	int64_t renew_ms = next_renewal(k, grant), event_ms = CLOCK_NEVER, until_ms, again_ms;
	enum wake wake = k->abandoned ? WAKE_ABANDONED : WAKE_TIME;
	bool trouble = false;

	k->timeout_ms = k->backend->timeout_ms;
	k->connect_timeout_ms = k->backend->connect_timeout_ms;
	if (grant->event_ms)
		event_ms = grant->event_ms;
	for (;;) {
		if (keeping_end_tree(k, wake))
			keeping_release(k, true);
		keeping_watch(k);
		until_ms = clock_earlier(clock_earlier(renew_ms, event_ms), daemon_deadline(k));
		until_ms = clock_earlier(until_ms, keeping_end_next(k));
		until_ms = clock_earlier(until_ms, unstarted_until(k));
		wake = keeping_rest(k, until_ms, true);
		if (clock_boot_ms() >= event_ms && wake == WAKE_TIME)
			wake = WAKE_EVENT;
		switch (wake) {
		case WAKE_RELEASE:
			if (keeping_leave(k))
				break;
			keeping_release(k, true);
		case WAKE_DETACH:
			keeping_detach(k, grant);
			break;
		case WAKE_EVENT:
			event_ms = CLOCK_NEVER;
			again_ms = k->backend->ops->event(k->backend);
			/* While renewals fail, the pause between them stays. */
			if (!trouble)
				renew_ms = clock_earlier(renew_ms, again_ms);
			break;
		case WAKE_QUERY:
			answer(k, grant);
			break;
		case WAKE_LOOK:
			renew_ms = 0;
			break;
		default:
			break;
		}
		if (clock_boot_ms() >= k->until_ms)
			keeping_release(k, true);
		if (clock_boot_ms() >= daemon_deadline(k))
			lost(k);
		give_back_unstarted(k);
		if (clock_boot_ms() < renew_ms)
			continue;
		renew_ms = CLOCK_NEVER;
		if (bound_calls(k))
			renew_ms = renew(k, grant, &trouble);
	}
}
