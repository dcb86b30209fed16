/* SPDX-License-Identifier: MIT */
/*
 * The strategies row, advisory and table: a lock of the server's own, which other programs can use,
 * too, is a door in front of the entry of the lock (entries.h). Whoever holds has both.
 *
 * The door lives with the connection that has passed it (my.conn). That connection waits for the
 * door and keeps it, and is never opened again while it does. A second one (my.side) writes the
 * entry. In a partition the server cannot see that the holder is gone, so the session's
 * wait_timeout is the TTL in whole seconds: the server opens the door of a holder that it has not
 * heard of for so long, and by then the command is dead, because the lease counts from before the
 * last proof was sent. A waiter may be idle only for a few seconds until it has shown that it is
 * awake, so that a waiter that hangs does not keep the door that it was given.
 *
 * When the connection breaks, the door is open at once, but the command takes time to die. The
 * entry stays until its end, or until the holder removes it because its command is dead. Whoever
 * has passed the door meanwhile waits with it for the end of that entry, and leaves that entry to
 * the next one if its own connection breaks.
 */
#pragma once

#include "run.h"

/*
 * How one strategy does it. Each text but ready, make and probe gives one row (struct door_answer);
 * LOCK TABLES does not.
 */
struct door_kind {
	const char *try_sql;
	const char *ready_sql, *wait_sql;	/* settings; then one statement that waits */
	const char *prove_sql;
	const char *open_sql;		/* lets the next one in */
	const char *make_sql;		/* makes what is to be locked; NULL: it has to be there */
	/* Fails with contention when the door is taken, or gives the number of its connection. */
	const char *probe_sql;
	const char *exclusive, *shared;	/* {clause} in the texts above */
	bool transaction;		/* the door ends with a transaction, too */
	bool nowait;			/* Oracle's server knows NOWAIT here, for exclusive ones */
};

struct door {
	struct mysql_backend my;
	enum { OUTSIDE, WAITING, PASSED, HOLDING } state;
	int64_t number;		/* of the connection that has passed */
	int64_t idle_s;		/* its wait_timeout */
	int64_t look_ms;	/* when a waiter looks again whether the server is alive */
	int64_t pause_ms;	/* the last one behind the entry of an earlier holder */
	uint64_t fence;
};

extern const struct door_kind door_row, door_advisory, door_table;
extern const struct backend_ops door_ops;

int door_check(struct backend *backend, struct findings *findings, struct error *err);
