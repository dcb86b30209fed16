/* SPDX-License-Identifier: MIT */
/*
 * The data that dlock stores in an entry of the queue, or in the node of strategy node:
 * "state=held&taken=…&uuid=…&" and the holder record. Only strategy node writes uuid, because its
 * node's name has none. taken is when a waiter began to hold, in ms since the epoch by its host's
 * clock; 0: when the node was made. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/holder.h"
#include "path.h"

enum zk_state {
	/*
	 * As the entry is made. It holds if no entry blocked it when it was made. Otherwise its
	 * client writes ZK_WAITING next, or ZK_HELD.
	 */
	ZK_NEW,
	ZK_WAITING,		/* holds only after it has written ZK_HELD */
	ZK_HELD,
	ZK_FOREIGN,		/* not written by dlock */
};

struct zk_record {
	enum zk_state state;
	int64_t taken_ms;
	bool mine;		/* it has the uuid that zk_record_read() was given */
};

#define ZK_RECORD_SIZE (ZK_UUID_SIZE + 64 + HOLDER_TEXT_SIZE)

/* uuid: NULL in the queue. text: as holder_encode() writes it. */
void zk_record_write(char data[static ZK_RECORD_SIZE], const char *uuid, enum zk_state state,
		     int64_t taken_ms, const char *text);

/* Read data, which is not trusted. NULL counts as empty. */
void zk_record_read(struct zk_record *record, const char *data, const char *uuid);
