/* SPDX-License-Identifier: MIT */
/* JSON, written to stdout member by member. */
#ifndef DLOCK_JSON_H
#define DLOCK_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* Where we are; start with a zeroed one. */
struct json {
	bool comma;		/* the next member or element needs one before it */
};

/* name: NULL for elements of an array and for the outermost. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);
/* NULL or "": null. Bytes that are not UTF-8 come out as U+FFFD. */
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, int64_t number);
/* absent when negative: null */
void json_maybe(struct json *json, const char *name, int64_t number);
void json_bool(struct json *json, const char *name, bool value);
/* An instant as RFC 3339 in UTC with ms; 0: null. */
void json_time(struct json *json, const char *name, int64_t wall_ms);

#endif
