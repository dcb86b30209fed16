/* SPDX-License-Identifier: MIT */
/*
 * A `dlock run` inside a hold that another process keeps, such as that of `dlock acquire`, joins
 * the hold if it has a valid token, and if there is no outer run that would end this run when the
 * lock is lost. The nested run's keeper (keeper_join.c) renews the hold every third of its TTL
 * while the command runs, publishes the lease's end for guard and supervisor, and neither acquires
 * nor releases the lock.
 *
 * Where a daemon has the hold, the keeper asks it (keeper_share.c), through its socket:
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

/* ---- keeper_share.c: in the daemon ---- */

/* A daemon without a process: holds for this long from now, and no longer. */
void keeping_end_after(struct keeping *k, int64_t ttl_ms);

/*
 * Renews for a query. The hold's own TTL is ttl_ms from then on, and a daemon without a process
 * holds for this long from now. With keep_end an end that was later stays, because runs that have
 * joined rely on it.
 */
void keeping_extend(struct keeping *k, int64_t ttl_ms, bool keep_end, struct grant *grant,
		    struct keeper_reply *reply);

/* The daemon's answer to KEEPER_VERB_NEST: the lease is never made shorter. */
void keeping_nest_answer(struct keeping *k, const struct keeper_query *query, struct grant *grant,
			 struct keeper_reply *reply);

/*
 * The daemon's answers to KEEPER_VERB_JOIN and KEEPER_VERB_STAY; they close fd. OUTCOME_LOST: the
 * hold is lost.
 */
enum outcome keeping_join_answer(struct keeping *k, const struct keeper_query *query,
				 struct grant *grant, int fd);
enum outcome keeping_stay_answer(struct keeping *k, struct grant *grant, int fd);

/*
 * The daemon is to release, and no run can join any more. True: not yet, for runs have joined;
 * keeping_rest() returns WAKE_RELEASE again when the last one has ended.
 */
bool keeping_leave(struct keeping *k);

/* Are there runs that have joined and go on? */
bool keeping_has_members(struct keeping *k);
