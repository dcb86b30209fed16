/* SPDX-License-Identifier: MIT */
/*
 * The doors of the strategies row, advisory and table: locks of the server's own, which other
 * programs use, too. A client of dlock first takes the entry of the lock (entries.h), so that at
 * most one of them, or shared ones, is at the door. Whoever holds has both.
 *
 * The door lives with the connection that has passed it (my.conn), which is never opened again
 * while it does. A second one (my.side) writes the entry meanwhile. In a partition the server
 * cannot see that the holder is gone, so the session's wait_timeout is the TTL in whole seconds:
 * the server opens the door of a holder that it has not heard of for so long, and by then the
 * command is dead, because the lease counts from before the last proof was sent. A client that
 * sleeps at the door may be idle only for a few seconds until it has shown that it is awake, so
 * that one that hangs does not keep the door that it was given.
 *
 * When the connection breaks, the door is open at once, but the command takes time to die. The
 * entry keeps the next client of dlock out until its end, or until the holder removes it because
 * its command is dead.
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
	const char *nowait;		/* {nowait}, for exclusive ones */
	bool transaction;		/* the door ends with a transaction, too */
};

extern const struct door_kind door_row, door_advisory, door_table;

/* The lease of a hold with a door: the TTL in whole seconds, as wait_timeout has it. */
int64_t door_ttl_ms(const struct request *request);

/* Passes the door if it is open. HELD: it is ours. BUSY: another program has it. ERROR. */
enum outcome door_try(struct mysql_backend *my, const struct request *request, struct error *err);

/* Begins to sleep in the statement that passes the door, for at most HOLD_LOOK_MS. 0 or -1. */
int door_wait(struct mysql_backend *my, const struct request *request, struct error *err);

/* Receives the end of that statement. HELD: the door is ours. BUSY: try again. ERROR. */
enum outcome door_wake(struct mysql_backend *my, const struct request *request, struct error *err);

/* Shows the server that this session is alive, and sees that it has the door. HELD, LOST, ERROR. */
enum outcome door_prove(struct mysql_backend *my, const struct request *request, struct error *err);

/* Lets the next one in. HELD: the door was ours until then. LOST: it was not. */
enum outcome door_open(struct mysql_backend *my, const struct request *request, struct error *err);

/* Ends the connection, and with it the door and the wait for it. */
void door_drop(struct mysql_backend *my);

/*
 * Has a program passed the door? *number: its connection, where the server says that. Where it does
 * not, this tries to pass, for an instant. Uses my.side. 0 or -1.
 */
int door_probe(struct mysql_backend *my, const char *name, bool *taken, int64_t *number,
	       struct error *err);
