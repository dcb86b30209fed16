/* SPDX-License-Identifier: MIT */
/*
 * The shared memory of the processes of one `dlock run`: a page that is mapped before the first
 * fork. The keeper writes the end of the lease into it at every renewal. Supervisor and guard read
 * it when the end that they know is near, so that a renewal does not wake them. By the offer in the
 * page the lock passes from the keeper to the guard or the supervisor.
 *
 * Calling sequence: shared_set_lease() by the supervisor before the first fork, then by the keeper
 * after acquire() and after each renewal. shared_take() by the guard, or for `dlock acquire` by the
 * supervisor. shared_lease() by all, at any time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lock/lease.h"

/*
 * A lock that the keeper acquired is offered. The guard takes the offer when the supervisor orders
 * it to start the command. For `dlock acquire`, which has no guard, the supervisor takes it. If the
 * supervisor is stopped, the keeper withdraws the offer. A supervisor that gives up waiting closes
 * it. Each arrow of the keeper and the guard is one compare-and-set:
 *
 *	       keeper         guard
 *	NONE ──────────> MADE ──────> TAKEN
 *	  │              │ │ ^
 *	  │       keeper │ │ │ keeper: back in the queue
 *	  │              │ v │
 *	  │              │ WITHDRAWN
 *	  │ supervisor   │   │
 *	  └──────────────┴───┴──────> CLOSED
 */
enum offer {
	OFFER_NONE,
	OFFER_MADE,		/* by the keeper, with the event KEEPER_HELD */
	OFFER_TAKEN,		/* by the guard: the command is being started */
	OFFER_WITHDRAWN,	/* by the keeper: not taken in time; the next waiter's turn */
	OFFER_CLOSED,		/* by the supervisor: it has given up */
};

/* Why the guard stops the command, or does not start it: bits. */
enum ending {
	ENDING_LEASE = 1,	/* it was not renewed in time */
	ENDING_MAX_RUN = 2,	/* --max-run */
	ENDING_UNTIL = 4,	/* --until */
};

struct run_request;

struct shared {
	/*
	 * The lease is in the slots lease_count % 2, to which leases are written in turn. Read and
	 * written by the two functions below.
	 */
	_Atomic int64_t end_ms[2], ttl_ms[2];
	_Atomic unsigned int lease_count;
	_Atomic int offer;		/* enum offer */
	_Atomic uint64_t fence;		/* of the lock that is offered or held; 0: unknown */
	/*
	 * CLOCK_BOOTTIME before the command got the lock. 0: it has not, and then there is no
	 * minimum hold either.
	 */
	_Atomic int64_t held_ms;
	_Atomic int endings;		/* of enum ending, by the guard */
	_Atomic bool succeeded;		/* by the guard: the command ended by itself, with 0 */
	/* Why no command was executed, by the process that was to become it: errno, or 0. */
	_Atomic int exec_failure;
	struct error start_error;	/* why none was started, by the guard; once start_failed */
	_Atomic bool start_failed;
	_Atomic int64_t guard_dies_ms;	/* the kernel kills the guard then; CLOCK_NEVER: never */
	_Atomic int64_t guard_due_ms;	/* it kills the tree, and acts again by then; 0: not yet */
	_Atomic int command;		/* pid of the command; 0: not started yet */
	/* By the keeper: a request that may leave an entry was, or is about to be, sent. */
	_Atomic int engaged;
	_Atomic bool session;		/* of struct backend, by the keeper */
	_Atomic int64_t session_ms;	/* of struct backend, by the keeper */
	_Atomic int failure;		/* see ipc_share_failure() */
};

/*
 * For how many ms the lock is retained when it is released now: the rest of --once-per after a
 * success, and 10 s at least, so that each waiter reads of it; or the rest of --min-hold; 0 for a
 * lock that no command has used.
 */
int64_t shared_keep_ms(const struct shared *shared, const struct run_request *run);

/* When to stop the command for the lease: never with --on-lost warn, or without a lock. */
struct lease_stop shared_stop(const struct shared *shared, const struct run_request *run,
			      bool locked);

/* Take the offer. Returns whether it is taken, by this call or before. */
bool shared_take(struct shared *shared);

/*
 * Publish a lease. One process writes at a time: the supervisor before the first fork, then the
 * keeper. A reader gets the end and the TTL of the same lease, and never waits for the writer,
 * which may be killed or stopped at any point.
 */
void shared_set_lease(struct shared *shared, struct lease_span lease);
struct lease_span shared_lease(const struct shared *shared);
