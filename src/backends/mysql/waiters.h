/* SPDX-License-Identifier: MIT */
/*
 * Waiters that stand in no table: each sleeps in a statement, and says in a comment of it
 * who it is and what it waits for. The server's list of processes shows them.
 */
#ifndef DLOCK_MYSQL_WAITERS_H
#define DLOCK_MYSQL_WAITERS_H

#include "lock.h"

#define WAITERS_MARK_SIZE 440
#define WAITERS_COMMENT_SIZE (WAITERS_MARK_SIZE + HOLDER_TEXT_SIZE + 20)

/* What the comments of those have in common who wait for name by this strategy. */
void waiters_mark(const char *strategy, const char *name, char mark[static WAITERS_MARK_SIZE]);

/* The comment of one of them. */
void waiters_comment(const char *mark, const struct request *request,
		     char comment[static WAITERS_COMMENT_SIZE]);

/* Adds all that this account may see. 0 or -1. */
int waiters_view(struct mysql_backend *my, const char *mark, struct lock_view *view,
		 struct error *err);

/* mysql_run() over another connection, which is closed after it. */
int mysql_run_aside(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		    MYSQL_RES **rows, struct error *err);

/*
 * Has the server speak up after a while, for who waits for the end of a hold, which it does
 * not announce. 0 or -1.
 */
int waiters_watch(struct mysql_backend *my, struct error *err);

/*
 * Starts sql, which sleeps: my->conn.pending tells when its end has come. 0 or -1.
 */
int mysql_start(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		struct error *err);

/* Ends the statement that my->conn sleeps in, and the connection; returns when it is gone. */
void waiters_leave(struct mysql_backend *my);

#endif
