/* SPDX-License-Identifier: MIT */
/*
 * The environment variables that carry a hold to the command and the processes below it.
 *
 * Calling sequence, in the supervisor: environment_find_hold() and environment_is_guarded(), to
 * find out whether this is a run inside a run; environment_make() before the guard is forked.
 */
#pragma once

#include <stdbool.h>

#include "lock/token.h"

/* Room for a fence's digits and a NUL. */
#define ENVIRONMENT_FENCE_SIZE 21

/*
 * This process's environment with DLOCK_NAME, DLOCK_TOKEN, DLOCK_BACKEND and
 * DLOCK_FENCE set. *fence_text is where the fence's digits (20 and a NUL fit) are
 * to be written later. Allocated, never freed: it lives as long as the process.
 */
char **environment_make(const char *name, const char *token, const char *backend,
			char **fence_text);

/*
 * The same for a command that runs without the lock (--if-down run): DLOCK_NAME and
 * DLOCK_BACKEND alone, so that a script that starts itself anew under dlock still sees
 * that it has, and that no hold of an outer run is taken for this one's.
 */
char **environment_make_bare(const char *name, const char *backend);

/*
 * The token in $DLOCK_TOKEN, unless $DLOCK_NAME says that it is of another lock than
 * name. 1 if there is one, else 0.
 */
int environment_token(const char *name, char token[static TOKEN_SIZE]);

/* What an environment tells of a hold of a lock. */
enum environment_hold {
	ENVIRONMENT_NONE,
	/* A token without another lock's name. Only the backend knows if it holds this lock. */
	ENVIRONMENT_TOKEN,
	/* The token, with this name and this backend. */
	ENVIRONMENT_HOLD,
};

/*
 * Looks for a hold of name on backend in our environment, then, since each level of
 * nesting overwrites the last one's, in those of our ancestors. Unless there is none, writes
 * the token, and sets DLOCK_FENCE of this process to the hold's, or to "" if it is not known.
 */
enum environment_hold environment_find_hold(const char *name, const char *backend,
					    char token[static TOKEN_SIZE]);

/*
 * Is an ancestor of ours the command of a `dlock run` that holds name on backend with token,
 * so that this run ends us, too, when it loses the lock? Not so where the variables came
 * another way: by hand after `dlock acquire`, into a daemon, or from another host.
 */
bool environment_is_guarded(const char *name, const char *backend, const char *token);
