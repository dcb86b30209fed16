/* SPDX-License-Identifier: MIT */
/*
 * A `dlock run` inside a hold that another process keeps, such as that of `dlock acquire`, joins
 * the hold if it has a valid token, and if there is no outer run that would end this run when the
 * lock is lost. The nested run's keeper (keeper_join.c) renews the hold every third of its TTL
 * while the command runs, publishes the lease's end for guard and supervisor, and neither acquires
 * nor releases the lock.
 *
 * Where a daemon has the hold, the keeper asks it (keeper_daemon.c), through its socket:
 *
 *	nested keeper			daemon
 *	JOIN		->	checks that the hold covers what is asked for, and renews
 *			<-	fence, lease and TTL; the connection is the share (keeper_socket_join())
 *	STAY		->	every third of the TTL: renews
 *			<-	lease and TTL
 *	VERIFY		->	when the command's tree is dead: is the lock still held?
 *
 * A nested `dlock acquire` asks once, with NEST, which verifies and renews. STAY and VERIFY are for
 * holds that live with the daemon's session or descriptors. For leases the keeper asks the backend.
 *
 * The nested run's keeper, guard and supervisor have the share until the tree is dead. While any of
 * them has it, the death of the daemon frees no lock that lives in a descriptor, and a daemon whose
 * process has ended does not end yet. The nested keeper notices the daemon's end at once. The hold
 * is then lost if it lived with the daemon; else the keeper asks the backend.
 */
#pragma once

#include <stdbool.h>

#include "keeping.h"

/* ---- keeper_join.c: in the nested run's keeper ---- */

/* Joins the hold, and tells what came of it. Ends the process if it cannot be joined. */
void keeping_join(struct keeping *k, struct grant *grant);

/*
 * For `dlock acquire` with a token: verifies the hold, renews it for the longer of the TTL that was
 * asked for and its own, tells what came of it, with the fence in shared memory, and ends the
 * process.
 */
void keeping_nest(struct keeping *k) __attribute__((noreturn));

/* As the backend's renew() and verify(): asks the daemon where the hold lives with that. */
enum outcome keeping_renew_joined(struct keeping *k, struct grant *grant);
enum outcome keeping_verify_joined(struct keeping *k);

/* The command's tree is dead: tells whether the lock was held until now, and ends the process. */
void keeping_end_joined(struct keeping *k) __attribute__((noreturn));

/* ---- keeper_daemon.c ---- */

/*
 * The daemon is to release, and no run can join any more. True: not yet, for runs have joined;
 * keeping_rest() returns WAKE_RELEASE again when the last one has ended.
 */
bool keeping_leave(struct keeping *k);
