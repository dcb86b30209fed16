/* SPDX-License-Identifier: MIT */
/*
 * The keeper: the only process that calls the backend. It acquires, renews and releases the lock.
 * It sends events to the supervisor over a socket, and writes the end of the lease into shared
 * memory. When the supervisor is killed, the keeper waits until the guard has ended the command,
 * and then releases the lock.
 *
 * Calling sequence, in the supervisor: keeper_start(); keeper_event() whenever child.fd is
 * readable; keeper_order(); keeper_event() until an event with last; child_end().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "lock/holder.h"
#include "backends/registry.h"
#include "child.h"
#include "run.h"

struct supervisor;

enum keeper_mode {
	KEEPER_ACQUIRE,		/* acquire, hold, release */
	KEEPER_NEST,		/* verify and renew the hold of the token: keeper_process.c */
	KEEPER_JOIN,		/* renew it for as long as the command runs: keeper_process.c */
	KEEPER_ADOPT,		/* a daemon for a hold that the supervisor acquired itself */
	KEEPER_KEEP,		/* retain the same hold for the rest of its minimum hold */
};

enum keeper_event_type {
	KEEPER_WAITING,		/* wait */
	KEEPER_RETRYING,	/* message: the backend cannot be reached; the keeper tries again */
	KEEPER_HELD,		/* the lock is offered: enum offer; an outer hold is held */
	KEEPER_WITHDRAWN,	/* the offer was not taken in time: KEEPER_ORDER_RETRY */
	KEEPER_BUSY,		/* not acquired; wait. The keeper ends */
	KEEPER_RENEWED,		/* lease extended after trouble */
	KEEPER_TROUBLE,		/* message: a renewal failed; the keeper tries again */
	KEEPER_LOST,		/* message: the token is not the holder */
	KEEPER_DETACHED,	/* the keeper is a daemon now; no event follows */
	/* Held until now. The keeper ends, or with keeps stays for the minimum hold. */
	KEEPER_RELEASED,
	KEEPER_FAILED,		/* kind, message. The keeper cleans up and sends it again */
	KEEPER_GONE,		/* the keeper's process is gone */
};

struct keeper_event {
	enum keeper_event_type type;
	bool last;		/* no event follows */
	bool keeps;
	struct wait_state wait;	/* without began_ms and down_since_ms */
	int64_t lease_ms;	/* nest: of the hold, from now; 0: until it is released */
	struct error error;	/* kind and message */
};

struct keeper {
	struct child child;	/* events */
	int hold_fd;		/* a copy of the grant's, once held; -1: none */
};

/* Return the event of an outcome: HELD, BUSY, LOST or FAILED. */
static inline enum keeper_event_type keeper_event_of(enum outcome outcome)
{
	static const enum keeper_event_type types[] = {
		[OUTCOME_HELD] = KEEPER_HELD, [OUTCOME_BUSY] = KEEPER_BUSY,
		[OUTCOME_LOST] = KEEPER_LOST, [OUTCOME_ERROR] = KEEPER_FAILED,
	};

	return types[outcome];
}

/* Run the keeper's process. fd: to the supervisor. */
void keeper_main(const struct supervisor *s, enum keeper_mode mode, int fd)
	__attribute__((noreturn));

/* Fork s->keeper, which copies *s. Returns 0, or -1 with ERROR_INTERNAL. */
int keeper_start(struct supervisor *s, enum keeper_mode mode, struct error *err);

/* Receive the next event. False: there is none. KEEPER_GONE is the last one. */
bool keeper_event(struct keeper *keeper, struct keeper_event *event);

enum keeper_order {
	KEEPER_ORDER_RELEASE,	/* release, or leave the queue and report the holder; and end */
	KEEPER_ORDER_RETRY,	/* after KEEPER_WITHDRAWN: queue again */
	KEEPER_ORDER_DETACH,	/* after the offer was taken: stay as a daemon */
};

void keeper_order(struct keeper *keeper, enum keeper_order order);

/* Close hold_fd, if there is one. The last copy frees the lock. */
void keeper_drop_hold(struct keeper *keeper);
