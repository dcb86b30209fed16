/* SPDX-License-Identifier: MIT */
/*
 * Tokens: 32 hex digits, one token per acquisition, random. Those that `dlock run` makes differ
 * from all others: their last four digits are a checksum of the rest, which leaves 112 random
 * bits. So whoever sees a token knows whether a run holds the lock with it, and must not be
 * robbed of it while its command runs (see RELEASE_COUNTED in backend.h), without asking anybody
 * and on every backend. A token that another program has made looks like a run's once in 65536.
 */
#ifndef DLOCK_TOKEN_H
#define DLOCK_TOKEN_H

#include <stdbool.h>

struct error;

#define TOKEN_SIZE 33		/* with the NUL */

/*
 * Fills token, with one that is not a run's, from the kernel's random source. 0, or -1 with
 * ERROR_INTERNAL.
 */
int token_make(char token[static TOKEN_SIZE], struct error *err);

/* The same, for a hold that ends with a command. */
int token_make_for_run(char token[static TOKEN_SIZE], struct error *err);

/* Has token_make_for_run() made this token? */
bool token_is_of_run(const char token[static TOKEN_SIZE]);

/* Is text of the form that token_make() gives? */
bool token_valid(const char *text);

#endif
