/* SPDX-License-Identifier: MIT */
/* Putting values into statements: sql.h. */
#include "sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const struct sql_value *find_value(const struct sql_value *values, const char *key,
					  size_t length)
{
	for (; values && values->key; values++)
		if (strlen(values->key) == length && !memcmp(values->key, key, length))
			return values;
	return NULL;
}

static void put_value(FILE *out, const struct sql_value *value)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = value->bytes;

	switch (value->type) {
	case SQL_NUMBER:
		fprintf(out, "%" PRId64, value->number);
		break;
	case SQL_RAW:
		fwrite(bytes, 1, value->length, out);
		break;
	case SQL_IDENTIFIER:
		putc('`', out);
		for (size_t i = 0; i < value->length; i++)
			fprintf(out, bytes[i] == '`' ? "``" : "%c", bytes[i]);
		putc('`', out);
		break;
	case SQL_BYTES:
		fputs("X'", out);
		for (size_t i = 0; i < value->length; i++) {
			putc(digits[bytes[i] >> 4], out);
			putc(digits[bytes[i] & 15], out);
		}
		putc('\'', out);
	}
}

/* Find the next "{key}" in sql. Returns its start and sets *end to its '}'; NULL: none. */
static const char *next_key(const char *sql, const char **end)
{
	const char *start = strchr(sql, '{');

	*end = start ? strchr(start, '}') : NULL;
	return *end ? start : NULL;
}

char *sql_format(const char *sql, const struct sql_value values[])
{
	const struct sql_value *value;
	const char *start, *end;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		memory_exit();
	for (; (start = next_key(sql, &end)); sql = end + 1) {
		fwrite(sql, 1, (size_t)(start - sql), out);
		value = find_value(values, start + 1, (size_t)(end - start - 1));
		if (!value)
			break;
		put_value(out, value);
	}
	fputs(sql, out);
	if (fclose(out))
		memory_exit();
	if (!start)
		return text;
	free(text);
	return NULL;
}
