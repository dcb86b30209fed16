/* SPDX-License-Identifier: MIT */
/* Tests what shape a reply has. */
#pragma once

#include <stdbool.h>

struct redisReply;

bool redis_is_integer(const struct redisReply *reply);
bool redis_is_text(const struct redisReply *reply);

/*
 * Is reply an array that begins with elements of these types? A letter for each: 'i' an integer,
 * 's' a string, 'a' an array, '.' anything.
 */
bool redis_has_shape(const struct redisReply *reply, const char *shape);
