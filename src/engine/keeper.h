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

#include "child.h"
#include "keeper_process.h"
#include "message.h"

struct keeper {
	struct child child;	/* events */
	int hold_fd;		/* a copy of the grant's, once held; -1: none */
};

/* Fork the keeper, which copies *job. Returns 0, or -1 with ERROR_INTERNAL. */
int keeper_start(struct keeper *keeper, const struct job *job, enum keeper_mode mode,
		 struct error *err);

/* Receive the next event. False: there is none. KEEPER_GONE is the last one. */
bool keeper_event(struct keeper *keeper, struct keeper_event *event);

void keeper_order(struct keeper *keeper, enum keeper_order order);

/* Close hold_fd, if there is one. The last copy frees the lock. */
void keeper_drop_hold(struct keeper *keeper);
