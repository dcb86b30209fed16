/* SPDX-License-Identifier: MIT */
/*
 * The lock of a row: SELECT ... FOR UPDATE in a transaction that stays open, through the
 * primary key of dlock_rows. The row is made beforehand, in another transaction.
 */
#include "session.h"

extern const struct mysql_strategy mysql_row;

static int admit(const char *name, struct error *err)
{
	(void)name;
	(void)err;
	return 0;
}

static int row_open(struct mysql_backend *my, const struct uri *uri, struct error *err)
{
	static const struct session_kind kind = {
		.name = "row",
		.try_sql = sql_row_try,
		.wait_sql = sql_row_wait,
		.confirm_sql = sql_row_confirm,
		.prove_sql = sql_session_prove,
		.release_sql = sql_row_release,
		.release_shared_sql = sql_row_release_shared,
		.make_sql = sql_row_make,
		.forget_sql = sql_row_forget,
		.probe_sql = sql_row_probe,
		.exclusive = "FOR UPDATE",
		.shared = "LOCK IN SHARE MODE",
		.transaction = true,
		.admit = admit,
	};

	return session_open(my, &kind, uri, err);
}

const struct mysql_strategy mysql_row = {
	.name = "row",
	.tables = sql_row_tables,
	.grants = sql_row_grants,
	.open = row_open,
	SESSION_SLOTS
};
