/* SPDX-License-Identifier: MIT */
/* Locks in a MySQL or MariaDB server: opening the strategy of a URI, making its tables. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "lock/uri.h"
#include "api.h"
#include "run.h"

static const struct mysql_strategy *find_strategy(const struct uri *uri, struct error *err)
{
	const char *strategy = uri_param(uri, "strategy"), *dialect = uri_param(uri, "dialect");
	const char *wanted = dialect ? dialect : strategy;
	char known[160] = "";
	size_t used = 0;

	if (strategy && dialect) {
		error_set(err, ERROR_USAGE, 0, "%s: ?strategy= and ?dialect= exclude each other",
			  uri->scheme);
		return NULL;
	}
	for (const struct mysql_strategy *s = mysql_strategies; s->name; s++) {
		if (!wanted || (s->dialect == (dialect != NULL) && !strcmp(s->name, wanted)))
			return s;
		if (s->dialect == (dialect != NULL))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", s->name);
	}
	error_set(err, ERROR_USAGE, 0, "%s: unknown %s '%.60s': known are %s", uri->scheme,
		  dialect ? "dialect" : "strategy", wanted, known);
	return NULL;
}

static void my_close(struct backend *backend)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	mysql_conn_close(&my->side);
	mysql_conn_close(&my->conn);
	free(my);
}

static int my_connect(struct backend *backend, const struct request *request, struct error *err)
{
	(void)request;
	return mysql_conn_open(&mysql_from_backend(backend)->conn, err);
}

static int my_fd(struct backend *backend)
{
	return mysql_conn_fd(&mysql_from_backend(backend)->conn);
}

static struct backend *my_open(const struct uri *uri, struct error *err)
{
	const struct mysql_strategy *strategy = find_strategy(uri, err);
	/* The parameter of the strategy, or NULL, is last. */
	const char *const known[] = {
		URI_COMMON_PARAMS, "strategy", "dialect", "socket", "ssl-ca", "ssl-cert", "ssl-key",
		"ssl-mode", "defaults-file", "defaults-group", strategy ? strategy->param : NULL,
		NULL
	};
	struct mysql_backend *my;

	if (!strategy || uri_check_params(uri, known, err))
		return NULL;
	my = memory_new(1, sizeof(*my));
	my->strategy = strategy;
	my->conn.address = my->side.address = &my->address;
	my->conn.backend = my->side.backend = &my->base;
	my->base.session = strategy->door;
	my->base.can = strategy->can;
	my->zone = uri_param(uri, "time-zone");
	if (mysql_address_init(&my->address, uri, err)) {
		my_close(&my->base);
		return NULL;
	}
	return &my->base;
}

/* ---- `dlock setup` ---- */

/* Are all tables of the strategy there? To show a lock reads each of them. */
static bool is_made(struct mysql_backend *my)
{
	const struct request request = { .name = "dlock-check", .token = "" };
	struct error ignored = { 0 };
	struct rows rows = { 0 };
	int failed = lease_show(&my->base, &request, &rows, &ignored);

	rows_finish(&rows);
	return !failed && !mysql_is_missing(&my->conn) && !mysql_is_missing(&my->side);
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
	*plan = sql_format(&mysql_dialect, text, values);
	assert(*plan);
	free(text);
	return 0;
}

static int my_setup(struct backend *backend, char **plan, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	if (plan)
		return make_plan(my, plan, err);
	/* Existing tables are enough for an account that may not create any. */
	return is_made(my) ? 0 : mysql_make_tables(&my->conn, err);
}

static const struct backend_ops my_ops = {
	.open = my_open,
	.close = my_close,
	.connect = my_connect,
	.acquire = lease_acquire,
	.renew = lease_renew,
	.release = lease_release,
	.show = lease_show,
	.fd = my_fd,
	.event = lease_event,
	.setup = my_setup,
	.check = mysql_check,
	.break_hold = lease_break,
};

static const char *describe_library(void)
{
	static char text[64];

	snprintf(text, sizeof(text), API_NAME " %s", mysql_get_client_info());
	return text;
}

const struct backend_module dlock_module = {
	.module = { DLOCK_VERSION, describe_library },
	.ops = &my_ops,
};
