/* SPDX-License-Identifier: MIT */
/* `dlock setup`: make the tables, or print the SQL for an administrator. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "run.h"

/* Are all tables of the strategy there? */
static bool is_made(struct mysql_backend *my)
{
	static const char create[] = "CREATE TABLE IF NOT EXISTS ";
	struct error ignored = { 0 };
	char sql[100];

	for (const char *text = my->strategy->tables; (text = strstr(text, create));) {
		text += sizeof(create) - 1;
		snprintf(sql, sizeof(sql), "SELECT 1 FROM %.*s LIMIT 0", (int)strcspn(text, " ("),
			 text);
		if (mysql_run(&my->conn, sql, NULL, NULL, &ignored))
			return false;
	}
	return true;
}

static int make_plan(const struct mysql_backend *my, char **plan, struct error *err)
{
	const char *database = my->address.database, *user = my->address.user;
	char *text;

	if (!database)
		return error_set(err, ERROR_USAGE, 0, "--dry-run needs the database in the URI: "
				 "mysql://HOST/DATABASE");

	const struct sql_value values[] = {
		SQL_NAME("database", database), SQL_NAME("user", user ? user : "dlock"), SQL_LAST
	};

	text = memory_format("USE {database};\n%s"
			     "-- For the account that holds locks, wherever it comes from:\n%s",
			     my->strategy->tables, my->strategy->grants);
	*plan = sql_format(text, values);
	assert(*plan);
	free(text);
	return 0;
}

int mysql_setup(struct backend *backend, char **plan, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	if (plan)
		return make_plan(my, plan, err);
	/* Existing tables are enough for an account that may not create any. */
	return is_made(my) ? 0 : mysql_make_tables(&my->conn, err);
}
