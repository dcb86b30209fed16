/* SPDX-License-Identifier: MIT */
/* Making tables, or telling an administrator how to. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "run.h"

static const char create[] = "CREATE TABLE IF NOT EXISTS ";

/* Are all tables that text makes there? */
static bool is_made(struct mysql_backend *my, const char *text)
{
	struct error ignored = { 0 };
	char name[65];

	while ((text = strstr(text, create))) {
		text += sizeof(create) - 1;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " ("), text);

		const struct sql_value values[] = { SQL_PART("table", name), SQL_LAST };

		if (mysql_run(my, &my->conn, "SELECT 1 FROM {table} LIMIT 0", values, NULL,
			      &ignored))
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
	const char *tables = my->strategy->tables;

	if (plan)
		return make_plan(my, plan, err);
	/* An account that may not create tables can use those that are there. */
	my->only_looks = true;
	return is_made(my, tables) ? 0 : mysql_run(my, &my->conn, tables, NULL, NULL, err);
}
