/* SPDX-License-Identifier: MIT */
/* The strategies: what each of a family says and allows. */
#include "lease.h"
#include "shedlock.h"

#define LEASE .ops = &lease_ops, .size = sizeof(struct lease), .check = lease_check, \
	.tables = sql_entries_tables, .grants = sql_entries_grants
#define DOOR(KIND) .ops = &lease_ops, .size = sizeof(struct lease), .check = door_check, \
	.door = &(KIND)

const struct mysql_strategy mysql_strategies[] = {
	{ .name = "lease", LEASE, .can = BACKEND_SHARED | BACKEND_SLOTS | BACKEND_REPLACES },
	{ .name = "insert", LEASE },
	{ .name = "row", DOOR(door_row), .can = BACKEND_SHARED,
	  .tables = sql_row_tables, .grants = sql_row_grants },
	{ .name = "advisory", DOOR(door_advisory),
	  .tables = sql_entries_tables, .grants = sql_entries_grants },
	/* MySQL manual, "Schema Object Names": identifiers have at most 64 characters. */
	{ .name = "table", DOOR(door_table), .can = BACKEND_SHARED,
	  .name_characters = 64, .names = "a table's name has",
	  .tables = sql_table_tables, .grants = sql_table_grants },
	/* The column "name" has room for 64 characters. */
	{ .name = "shedlock", .dialect = true, .param = "time-zone",
	  .ops = &shedlock_ops, .size = sizeof(struct shedlock),
	  .open = shedlock_open, .check = shedlock_check,
	  .name_characters = 64, .names = "ShedLock's names have",
	  .tables = sql_shedlock_tables, .grants = sql_shedlock_grants },
	{ .name = NULL },
};
