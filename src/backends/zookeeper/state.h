/* SPDX-License-Identifier: MIT */
/*
 * What dlock writes into its nodes. A place has who holds or waits, as holder_encode() has
 * it; its twin the state of the place: "state=held&count=2&taken=…&until=…&min=…&ttl=…",
 * where numbers that are 0 are left out. Times are ms, taken and until by the clock of the
 * holder's host since the epoch. With strategy node, one node has both, and its uuid. No
 * I/O.
 */
#ifndef DLOCK_ZOOKEEPER_STATE_H
#define DLOCK_ZOOKEEPER_STATE_H

#include <stddef.h>
#include <stdint.h>

enum zk_phase {
	/*
	 * As it is made: it holds if it is first, and says so here if it is not, before
	 * anything else. So nobody else may take it for a waiter that does not answer.
	 */
	ZK_TRYING,
	/* It waits; once it is its turn, it holds as soon as it has written ZK_HELD. */
	ZK_WAITING,
	ZK_HELD,
	ZK_KEPT,		/* released, and taken for the rest of its least time */
	ZK_UNKNOWN,		/* not written by dlock */
};

struct zk_state {
	enum zk_phase phase;
	int64_t count;		/* how often it was acquired */
	int64_t since_ms;	/* acquired; 0: when the place was made */
	int64_t until_ms;	/* a keeper frees it then; 0: not by itself */
	int64_t min_ms;		/* least time to hold */
	int64_t ttl_ms;		/* of the session */
};

#define ZK_STATE_SIZE 200

/* Returns the length. */
size_t zk_state_write(const struct zk_state *state, char text[static ZK_STATE_SIZE]);

/* From a source that is not trusted: what makes no sense is left as it would be when absent. */
void zk_state_read(struct zk_state *state, const char *text, size_t length);

#endif
