/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of Redlock (redis.io, "Distributed locks with Redis"). Times are in ms, and are
 * passed in. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The least age, in ms, of a server whose INFO reports this uptime. The server computes the uptime
 * from two times that are both cut to whole seconds.
 */
int64_t redlock_age(int64_t uptime_s);

/*
 * May a node of this age vote? A node that was restarted may have forgotten a lock, which has ended
 * for certain once the node is as old as the longest TTL. -1: its age is not known.
 */
bool redlock_may_vote(int64_t age_ms, int64_t longest_ttl_ms);

/* What is counted in a round of acquisition; a node is counted once. */
struct redlock_votes {
	int nodes;
	int trusted;		/* of nodes that have been up for so long that no TTL matters */
	int granted;		/* all that have given the lock, with or without a vote */
	int busy;		/* somebody else has it there */
	int failed;		/* the node cannot be used */
};

/*
 * Is it certain, whatever the other nodes answer, that the lock is obtained, or that it cannot be
 * obtained? The latter takes an answer from a majority, or the certainty that no majority will
 * answer.
 */
bool redlock_decided(struct redlock_votes votes);

/*
 * In how many ms the wanted number of the nodes that are taken now will be free: left_ms has for
 * how long each of the count taken nodes stays taken (-1: without end), and is sorted. INT64_MAX:
 * never, as far as is known.
 */
int64_t redlock_free_in(int64_t left_ms[], size_t count, int wanted);
