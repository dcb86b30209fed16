/* SPDX-License-Identifier: MIT */
/* Tests of the form and meaning of replies. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct redisReply;

bool redis_is_text(const struct redisReply *reply);

/*
 * Is reply an array that begins with elements of these types? A letter for each: 'i' an integer,
 * 's' a string, 'a' an array, '.' anything.
 */
bool redis_has_shape(const struct redisReply *reply, const char *shape);

/* Is this the error of a server that is no master, or not yet? */
bool redis_is_no_master(const char *text);
/*
 * Is this the error of a script that has lost a key while it ran? Then a part of it was carried
 * out.
 */
bool redis_is_torn(const char *text);

/* Copy the value of a field of INFO to buf, and return buf; "": there is none. */
const char *redis_info_field(const char *info, const char *name, char *buf, size_t size);
