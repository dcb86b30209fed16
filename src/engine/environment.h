/* SPDX-License-Identifier: MIT */
/*
 * The environment variables that carry a hold to the command and the processes below it.
 *
 * Calling sequence: in the supervisor, environment_find_token() to find an outer hold, and
 * environment_set_hold() before the guard is forked; in the guard, environment_write_fence(), or
 * environment_drop_hold() for a command that runs without the lock. These take no memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/token.h"

/*
 * Set in the environment of this process DLOCK_NAME, DLOCK_BACKEND, DLOCK_TOKEN (with its level),
 * an empty DLOCK_FENCE, and DLOCK_OUTER with the tokens of this hold and its outer ones, the
 * innermost one first.
 */
void environment_set_hold(const char *name, const char *backend, const char *token, int level);

/* After environment_set_hold(): write the digits of DLOCK_FENCE; 0: the fence is unknown. */
void environment_write_fence(uint64_t fence);

/*
 * After environment_set_hold(): remove its token, and the fence. A script that starts itself under
 * dlock still finds by DLOCK_NAME that it has. DLOCK_OUTER has the holds of outer runs, which must
 * not be waited for.
 */
void environment_drop_hold(bool with_fence);

/*
 * Find a token of the lock name on backend (uri_identity()) in $DLOCK_TOKEN and $DLOCK_OUTER. Sets
 * *scope to TOKEN_OF_OTHER if there is none, and otherwise the token and its level. Returns 0, or
 * -1 with ERROR_USAGE: $DLOCK_TOKEN is malformed.
 */
int environment_find_token(const char *name, uint64_t backend, char token[static TOKEN_SIZE],
			   int *level, enum token_scope *scope, struct error *err);
