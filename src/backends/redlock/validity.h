/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of Redlock (redis.io, "Distributed locks with Redis"). Times are in ms, and are
 * passed in. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts of nodes in a round of acquisition. */
struct redlock_votes {
	/*
	 * That have given the lock and may vote: a restarted node may have lost a lock, which has
	 * certainly ended once the node is as old as the longest TTL.
	 */
	int trusted;
	int granted;		/* that have given the lock, with or without a vote */
	int busy;		/* where somebody else has it */
	int failed;		/* that cannot be used */
};

/*
 * Is it certain, whatever the other nodes answer, that the lock is acquired, or that it cannot be?
 * The latter needs an answer from a majority, or the certainty that no majority will answer.
 */
bool redlock_decided(int nodes, struct redlock_votes votes);

/*
 * Returns in how many ms the wanted number of count taken nodes will be free. left_ms has the time
 * left of each (-1: no end), and gets sorted. INT64_MAX: no such time is known.
 */
int64_t redlock_free_in(int64_t left_ms[], size_t count, int wanted);
