/* SPDX-License-Identifier: MIT */
/*
 * What dlock writes into its nodes. The place says who holds or waits, as holder_encode() writes
 * it. The place's twin has the state of the place:
 * "state=held&taken=…&until=…&min=…&ttl=…", where numbers that are 0 are left out. Times
 * are in ms; taken and until are since the epoch, by the clock of the holder's host. With strategy
 * node, one node says both, and whose it is: "uuid=…&state=…&host=…". No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/holder.h"
#include "path.h"

enum zk_phase {
	/*
	 * As the place is made: it holds if it is the first in line. Otherwise its next
	 * step is to write ZK_WAITING, so nobody takes it for a waiter that does not answer.
	 */
	ZK_TRYING,
	/* It waits. When its turn has come, it holds as soon as it has written ZK_HELD. */
	ZK_WAITING,
	ZK_HELD,
	ZK_KEPT,		/* released, and taken for the rest of its minimum hold */
	ZK_UNKNOWN,		/* not written by dlock */
};

struct zk_state {
	enum zk_phase phase;
	int64_t since_ms;	/* acquired; 0: when the place was made */
	int64_t until_ms;	/* a keeper frees it then; 0: not by itself */
	int64_t min_ms;		/* minimum hold */
	int64_t ttl_ms;		/* of the session */
};

#define ZK_STATE_SIZE 200

/* Returns the length. */
size_t zk_state_write(const struct zk_state *state, char text[static ZK_STATE_SIZE]);

/* text is from a source that is not trusted: what makes no sense counts as absent. */
void zk_state_read(struct zk_state *state, const char *text, size_t length);

/* ---- strategy node ---- */

#define ZK_NODE_SIZE (sizeof("uuid=&&") + ZK_UUID_SIZE + ZK_STATE_SIZE + HOLDER_TEXT_SIZE)

/* who: as holder_encode() writes it. */
void zk_node_write(const char *uuid, const struct zk_state *state, const char *who,
		   char text[static ZK_NODE_SIZE]);
/* Is the node with this text that of uuid? */
bool zk_node_is(const char *text, const char *uuid);
/* Writes what old says with another state; old is such that zk_node_is() is true of it. */
void zk_node_rewrite(const char *old, const struct zk_state *state,
		     char text[static ZK_NODE_SIZE]);
