/* SPDX-License-Identifier: MIT */
/* What the keeper does with a lease it was granted, with a lock that it gives back, or has lost. */
#include "keeping.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/lease.h"
#include "shared.h"

void keeping_publish(struct keeping *k, const struct grant *grant)
{
	struct lease_span lease = { .end_ms = CLOCK_NEVER, .ttl_ms = grant->ttl_ms };

	if (grant->ttl_ms)
		lease.end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	shared_set_lease(k->plan->shared, lease);
	atomic_store(&k->plan->shared->session_ms, k->backend->session_ms);
}

int64_t keeping_rest_of_hold(const struct keeping *k)
{
	const int64_t held_ms = atomic_load(&k->plan->shared->held_ms);
	const int offer = atomic_load(&k->plan->shared->offer);

	/* Who comes too late to take an offer has written the time all the same. */
	if (!held_ms || offer == OFFER_WITHDRAWN || offer == OFFER_CLOSED)
		return 0;
	return lease_keep(held_ms, k->min_hold_ms, clock_boot_ms());
}

void keeping_unbound_calls(struct keeping *k)
{
	if (!k->timeout_ms)
		return;
	k->backend->timeout_ms = k->timeout_ms;
	k->backend->connect_timeout_ms = k->connect_timeout_ms;
}

void keeping_release(struct keeping *k, bool was_held)
{
	k->backend->cancel_fd = -1;
	keeping_unbound_calls(k);
	switch (k->backend->ops->release(k->backend, &k->request, keeping_rest_of_hold(k),
					 &k->event.error)) {
	case OUTCOME_HELD:
		keeping_finish(k, KEEPER_RELEASED);
	case OUTCOME_LOST:
		keeping_finish(k, was_held ? KEEPER_LOST : KEEPER_BUSY);
	case OUTCOME_BUSY:
	case OUTCOME_ERROR:
		break;
	}
	keeping_finish(k, KEEPER_FAILED);
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
