/* SPDX-License-Identifier: MIT */
/* Tokens: 128 random bits, one per acquisition, as 32 hex digits. */
#ifndef DLOCK_TOKEN_H
#define DLOCK_TOKEN_H

#include <stdbool.h>

struct error;

#define TOKEN_SIZE 33		/* with the NUL */

/* Fills token from the kernel's random source. 0, or -1 with ERROR_INTERNAL. */
int token_make(char token[static TOKEN_SIZE], struct error *err);

/* Is text of the form that token_make() gives? */
bool token_valid(const char *text);

#endif
