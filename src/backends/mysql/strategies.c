/* SPDX-License-Identifier: MIT */
/* The table of strategies: their statements, and what they support. */
#include "door.h"

static const struct sql_statements entries = {
	.try_sql = sql_entries_try,
	.take_sql = sql_entries_take,
	.renew_sql = sql_entries_renew,
	.release_sql = sql_entries_release,
	.leave_sql = sql_entries_leave,
	.show_sql = sql_entries_show,
	.list_sql = sql_entries_list,
	.break_sql = sql_entries_break,
	.check_sql = sql_facts,
};

static const struct sql_statements shedlock = {
	.take_sql = sql_shedlock_take,
	.renew_sql = sql_shedlock_renew,
	.release_sql = sql_shedlock_release,
	.show_sql = sql_shedlock_show,
	.list_sql = sql_shedlock_list,
	.break_sql = sql_shedlock_break,
	.check_sql = sql_shedlock_check,
};

#define ENTRIES .statements = &entries, \
	.tables = sql_entries_tables, .grants = sql_entries_grants

const struct sql_strategy mysql_strategies[] = {
	{ .name = "lease", ENTRIES, .can = BACKEND_SHARED | BACKEND_SLOTS },
	{ .name = "insert", ENTRIES },
	{ .name = "row", .statements = &entries, .door = &door_row, .can = BACKEND_SHARED,
	  .tables = sql_row_tables, .grants = sql_row_grants },
	{ .name = "advisory", ENTRIES, .door = &door_advisory },
	/* MySQL manual, "Schema Object Names": identifiers have at most 64 characters. */
	{ .name = "table", .statements = &entries, .door = &door_table, .can = BACKEND_SHARED,
	  .name_characters = 64, .tables = sql_table_tables, .grants = sql_table_grants },
	/* The column "name" has room for 64 characters. */
	{ .name = "shedlock", .dialect = true, .param = "time-zone",
	  .statements = &shedlock, .name_characters = 64,
	  .tables = sql_shedlock_tables, .grants = sql_shedlock_grants },
	{ .name = NULL },
};
