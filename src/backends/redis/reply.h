/* SPDX-License-Identifier: MIT */
/* Tests what shape a reply has. */
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

/* Whether this is the error of a server that is no master, or not yet. */
bool redis_is_no_master(const char *text);
/*
 * Whether this is the error of a script that has lost a key while it ran: a part of it has been
 * carried out.
 */
bool redis_is_torn(const char *text);

/* Copies the value of a field of INFO to buf, and returns buf; "": there is none. */
const char *redis_info_field(const char *info, const char *name, char *buf, size_t size);
