/* SPDX-License-Identifier: MIT */
/* Locks in a MySQL or MariaDB server: opening the strategy of a URI, making its tables. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "lock/uri.h"
#include "api.h"
#include "run.h"

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
	const struct sql_strategy *strategy = sql_find_strategy(mysql_strategies, uri, err);
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

static int my_setup(struct backend *backend, char **plan, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const char *database = my->address.database;

	/* Existing tables are enough for an account that may not create any. */
	if (!plan)
		return sql_can_show(backend) && !mysql_is_missing(&my->conn) &&
		       !mysql_is_missing(&my->side) ? 0 : mysql_make_tables(&my->conn, err);
	if (!database)
		return error_set(err, ERROR_USAGE, 0, "--dry-run needs the database in the URI: "
				 "mysql://HOST/DATABASE");
	*plan = sql_make_plan(my->strategy, &mysql_dialect, "USE {database};\n", database,
			      my->address.user);
	return 0;
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
