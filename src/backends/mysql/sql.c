/* SPDX-License-Identifier: MIT */
#include "sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static const struct sql_value *find(const struct sql_value *values, const char *key,
				    size_t length)
{
	for (; values && values->key; values++)
		if (strlen(values->key) == length && !memcmp(values->key, key, length))
			return values;
	return NULL;
}

/* The room that a value may need, with its quotes. */
static size_t room(const struct sql_value *value)
{
	return value->type == SQL_NUMBER ? 24 : 2 * value->length + 4;
}

static char *put(char *out, const struct sql_value *value)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = value->bytes;

	switch (value->type) {
	case SQL_NUMBER:
		return out + sprintf(out, "%" PRId64, value->number);
	case SQL_RAW:
		memcpy(out, bytes, value->length);
		return out + value->length;
	case SQL_IDENTIFIER:
		*out++ = '`';
		for (size_t i = 0; i < value->length; i++) {
			if (bytes[i] == '`')
				*out++ = '`';
			*out++ = (char)bytes[i];
		}
		*out++ = '`';
		return out;
	case SQL_BYTES:
		break;
	}
	*out++ = 'X';
	*out++ = '\'';
	for (size_t i = 0; i < value->length; i++) {
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 15];
	}
	*out++ = '\'';
	return out;
}

/* The next "{key}" in sql: its start, and in *end what follows it. NULL: none. */
static const char *next_key(const char *sql, const char **end)
{
	const char *start = strchr(sql, '{');

	*end = start ? strchr(start, '}') : NULL;
	return *end ? start : NULL;
}

char *sql_format(const char *sql, const struct sql_value values[])
{
	size_t size = strlen(sql) + 1;
	const struct sql_value *value;
	const char *start, *end, *rest;
	char *text, *out;

	for (rest = sql; (start = next_key(rest, &end)); rest = end + 1) {
		value = find(values, start + 1, (size_t)(end - start - 1));
		if (!value)
			return NULL;
		size += room(value);
	}
	text = out = memory_new(size, 1);
	for (rest = sql; (start = next_key(rest, &end)); rest = end + 1) {
		memcpy(out, rest, (size_t)(start - rest));
		out += start - rest;
		out = put(out, find(values, start + 1, (size_t)(end - start - 1)));
	}
	strcpy(out, rest);
	return text;
}
