/* SPDX-License-Identifier: MIT */
/*
 * LOCK TABLES on the table that is called as the lock is, for work on just that table:
 * whoever wants to write to it, or with WRITE also to read it, waits as dlock does.
 */
#include "session.h"

#include "base/error.h"

extern const struct mysql_strategy mysql_table;

/* Identifiers have at most so many characters (MySQL manual, "Schema Object Names"). */
#define TABLE_NAME_CHARACTERS 64

static int admit(const char *name, struct error *err)
{
	size_t characters = 0;

	for (const char *c = name; *c; c++)
		characters += ((unsigned char)*c & 0xc0) != 0x80;
	if (characters <= TABLE_NAME_CHARACTERS)
		return 0;
	error_set(err, ERROR_USAGE, 0, "a table's name has at most %d characters, this one has "
		  "%zu; ?strategy=lease takes longer ones", TABLE_NAME_CHARACTERS, characters);
	return -1;
}

static int table_open(struct mysql_backend *my, const struct uri *uri, struct error *err)
{
	static const struct session_kind kind = {
		.name = "table",
		.try_sql = sql_table_try,
		.wait_sql = sql_table_wait,
		.confirm_sql = sql_row_confirm,
		.prove_sql = sql_session_prove,
		.release_sql = sql_table_release,
		.release_shared_sql = sql_table_release_shared,
		.probe_sql = sql_table_probe,
		.exclusive = "WRITE",
		.shared = "READ",
		.admit = admit,
	};

	return session_open(my, &kind, uri, err);
}

const struct mysql_strategy mysql_table = {
	.name = "table",
	.tables = sql_table_tables,
	.grants = sql_table_grants,
	.open = table_open,
	SESSION_SLOTS
};
