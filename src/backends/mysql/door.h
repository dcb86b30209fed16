/* SPDX-License-Identifier: MIT */
/*
 * The doors of the strategies row, advisory and table: the server's own locks, which other programs
 * use, too. A client of dlock first takes the entry of the lock (sql/entries.sql), so that only one
 * of them, or shared ones, is at the door. A holder has both.
 *
 * The door lives with the connection that has passed it (my.conn), which does not reconnect while
 * it does. A second one (my.side) writes the entry. In a partition the server cannot detect that
 * the holder is gone, so the session's wait_timeout is the TTL in whole seconds. The server opens
 * the door of a holder from which it has received nothing for this time. By then the command is
 * dead, because the lease counts from before the last proof was sent. A client that has slept at
 * the door has only a few seconds to show that it is awake, so that one that hangs does not keep
 * the door.
 *
 * When the connection breaks, the door is open at once, but the command takes time to die. The
 * entry keeps the next client of dlock out until it ends, or until the holder removes it after the
 * death of its command.
 */
#pragma once

#include "run.h"

/* The statements of one strategy. */
struct door_kind {
	/* Before pass_sql. If it is not empty, it begins the transaction that the door lives in. */
	const char *begin_sql;
	/*
	 * Waits until the door is passed, and then gives a row with 1. After {limit} s it gives 0
	 * or an error. A client that sleeps sends it in a packet of its own, so that no answer
	 * precedes the end of the sleep.
	 */
	const char *pass_sql;
	const char *prove_sql;		/* gives the row of enum answer */
	const char *open_sql;		/* lets the next client in */
	/* Fails by its limit when the door is taken, or gives the number of its connection. */
	const char *probe_sql;
	const char *exclusive, *shared;	/* {clause} in the statements above */
};

extern const struct door_kind door_row, door_advisory, door_table;

/* Returns the lease of a hold with a door: the TTL in whole seconds, for wait_timeout. */
int64_t door_ttl_ms(const struct request *request);

/* Pass the door if it is open. HELD: it is ours. BUSY: another program has it. */
enum outcome door_try(struct mysql_backend *my, const struct request *request, struct error *err);

/* Begin to sleep in the statement that passes the door, for HOLD_RETRY_MS at most. 0 or -1. */
int door_wait(struct mysql_backend *my, const struct request *request, struct error *err);

/* Receive the end of that statement. HELD: the door is ours. BUSY: it is not. */
enum outcome door_wake(struct mysql_backend *my, const struct request *request, struct error *err);

/* Prove to the server that this session is alive, and check that it has the door: HELD or LOST. */
enum outcome door_prove(struct mysql_backend *my, const struct request *request, struct error *err);

/* Let the next client in. HELD: the door was ours until then. LOST: it was not. */
enum outcome door_open(struct mysql_backend *my, const struct request *request, struct error *err);

/* End the connection, and with it the door and the wait for it. */
void door_drop(struct mysql_backend *my);

/*
 * Has a program passed the door? *number: its connection, if the server reports it. If not, tries
 * to pass, for an instant. Uses my.side. Returns 0 or -1.
 */
int door_probe(struct mysql_backend *my, const char *name, bool *taken, int64_t *number,
	       struct error *err);
