/* SPDX-License-Identifier: MIT */
/*
 * The dialect shedlock: a lock is a row of ShedLock's table (sql/shedlock.sql), whose column
 * locked_by begins with the digest of the token, before the holder record. Waiters poll.
 */
#pragma once

#include "run.h"

/* Set values for the statements: {zone}, and {owner} cut to the room of the column. */
void shedlock_set_values(struct call *call);

int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err);
int shedlock_check(struct backend *backend, struct findings *findings, struct error *err);
