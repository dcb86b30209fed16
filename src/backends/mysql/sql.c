/* SPDX-License-Identifier: MIT */
/* Putting values into statements: sql.h. */
#include "sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Returns the value for the key at which text begins; NULL: there is none. */
static const struct sql_value *find_value(const struct sql_value *values, const char *text)
{
	size_t length;

	for (; values && values->key; values++) {
		length = strlen(values->key);
		if (!strncmp(text, values->key, length) && text[length] == '}')
			return values;
	}
	return NULL;
}

static void put_value(FILE *out, const struct sql_value *value)
{
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
		for (size_t i = 0; i < value->length; i++)
			fprintf(out, "%02x", bytes[i]);
		putc('\'', out);
	}
}

char *sql_format(const char *sql, const struct sql_value values[])
{
	const struct sql_value *value;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		memory_exit();
	for (; *sql; sql++) {
		if (*sql != '{' || !strchr(sql, '}')) {
			putc(*sql, out);
			continue;
		}
		value = find_value(values, sql + 1);
		if (!value)
			break;
		put_value(out, value);
		sql += strlen(value->key) + 1;
	}
	if (fclose(out))
		memory_exit();
	if (!*sql)
		return text;
	free(text);
	return NULL;
}
