/* SPDX-License-Identifier: MIT */
/*
 * The dialect shedlock: a lock is a row of ShedLock's table (sql/shedlock.sql), whose column
 * locked_by begins with the digest of the token, before the holder record. Nobody wakes a waiter
 * when the lock becomes free: waiters look, less and less often.
 */
#pragma once

#include "entries.h"

/* Sets values for the texts: {zone}, {by}, and {owner}, the text of locked_by. */
void shedlock_add_params(struct mysql_backend *my, const struct request *request,
			 struct params *params);

/* Sets *text to the holder record that locked_by has. The caller frees it. */
void shedlock_read_owner(const char *locked_by, char **text);

int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err);
int shedlock_check(struct backend *backend, struct findings *findings, struct error *err);
