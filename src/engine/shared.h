/* SPDX-License-Identifier: MIT */
/*
 * What the processes of one `dlock run` share: one page of memory, mapped before the first fork.
 * The page holds the end of the lease, which the keeper writes at every renewal. Supervisor and
 * guard read it when the end that they know comes near, so that a renewal need not wake them. The
 * page also holds the offer, by which the lock passes from the keeper to the guard or the
 * supervisor.
 *
 * Calling sequence: shared_set_lease() by the supervisor before the first fork, then by the keeper
 * after acquire() and after each renewal. shared_take() by the guard, or for `dlock acquire` by the
 * supervisor. shared_lease() by all, at any time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock/lease.h"

/*
 * A lock that the keeper acquired is offered. The guard takes the offer when the supervisor orders
 * it to start the command. For `dlock acquire`, which has no guard, the supervisor takes it. If
 * nobody does (the supervisor was stopped), the keeper withdraws the offer. A supervisor that gives
 * up waiting closes it. Each arrow of the keeper and the guard is one compare-and-set:
 *
 *	       keeper         guard
 *	NONE ──────────> MADE ──────> TAKEN
 *	  │               │ │ keeper
 *	  └───────────────┤ └────────> WITHDRAWN
 *	    supervisor    v
 *	                CLOSED
 */
enum offer {
	OFFER_NONE,
	OFFER_MADE,		/* by the keeper, with the event KEEPER_HELD */
	OFFER_TAKEN,		/* by the guard: the command is being started */
	OFFER_WITHDRAWN,	/* by the keeper: nobody answered; the next waiter's turn */
	OFFER_CLOSED,		/* by the supervisor: no lock is wanted any more */
};

/* Why the guard stops the command, or does not start it: bits. */
enum ending {
	ENDING_LEASE = 1,	/* it was not renewed in time */
	ENDING_MAX_RUN = 2,	/* --max-run */
	ENDING_UNTIL = 4,	/* --until */
};

/* One of the two places that leases are written to in turn: see shared_set_lease(). */
struct shared_lease {
	_Atomic int64_t end_ms;
	_Atomic int64_t ttl_ms;
};

struct shared {
	/* The lease is leases[lease_count % 2]. Read and written by the two functions below. */
	struct shared_lease leases[2];
	_Atomic unsigned int lease_count;
	_Atomic int offer;		/* enum offer */
	_Atomic uint64_t fence;		/* of the lock that is offered */
	/*
	 * CLOCK_BOOTTIME before the offer was taken. 0: not yet, or no command has used the lock,
	 * which is then not kept for a minimum hold.
	 */
	_Atomic int64_t held_ms;
	_Atomic int endings;		/* of enum ending, by the guard */
	/* Why no command was executed, by who was to become it: errno, or 0. */
	_Atomic int exec_failure;
	_Atomic int contain_failure;	/* there is no namespace for --contain */
	_Atomic int64_t guard_dies_ms;	/* the kernel kills the guard then; CLOCK_NEVER: never */
	_Atomic int guard;		/* pid of the guard; 0: not started yet */
	_Atomic int command;		/* pid of the command; 0: not started yet */
	/* By the keeper: a request was, or is about to be, sent that may leave something there. */
	_Atomic int engaged;
	/* Written by the keeper: struct backend, session. */
	_Atomic bool session;
	/* The same: session_ms. */
	_Atomic int64_t session_ms;
	_Atomic int failure;		/* see ipc_share_failure() */
};

/* Is the offer taken now, by this call or before? It was not if it did not stand any more. */
bool shared_take(struct shared *shared);

/*
 * Publishes a lease. One process writes at a time: the supervisor before the first fork, then
 * the keeper. A reader sees the end and the TTL of one and the same lease, and never waits for
 * the writer, which may be killed or stopped at any point.
 */
void shared_set_lease(struct shared *shared, struct lease_span lease);
struct lease_span shared_lease(const struct shared *shared);
