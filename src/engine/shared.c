/* SPDX-License-Identifier: MIT */
/* The offer and the lease in shared memory. */
#include "shared.h"

#include "base/clock.h"
#include "request.h"

/* A success of --once-per is kept for this long, because a waiter checks for it each second. */
#define DONE_LEAST_MS 10000

int64_t shared_keep_ms(const struct shared *shared, const struct run_request *run)
{
	const int64_t held_ms = atomic_load(&shared->held_ms);
	const bool done = run->once_ms && atomic_load(&shared->succeeded);
	int64_t keep_ms;

	if (!held_ms)
		return 0;
	keep_ms = lease_keep(held_ms, done ? run->once_ms : run->min_hold_ms, clock_boot_ms());
	return done && keep_ms < DONE_LEAST_MS ? DONE_LEAST_MS : keep_ms;
}

struct lease_stop shared_stop(const struct shared *shared, const struct run_request *run,
			      bool locked)
{
	struct lease_span lease = shared_lease(shared);

	if (!run->kill_on_lost || !locked)
		lease.end_ms = CLOCK_NEVER;
	return lease_stop(lease, run->kill_after_ms);
}

bool shared_take(struct shared *shared)
{
	int64_t no_time = 0;
	int made = OFFER_MADE;

	/*
	 * The time is written first, because the keeper reads it as soon as the offer is taken. The
	 * first time stays.
	 */
	atomic_compare_exchange_strong(&shared->held_ms, &no_time, clock_boot_ms());
	return atomic_compare_exchange_strong(&shared->offer, &made, OFFER_TAKEN) ||
	       made == OFFER_TAKEN;
}

/*
 * The writer fills the slot that is not current, and then makes it the current one. A slot is
 * written again only after the next lease was published, which a reader notices by the count.
 */
void shared_set_lease(struct shared *shared, struct lease_span lease)
{
	unsigned int next = atomic_load(&shared->lease_count) + 1;

	atomic_store(&shared->end_ms[next % 2], lease.end_ms);
	atomic_store(&shared->ttl_ms[next % 2], lease.ttl_ms);
	atomic_store(&shared->lease_count, next);
}

struct lease_span shared_lease(const struct shared *shared)
{
	unsigned int count;
	struct lease_span lease;

	do {
		count = atomic_load(&shared->lease_count);
		lease.end_ms = atomic_load(&shared->end_ms[count % 2]);
		lease.ttl_ms = atomic_load(&shared->ttl_ms[count % 2]);
	} while (count != atomic_load(&shared->lease_count));
	return lease;
}
