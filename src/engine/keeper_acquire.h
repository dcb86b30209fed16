/* SPDX-License-Identifier: MIT */
/* How a keeper acquires: the tries, the wait in the queue, and the offer. */
#pragma once

#include "keeper_hold.h"

/*
 * Acquire, wait, and offer the lock; end the process if the supervisor does not take it. Returns
 * with what the hold begins: WAKE_TIME, WAKE_RELEASE or WAKE_DETACH after such an order, or
 * WAKE_ABANDONED or WAKE_ORPHANED when the offer was taken before that.
 */
enum wake acquire_lock(struct keeping *k, struct grant *grant);
