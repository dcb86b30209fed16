/* SPDX-License-Identifier: MIT */
/*
 * The queue of a lock in the table dlock_entries: sql/entries.sql says how it works. Nobody is
 * given a lock: a release wakes the first two waiters, the first one takes the lock, and the second
 * one watches whether it does.
 *
 * tests/model/line.pml is the model of this queue. Its try() and take() are entries_take(), which
 * also removes a late waiter (leave()), its nap is entries_sleep(), and its release() is
 * entries_release(), whose KILL QUERY is send().
 */
#pragma once

#include "run.h"

/*
 * How a strategy stores its locks: texts with the same keys, and with the same columns in their
 * answers, as those of entries.sql.
 */
struct entries_texts {
	const char *try_sql;		/* NULL: there is no queue, and nobody wakes a waiter */
	const char *take_sql, *renew_sql, *release_sql, *keep_sql, *show_sql, *list_sql, *break_sql;
	/* Values for further keys; NULL: none. */
	void (*add_params)(struct mysql_backend *my, const struct request *request,
			   struct params *params);
	/* Sets *text to the holder record, which the caller frees; NULL: it is stored as it is. */
	void (*read_owner)(const char *stored, char **text);
};

/* What one request to take the lock found. */
struct entries_state {
	int64_t number;		/* the fence, if it is taken */
	bool excluded;		/* by those who hold; known when the queue was not empty */
	int64_t place;		/* of our entry */
	int64_t before;		/* entries before it, */
	int64_t waiting;	/* those of them that wait, */
	int64_t foreign;	/* and those of another home, whose release wakes nobody here */
	int64_t left_ms;	/* until the first lease before it ends; -1: there is none */
	int64_t late;		/* the place of a waiter before it that may hold; 0: none */
	char *newer;		/* the holder record of the waiter that replaced ours; or NULL */
};

/* The number of no connection: this entry would hold, but another program has the door (door.h). */
#define ENTRIES_AT_DOOR (-1)

/* How a request to take the lock differs from what struct request says. */
struct entries_how {
	bool fresh;		/* try first whether the queue is empty */
	bool queue;		/* leave an entry that waits */
	bool wake;		/* wake the first waiter before, or remove it if it has died */
	int64_t late;		/* remove this waiter, which is late; 0: nobody */
	/* 0: the connection of the request. Otherwise the one that has passed a door. */
	int64_t connection;
};

/* HELD, BUSY; LOST: a newer waiter has replaced ours; ERROR. The caller frees state->newer. */
enum outcome entries_take(struct mysql_backend *my, struct mysql_conn *conn,
			  const struct request *request, const struct entries_how *how,
			  struct entries_state *state, struct error *err);

/* Starts to sleep in the server for at most sleep_ms. 0 or -1. */
int entries_sleep(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		  int64_t place, int64_t sleep_ms, struct error *err);

/* As the slots of struct backend_ops, over conn. */
/* sooner: wake waiters, because the lease may end before the time that they know. */
enum outcome entries_renew(struct mysql_backend *my, struct mysql_conn *conn,
			   const struct request *request, bool sooner, struct error *err);
enum outcome entries_release(struct mysql_backend *my, struct mysql_conn *conn,
			     const struct request *request, struct error *err);
int entries_show(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		 struct rows *rows, struct error *err);

/* *connection: of the hold that was removed, if this account may end it; else 0. */
enum outcome entries_break(struct mysql_backend *my, struct mysql_conn *conn, const char *name,
			   const struct row *row, int64_t *connection, struct error *err);
