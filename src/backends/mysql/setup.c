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

		if (mysql_run(my, "SELECT 1 FROM {table} LIMIT 0", values, MYSQL_REPEAT, NULL,
			      &ignored))
			return false;
	}
	return true;
}

int mysql_setup(struct backend *backend, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const char *tables = my->strategy->tables;

	/* An account that may not create tables can use those that are there. */
	my->only_looks = true;
	return is_made(my, tables) ? 0 : mysql_run(my, tables, NULL, MYSQL_REPEAT, NULL, err);
}

/* Makes 'USER'@'%', with doubled apostrophes, which work in every sql_mode. */
static char *quote_account(const char *user)
{
	char *text = memory_new(2 * strlen(user) + 8, 1), *end = text;

	*end++ = '\'';
	for (; *user; user++) {
		if (*user == '\'' || *user == '\\')
			*end++ = *user;
		*end++ = *user;
	}
	strcpy(end, "'@'%'");
	return text;
}

int mysql_plan(struct backend *backend, char **text, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const char *database = my->address.database, *user = my->address.user;
	char *account, *sql;

	if (!database) {
		error_set(err, ERROR_USAGE, 0, "--dry-run needs the database in the URI: "
			  "mysql://HOST/DATABASE");
		return -1;
	}
	account = quote_account(user ? user : "dlock");
	sql = memory_format("USE {database};\n%s"
			    "-- For each account that holds locks, from the hosts it "
			    "comes from:\n%s",
			    my->strategy->tables, my->strategy->grants);

	const struct sql_value values[] = {
		SQL_NAME("database", database), SQL_PART("account", account), SQL_LAST
	};

	*text = sql_format(sql, values);
	assert(*text);
	free(sql);
	free(account);
	return 0;
}
