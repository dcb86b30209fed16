/* SPDX-License-Identifier: MIT */
/*
 * What the processes of one `dlock run` share: one page of memory, mapped before
 * the first fork, and an eventfd. The page spares a wake-up of the supervisor
 * and the guard at every renewal: both read the lease's end when the old one
 * comes near.
 */
#ifndef DLOCK_SHARED_H
#define DLOCK_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * A lock that the keeper obtained is offered to the supervisor, which must take
 * it before the command starts. A supervisor that does not (it was stopped) finds
 * the offer withdrawn later on; one compare-and-set decides.
 */
enum offer {
	OFFER_NONE,
	OFFER_MADE,		/* by the keeper, with the event KEEPER_HELD */
	OFFER_TAKEN,		/* by the supervisor */
	OFFER_WITHDRAWN,	/* by the keeper: nobody answered, next waiter's turn */
};

struct shared {
	_Atomic int64_t lease_end_ms;	/* CLOCK_BOOTTIME; CLOCK_NEVER: no lease */
	_Atomic int64_t lease_ttl_ms;	/* as granted: kill-after is capped by it */
	_Atomic int offer;		/* enum offer */
	_Atomic int64_t held_ms;	/* CLOCK_BOOTTIME when the supervisor took it; 0: not yet */
	_Atomic int command;		/* pid of the command, once the guard has started it */
	/* A request has been sent that may leave something in the backend. */
	_Atomic int engaged;
};

#endif
