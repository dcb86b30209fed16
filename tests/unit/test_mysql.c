/* SPDX-License-Identifier: MIT */
/* What the MySQL backend computes without a server: statements with values. */
#include <stdlib.h>

#include "backends/sql/sql.h"
#include "unit.h"

static void put_bytes(FILE *out, const unsigned char *bytes, size_t length)
{
	fputs("X'", out);
	for (size_t i = 0; i < length; i++)
		fprintf(out, "%02x", bytes[i]);
	putc('\'', out);
}

static void test_format(void)
{
	static const struct sql_dialect dialect = { put_bytes, '`' };
	static const unsigned char all[] = { 0x00, 0x27, 0x5c, 0x60, 0xff };
	const struct sql_value values[] = {
		SQL_TEXT("name", "o'brien {n}"), SQL_BLOB("blob", all, sizeof(all)),
		SQL_TEXT("none", ""), SQL_INT("n", -9223372036854775807 - 1), SQL_INT("m", 7),
		SQL_NAME("table", "a`b``c"), SQL_PART("part", "q.x = {n}"), SQL_LAST
	};
	static const struct {
		const char *sql, *text;	/* NULL: refused */
	} rows[] = {
		{ "", "" },
		{ "SELECT 1", "SELECT 1" },
		{ "{m}", "7" },
		{ "{m}{m} {m}", "77 7" },
		{ "a = {name}, b = {blob}", "a = X'6f27627269656e207b6e7d', b = X'00275c60ff'" },
		{ "{none}", "X''" },
		{ "{n} + 1", "-9223372036854775808 + 1" },
		{ "FROM {table}", "FROM `a``b````c`" },
		/* a trusted part has keys of its own */
		{ "WHERE {part}", "WHERE q.x = -9223372036854775808" },
		{ "} {", "} {" },
		{ "{unknown}", NULL },
		{ "{m} {}", NULL },
		{ "{na}", NULL },
		{ "{names}", NULL },
	};
	char *text;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unit_case("%s", rows[i].sql);
		text = sql_format(&dialect, rows[i].sql, values);
		if (rows[i].text)
			CHECK_STR(text, rows[i].text);
		else
			CHECK(!text);
		free(text);
	}
}

int main(void)
{
	test_format();
	return unit_done();
}
