/* SPDX-License-Identifier: MIT */
/*
 * Tokens: 32 hex digits, one token for each acquisition.
 *
 *	digits	 0-11	random
 *		12-15	a hash of the lock's name
 *		16-19	a hash of the backend
 *		20-27	random
 *		28-31	a checksum of the digits before; for a token of `dlock acquire`, another one
 *
 * A nested `dlock acquire` prints the token of the outer hold with a level behind it: TOKEN+1, and
 * TOKEN+2 inside that. A level shows that the lock is not its owner's to release. No backend and no
 * keeper ever sees one.
 *
 * So $DLOCK_TOKEN alone shows which lock a process is inside, even after the hold. The checksum
 * shows whether the hold is that of a run, which nobody else may release while the command runs.
 * One of 65536 tokens of other programs matches each of these hashes by chance. The name of a
 * keeper's socket has the first 8 digits, so 48 random bits stay secret.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

#define TOKEN_SIZE 33		/* with the NUL */
#define TOKEN_LEVEL_MOST 999999
/* A token with its level. */
#define TOKEN_TEXT_SIZE (TOKEN_SIZE + sizeof("+999999") - 1)

/*
 * Make a token for the lock name on a backend (uri_identity()) from the kernel's random source.
 * Returns 0, or -1 with ERROR_INTERNAL.
 */
int token_make(char token[static TOKEN_SIZE], const char *name, uint64_t backend, bool of_run,
	       struct error *err);

/* Make 32 random digits, for a hold of dlock itself. Returns 0, or -1 with ERROR_INTERNAL. */
int token_make_random(char token[static TOKEN_SIZE], struct error *err);

/* Was the token made for a run? */
bool token_is_of_run(const char token[static TOKEN_SIZE]);

enum token_scope {
	TOKEN_OF_OTHER,		/* of a lock with another name, or made by another program */
	TOKEN_OF_NAME,		/* of a lock with this name, by another URI or on another backend */
	TOKEN_OF_LOCK,		/* of this lock */
};

/* Which lock was the token made for, compared with this one? */
enum token_scope token_scope(const char token[static TOKEN_SIZE], const char *name,
			     uint64_t backend);

/*
 * Read TOKEN or TOKEN+LEVEL. *level: 1 to TOKEN_LEVEL_MOST, or 0 for a plain token. Returns 0, or
 * -1 with ERROR_USAGE and nothing changed.
 */
int token_read(const char *text, char token[static TOKEN_SIZE], int *level, struct error *err);

/* Write a token, and its level unless that is 0. */
void token_write(const char token[static TOKEN_SIZE], int level,
		 char text[static TOKEN_TEXT_SIZE]);
