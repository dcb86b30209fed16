/* SPDX-License-Identifier: MIT */
/*
 * The environment variables that carry a hold to the command and the processes below it.
 *
 * Calling sequence, in the supervisor: environment_find_token() to find an outer hold;
 * environment_make() before the guard is forked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/token.h"

struct error;

/* Room for a fence's digits and a NUL. */
#define ENVIRONMENT_FENCE_SIZE 21

/*
 * Copy this process's environment, and set DLOCK_NAME, DLOCK_TOKEN (with its level), DLOCK_BACKEND,
 * DLOCK_FENCE, and DLOCK_OUTER with the tokens of this hold and its outer ones, the innermost one
 * first. The caller writes the fence's digits (20 and a NUL fit) to *fence_text later. Never freed.
 *
 * Without token, for a command that runs without the lock (--if-down run), with DLOCK_NAME and
 * DLOCK_BACKEND alone. A script that starts itself under dlock still finds that it has, and does
 * not use the hold of an outer run.
 */
char **environment_make(const char *name, const char *token, int level, const char *backend,
			char **fence_text);

/*
 * Find a token of the lock name on backend (uri_identity()) in $DLOCK_TOKEN and $DLOCK_OUTER. Sets
 * *scope to TOKEN_OF_OTHER if there is none, and otherwise the token and its level. Returns 0, or
 * -1 with ERROR_USAGE: $DLOCK_TOKEN is malformed.
 */
int environment_find_token(const char *name, uint64_t backend, char token[static TOKEN_SIZE],
			   int *level, enum token_scope *scope, struct error *err);
