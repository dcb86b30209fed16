/* SPDX-License-Identifier: MIT */
/*
 * A round: the same request to all nodes at once, in one poll loop. The round ends when the outcome
 * is decided or when node-timeout is over, so that a node that is dead, cut off or slow costs no
 * more time than that. While fewer nodes than a majority have answered, the round goes on, up to
 * the timeout of a request, because there is no outcome without a majority.
 *
 * An answer that comes after the end of its round is dropped, and is never taken for the answer to
 * a later request. A request of which nothing has left this process at the end of its round is
 * taken back. A node may carry out any other request at any time, but before everything that is
 * sent later.
 */
#pragma once

#include "redlock.h"

#define REDLOCK_ARGUMENTS 8

struct redlock_call {
	const char *what;			/* the script is to do; NULL: command */
	/* Of the script, behind the token (redis/lua/common.lua); they end with NULL. */
	const char *arguments[REDLOCK_ARGUMENTS];
	const char *token;
	/* Ends with NULL. NULL: the nodes are only to be reached. */
	const char *const *command;
	bool wake;				/* over the other connection */
	unsigned nodes;				/* a bit for each node that is asked; 0: all */
	int least;				/* the round goes on until so many answered */
	int64_t timeout_ms;			/* instead of that of a request; 0: that one */
	bool takes;				/* the lock, so that a release must follow */
	/* Is the outcome decided? NULL: not before all have answered. */
	bool (*decided)(const struct redlock *lock, const void *state);
	const void *state;
};

/*
 * Runs a round. Afterwards the state of each node that was asked is NODE_ANSWERED, NODE_FAILED, or
 * NODE_ASKED when its answer did not come; replies live until the next round. An error reply is a
 * failure, and so is the second answer of a server that two nodes lead to. 0, or -1 with
 * ERROR_CANCELLED.
 */
int redlock_round(struct redlock *lock, const struct redlock_call *call, struct error *err);

/* The number of nodes that are in this state after a round. */
int redlock_count(const struct redlock *lock, enum redlock_state state);

/*
 * Connects to the nodes, and asks them for command, which ends with NULL, or for nothing where it
 * is NULL. 0; -1 with *err: no majority is there within the time for connecting.
 */
int redlock_reach(struct redlock *lock, const char *const *command, struct error *err);

/*
 * Sets *err after a round in which so many nodes have answered in a way that counts, when that is
 * no majority: how many did, and what one of the others said. Returns -1.
 */
int redlock_no_majority(const struct redlock *lock, int answered, struct error *err);
