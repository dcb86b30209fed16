/* SPDX-License-Identifier: MIT */
/*
 * The environment variables that carry a hold to the command and the processes below it.
 *
 * Calling sequence, in the supervisor: environment_find_token(), to find out whether this is a run
 * inside a hold; environment_make() before the guard is forked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/token.h"

struct error;

/* Room for a fence's digits and a NUL. */
#define ENVIRONMENT_FENCE_SIZE 21

/*
 * This process's environment with DLOCK_NAME, DLOCK_TOKEN (with its level), DLOCK_BACKEND and
 * DLOCK_FENCE set, and with this hold and those around it in DLOCK_OUTER: "TOKEN: TOKEN:FENCE
 * ...", the innermost one first. *fence_text is where the fence's digits (20 and a NUL fit) are to
 * be written later. Allocated, never freed: it lives as long as the process.
 */
char **environment_make(const char *name, const char token[static TOKEN_SIZE], int level,
			const char *backend, char **fence_text);

/*
 * The same for a command that runs without the lock (--if-down run): DLOCK_NAME and
 * DLOCK_BACKEND alone, so that a script that starts itself again under dlock still sees
 * that it has, and that no hold of an outer run is taken for this one's.
 */
char **environment_make_without_hold(const char *name, const char *backend);

/*
 * Looks for a token of the lock name on backend (uri_identity()) in $DLOCK_TOKEN, and then in
 * $DLOCK_OUTER. *scope: TOKEN_OF_OTHER if there is none. Otherwise writes the token and its level.
 * 0, or -1 with ERROR_USAGE: $DLOCK_TOKEN is malformed.
 */
int environment_find_token(const char *name, uint64_t backend, char token[static TOKEN_SIZE],
			   int *level, enum token_scope *scope, struct error *err);

/* The fence of the hold that was found; 0: it is not known. */
uint64_t environment_fence(void);
