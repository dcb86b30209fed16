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

/* Writes text as a string literal would have it between its quotes, in the sql_mode ''. */
static void put_quoted(FILE *sql, const char *text, size_t length)
{
	for (; length; text++, length--) {
		if (*text == '\'' || *text == '\\')
			putc(*text, sql);
		putc(*text, sql);
	}
}

/*
 * Writes the lines of grants, each GRANT for all accounts that the user has at the server. An
 * account is a user and the hosts it comes from, which no URI tells.
 */
static void put_grants(FILE *sql, const char *grants, const char *user)
{
	static const char first[] = "GRANT ";

	fputs("SET SESSION sql_mode = '', group_concat_max_len = 65536;\n"
	      "SET @accounts = (SELECT GROUP_CONCAT(CONCAT(QUOTE(User), '@', QUOTE(Host)))\n"
	      "  FROM mysql.user WHERE Host <> '' AND User = '", sql);
	put_quoted(sql, user, strlen(user));
	fputs("');\nSELECT 'There is no account of ", sql);
	put_quoted(sql, user, strlen(user));
	fputs(": CREATE USER, then run this again' AS missing\n"
	      "  FROM DUAL WHERE @accounts IS NULL;\n", sql);
	for (const char *line = grants, *end; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (strncmp(line, first, sizeof(first) - 1) != 0) {
			fprintf(sql, "%.*s\n", (int)(end - line), line);
			continue;
		}
		fputs("SET @grant = IF(@accounts IS NULL, 'DO 0', CONCAT('", sql);
		/* Less the semicolon. */
		put_quoted(sql, line, (size_t)(end - line) - 1);
		fputs("', @accounts));\n"
		      "PREPARE dlock_grant FROM @grant;\n"
		      "EXECUTE dlock_grant;\n", sql);
	}
}

int mysql_plan(struct backend *backend, char **text, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const char *database = my->address.database, *user = my->address.user;
	char *tables, *head, *grants;
	size_t length;
	FILE *sql;

	if (!database)
		return error_set(err, ERROR_USAGE, 0, "--dry-run needs the database in the URI: "
				 "mysql://HOST/DATABASE");

	const struct sql_value values[] = {
		SQL_NAME("database", database), SQL_PART("account", ""), SQL_LAST
	};

	tables = memory_format("USE {database};\n%s"
			       "-- For the accounts that hold locks:\n", my->strategy->tables);
	head = sql_format(tables, values);
	grants = sql_format(my->strategy->grants, values);
	assert(head && grants);
	sql = open_memstream(text, &length);
	if (!sql)
		memory_gone();
	fputs(head, sql);
	put_grants(sql, grants, user ? user : "dlock");
	if (fclose(sql))
		memory_gone();
	free(tables);
	free(head);
	free(grants);
	return 0;
}
