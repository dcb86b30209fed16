/* SPDX-License-Identifier: MIT */
/*
 * Waiters that are in no table. Each sleeps in a statement, and a comment in that statement says
 * who the waiter is and what it waits for (see words_add_waiter()). The server's process list shows
 * these statements.
 */
#pragma once

#include "run.h"

/* Adds all who wait for name, as far as this account may see them. 0 or -1. */
int waiters_view(struct mysql_backend *my, const char *name, struct lock_view *view,
		 struct error *err);

/*
 * Has the server answer after a while, for a client that waits for the end of a hold, which the
 * server does not announce. 0 or -1.
 */
int waiters_watch(struct mysql_backend *my, struct error *err);

/*
 * Ends the statement that my->conn sleeps in for the request, and the connection; returns when it
 * is gone.
 */
void waiters_leave(struct mysql_backend *my, const struct request *request);
