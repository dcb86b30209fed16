/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include "clock.h"

bool shared_take(struct shared *shared, enum offer how)
{
	int made = OFFER_MADE;

	if (!atomic_compare_exchange_strong(&shared->offer, &made, how))
		return false;
	atomic_store(&shared->held_ms, clock_boot_ms());
	return true;
}
