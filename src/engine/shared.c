/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include "base/clock.h"

bool shared_take(struct shared *shared, enum offer how)
{
	int made = OFFER_MADE;

	if (!atomic_compare_exchange_strong(&shared->offer, &made, how))
		return false;
	atomic_store(&shared->held_ms, clock_boot_ms());
	return true;
}

/*
 * The writer fills the place that is not current and then makes it the current one. A place is
 * written again only after the next lease was published, which a reader notices by the count.
 */
void shared_set_lease(struct shared *shared, struct lease_span lease)
{
	unsigned int next = atomic_load(&shared->lease_count) + 1;

	atomic_store(&shared->leases[next % 2].end_ms, lease.end_ms);
	atomic_store(&shared->leases[next % 2].ttl_ms, lease.ttl_ms);
	atomic_store(&shared->lease_count, next);
}

struct lease_span shared_lease(const struct shared *shared)
{
	unsigned int count;
	struct lease_span lease;

	do {
		count = atomic_load(&shared->lease_count);
		lease.end_ms = atomic_load(&shared->leases[count % 2].end_ms);
		lease.ttl_ms = atomic_load(&shared->leases[count % 2].ttl_ms);
	} while (count != atomic_load(&shared->lease_count));
	return lease;
}
