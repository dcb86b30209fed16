/* SPDX-License-Identifier: MIT */
/* The table of strategies: their statements, and what they support. */
#include "postgres.h"

static const struct sql_statements entries = {
	.take_sql = sql_take,
	.renew_sql = sql_renew,
	.release_sql = sql_release,
	.leave_sql = sql_release,
	.show_sql = sql_show,
	.list_sql = sql_list,
};

static const struct sql_statements shedlock = {
	.take_sql = sql_shedlock_take,
	.renew_sql = sql_shedlock_renew,
	.release_sql = sql_shedlock_release,
	.show_sql = sql_shedlock_show,
	.list_sql = sql_shedlock_list,
};

/* Its statements are in sql/advisory.sql. */
static const struct door_kind {
	bool session;
} advisory = { true };

#define ENTRIES .statements = &entries, .tables = sql_tables, .grants = sql_grants

const struct sql_strategy postgres_strategies[] = {
	{ .name = "lease", ENTRIES, .can = BACKEND_SHARED | BACKEND_SLOTS },
	{ .name = "advisory", ENTRIES, .can = BACKEND_SHARED, .door = &advisory },
	/* The column "name" has room for 64 characters. */
	{ .name = "shedlock", .dialect = true, .statements = &shedlock, .name_characters = 64,
	  .tables = sql_shedlock_tables, .grants = sql_shedlock_grants },
	{ .name = NULL },
};
