/* SPDX-License-Identifier: MIT */
/*
 * Putting values into the statements in sql/: "{key}" is a key. Bytes become a hexadecimal
 * literal, X'6a6f62', which means the same in every character set and sql_mode; names of tables
 * are put in back quotes. No I/O.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum sql_type {
	SQL_BYTES,
	SQL_NUMBER,
	SQL_IDENTIFIER,
	SQL_RAW,		/* trusted SQL, unchanged */
};

struct sql_value {
	const char *key;	/* NULL ends a list */
	enum sql_type type;
	const void *bytes;	/* unless the type is SQL_NUMBER */
	size_t length;
	int64_t number;
};

#define SQL_VALUE(KEY, TYPE, BYTES, LENGTH) \
	((struct sql_value){ .key = (KEY), .type = (TYPE), .bytes = (BYTES), .length = (LENGTH) })
#define SQL_BLOB(KEY, BYTES, LENGTH) SQL_VALUE(KEY, SQL_BYTES, BYTES, LENGTH)
#define SQL_TEXT(KEY, TEXT) SQL_VALUE(KEY, SQL_BYTES, TEXT, strlen(TEXT))
#define SQL_NAME(KEY, TEXT) SQL_VALUE(KEY, SQL_IDENTIFIER, TEXT, strlen(TEXT))
#define SQL_PART(KEY, TEXT) SQL_VALUE(KEY, SQL_RAW, TEXT, strlen(TEXT))
#define SQL_INT(KEY, NUMBER) \
	((struct sql_value){ .key = (KEY), .type = SQL_NUMBER, .number = (NUMBER) })
#define SQL_LAST ((struct sql_value){ .key = NULL })

/*
 * Returns the statement, which the caller frees. NULL: sql has a key that is not in values (NULL:
 * there are none), which is a bug.
 */
char *sql_format(const char *sql, const struct sql_value values[]);
