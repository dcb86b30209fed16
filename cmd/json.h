/* SPDX-License-Identifier: MIT */
/* JSON, written member by member. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct holder;

/* Starts out with its stream alone. */
struct json {
	FILE *stream;
	bool comma;		/* the next member or element needs a comma before it */
};

/* name is the member's name, or NULL for an element of an array and for the whole text. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);
/* Write only a string: bytes that are not UTF-8 become U+FFFD, controls are escaped. */
void json_string(FILE *to, const char *text);
/* NULL and "" become null. */
void json_text(struct json *json, const char *name, const char *text);
/* A negative number becomes null. */
void json_number(struct json *json, const char *name, int64_t number);
void json_bool(struct json *json, const char *name, bool value);
/* A time in the form of RFC 3339, in UTC with ms; 0 becomes null. */
void json_time(struct json *json, const char *name, int64_t wall_ms);
/* "expires_in_ms" and "expires_at" of a lease with lease_ms left; -1: it has no end. */
void json_lease(struct json *json, int64_t lease_ms);
/* The members host, pid, user, command and note of a holder or a waiter. */
void json_who(struct json *json, const struct holder *holder);
