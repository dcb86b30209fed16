/* SPDX-License-Identifier: MIT */
/*
 * The queue of a lock in the table dlock_entries, which sql/entries.sql describes. A release wakes
 * the first waiter, which takes the lock, and if that one does not look at the queue, the second
 * one, which watches whether it does.
 *
 * tests/model/line.pml is the model of this queue. Its try() and take() are entries_take(), which
 * also removes a late waiter (leave()), its nap is entries_sleep(), and its release() is
 * entries_release(), whose KILL QUERY is send(). A second one is not told when the first has come.
 */
#pragma once

#include "run.h"

/*
 * How a strategy stores its locks: statements with the keys and the columns of those in
 * entries.sql.
 */
struct entries_statements {
	const char *try_sql;		/* NULL: there is no queue, and waiters poll */
	const char *take_sql, *renew_sql, *release_sql, *keep_sql, *show_sql, *list_sql, *break_sql;
	/* Values for further keys; NULL: none. */
	void (*add_params)(struct mysql_backend *my, const struct request *request,
			   struct params *params);
	/* Sets *text to the holder record, which the caller frees; NULL: it is the column. */
	void (*read_owner)(const char *stored, char **text);
};

/* The result of a request to take the lock. */
struct entries_state {
	int64_t number;		/* the fence, if it is taken */
	bool excluded;		/* by holders; known if the queue was not empty */
	int64_t position;	/* of our entry */
	int64_t before;		/* entries before it, */
	int64_t waiting;	/* those of them that wait, */
	int64_t foreign;	/* and of another home, whose release wakes nobody here */
	int64_t left_ms;	/* until the first lease before it ends; -1: there is none */
	int64_t late;		/* position of a waiter before it that may hold; 0: none */
	char *newer;		/* the holder record of the waiter that replaced ours; or NULL */
};

/* For entries_how.connection: the entry is first, but another program has the door (door.h). */
#define ENTRIES_AT_DOOR (-1)

/* Options of a request to take the lock, beside struct request. */
struct entries_how {
	bool fresh;		/* first try for an empty queue */
	bool wake;		/* before, wake the first waiter, or remove it if it is dead */
	int64_t late;		/* remove this waiter, which is late; 0: nobody */
	/* 0: the connection of the request. Otherwise one that has passed a door. */
	int64_t connection;
};

/* Try to take the lock. LOST: a newer waiter has replaced ours. The caller frees state->newer. */
enum outcome entries_take(struct mysql_backend *my, struct mysql_conn *conn,
			  const struct request *request, const struct entries_how *how,
			  struct entries_state *state, struct error *err);

/* Begin to sleep in the server for at most sleep_ms. Returns 0 or -1. */
int entries_sleep(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		  int64_t position, int64_t sleep_ms, struct error *err);

/*
 * After the sleep: wait until nobody can interrupt another request instead of it. Returns 0, or -1
 * and closes conn.
 */
int entries_awake(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		  int64_t position, struct error *err);

/* As the slots of struct backend_ops, over conn. */
enum outcome entries_renew(struct mysql_backend *my, struct mysql_conn *conn,
			   const struct request *request, struct error *err);
enum outcome entries_release(struct mysql_backend *my, struct mysql_conn *conn,
			     const struct request *request, struct error *err);
int entries_show(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		 struct rows *rows, struct error *err);

/* *connection: of the hold that was removed, if this account may end it; else 0. */
enum outcome entries_break(struct mysql_backend *my, struct mysql_conn *conn, const char *name,
			   const struct row *row, int64_t *connection, struct error *err);
