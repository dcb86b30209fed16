/* SPDX-License-Identifier: MIT */
/*
 * The hold of another process, such as that of `dlock acquire`. A `dlock run` with a valid token
 * joins it. The nested run's keeper renews the hold every third of its TTL while the command runs,
 * publishes the lease's end for guard and supervisor, and neither acquires nor releases the lock.
 *
 * The keeper asks the daemon of the hold, if there is one, through its socket:
 *
 *	nested keeper			daemon
 *	JOIN		->	checks that the hold covers the request's mode, and renews
 *			<-	fence, lease and TTL; the connection is the share
 *	STAY		->	every third of the TTL: renews
 *			<-	lease and TTL
 *	VERIFY		->	when the command's tree is dead: is the lock still held?
 *
 * A nested `dlock acquire` asks once, with NEST, which verifies and renews. STAY and VERIFY are for
 * holds that live with the daemon's session or descriptors. For leases the keeper asks the backend.
 *
 * The nested run's keeper, guard and supervisor have the share until the tree is dead. Until then
 * the death of the daemon does not free a lock that lives in a descriptor, and a daemon whose
 * process has ended does not end. The nested keeper notices the daemon's end at once. The hold is
 * then lost if it lived with the daemon; otherwise the keeper asks the backend.
 */
#pragma once

#include "keeper_hold.h"

/* Join the hold, and send the result. Ends the process if it cannot be joined. */
void join_hold(struct keeping *k, struct grant *grant);

/* Renew, or verify. Ask the daemon for a hold that lives with it. */
enum outcome renew_joined(struct keeping *k, struct grant *grant, bool verify);

/* The command's tree is dead: send whether the lock was held until now, and end the process. */
void end_joined_and_exit(struct keeping *k) __attribute__((noreturn));

/*
 * For `dlock acquire` with a token: verify the hold, renew it for the longer of the requested TTL
 * and its own, write the fence to shared memory, send the result, and end the process. A lease that
 * has no end or lives with another process, which renews it, is not extended.
 */
void nest_and_exit(struct keeping *k) __attribute__((noreturn));
