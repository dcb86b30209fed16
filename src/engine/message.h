/* SPDX-License-Identifier: MIT */
/* What the processes of a run send each other: orders of the supervisor, and events to it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lock/backend.h"
#include "request.h"

/* ---- the keeper ---- */

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
	KEEPER_GONE,		/* message: how its process has ended, or what has failed */
};

struct keeper_event {
	enum keeper_event_type type;
	bool last;		/* no event follows */
	bool keeps;
	struct wait_state wait;	/* without began_ms and down_since_ms */
	int64_t lease_ms;	/* nest: of the hold, from now; 0: until it is released */
	struct error error;	/* kind and message */
};

enum keeper_order {
	KEEPER_ORDER_RELEASE,	/* release, or leave the queue and report the holder; and end */
	KEEPER_ORDER_RETRY,	/* after KEEPER_WITHDRAWN: queue again */
	KEEPER_ORDER_DETACH,	/* after the offer was taken: stay as a daemon */
};

/* Return the event of an outcome: HELD, BUSY, LOST or FAILED. */
static inline enum keeper_event_type keeper_event_of(enum outcome outcome)
{
	return outcome == OUTCOME_HELD ? KEEPER_HELD
	       : outcome == OUTCOME_BUSY ? KEEPER_BUSY
	       : outcome == OUTCOME_LOST ? KEEPER_LOST : KEEPER_FAILED;
}

/* ---- the guard ---- */

/* How late the guard may be before the supervisor ends it, and acts. */
#define GUARD_GRACE_MS 500

/* Events are dropped while a supervisor does not read them, except for the last one. */
enum guard_event_type {
	GUARD_STOPPED,		/* value: the signal that stopped the command */
	GUARD_ENDING,		/* the command is stopped, or not begun: struct shared, endings */
	GUARD_EXITED,		/* value: wait status of the command */
	GUARD_LEFTOVERS,	/* value: number of processes that the command left; they are */
				/* ended, waited for or left */
	GUARD_STUCK,		/* value: pid of a process that it may not signal */
	GUARD_EMPTY,		/* the tree is dead */
	GUARD_GONE,		/* the guard's process has ended */
};

struct guard_event {
	enum guard_event_type type;
	int value;
	bool last;		/* the tree is dead */
};

struct guard_order {
	int sig;		/* to pass on; 0: start the command */
	bool group;		/* the signal is for the command's process group */
	bool locked;		/* the command runs under the lock */
};
