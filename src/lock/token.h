/* SPDX-License-Identifier: MIT */
/*
 * Tokens: 32 random hex digits, one token for each acquisition. The last four digits of a token of
 * `dlock run` are a checksum of the rest, which leaves 112 random bits. So on every backend the
 * token alone tells whether the hold is that of a run, which nobody else may release while the
 * command runs (see RELEASE_COUNTED in backend.h). One of 65536 tokens of other programs looks like
 * that of a run.
 */
#pragma once

#include <stdbool.h>

struct error;

#define TOKEN_SIZE 33		/* with the NUL */

/*
 * Makes a token that is not a run's from the kernel's random source. 0, or -1 with ERROR_INTERNAL.
 */
int token_make(char token[static TOKEN_SIZE], struct error *err);

/* Makes a token of a run. */
int token_make_for_run(char token[static TOKEN_SIZE], struct error *err);

/* Has token_make_for_run() made this token? */
bool token_is_of_run(const char token[static TOKEN_SIZE]);

/* Does text have the form of a token? */
bool token_valid(const char *text);
