/* SPDX-License-Identifier: MIT */
/* What the statements need of a request: whether its name fits, and its values. No I/O. */
#pragma once

#include "base/sha256.h"
#include "run.h"

/* Can the strategy lock a name of this length? 0, or -1 with *err. */
int mysql_check_name(const struct mysql_strategy *strategy, const char *name, struct error *err);

/* "STRATEGY:" and the name in hexadecimal digits, cut. */
#define WAITERS_MARK_SIZE 440

#define MYSQL_WORDS 40

/*
 * The values for the keys of a text. They point into the words themselves and into the request, so
 * words are not copied, and live no longer than the request.
 */
struct words {
	struct sql_value values[MYSQL_WORDS];
	unsigned char digest[SHA256_SIZE];	/* of the token */
	char owner[HOLDER_TEXT_SIZE];
	char waiter[WAITERS_MARK_SIZE + HOLDER_TEXT_SIZE + 20];
	char key[65];				/* a name in the server: session_request.c */
	char by[40];				/* begins locked_by of ShedLock: simple.c */
};

/*
 * Begins with {name}, {token}, {owner} (the holder's text, which notes owner_ttl_ms) and {usual}
 * (the TTL in microseconds of holds that note none).
 */
void words_begin(struct words *words, const struct request *request, int64_t owner_ttl_ms);

/* Adds values, up to SQL_LAST. A key that is there already gets the new value. */
void words_add(struct words *words, const struct sql_value values[]);

/* Adds {waiter}: the comment by which waiters_view() finds one who sleeps in a statement. */
void words_add_waiter(struct words *words, const struct mysql_strategy *strategy,
		      const struct request *request);

/* What the comments of all who wait for name by this strategy have in common. */
void waiters_mark(const struct mysql_strategy *strategy, const char *name,
		  char mark[static WAITERS_MARK_SIZE]);
