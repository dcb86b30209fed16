/* SPDX-License-Identifier: MIT */
/*
 * Limits on one reply of a server. hiredis keeps a reply in memory until it is complete, and
 * allocates as many elements as a reply announces, so each byte is counted here first. No I/O.
 */
#pragma once

#include <stddef.h>

/* A lock with 50,000 waiters fits. A keeper that reads such a reply takes less than 64 MiB. */
#define REDIS_MOST_BYTES (16 << 20)
#define REDIS_MOST_ELEMENTS (1 << 18)
/* Of a status, an error or a number. Error texts are the longest. */
#define REDIS_MOST_LINE (64 << 10)

/* The received part of the present reply. Zeroed for a new connection. */
struct redis_limit {
	size_t bytes, elements;
	size_t due;		/* announced elements that have not begun */
	size_t skip;		/* bytes of a string that are still to come */
	size_t length;		/* of the present line */
	char line[24];		/* its beginning; no announcement is longer */
	char last;		/* the byte before */
};

/*
 * Count the next bytes. Returns NULL, or what is wrong with them, for "SERVER: ..."; hiredis must
 * not get them then.
 */
const char *redis_limit_pass(struct redis_limit *limit, const char *data, size_t length);
