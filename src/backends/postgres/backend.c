/* SPDX-License-Identifier: MIT */
/* Locks in a PostgreSQL server: the strategies, opening that of a URI, making its tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "postgres.h"

static const struct sql_statements entries = {
	.try_sql = sql_try,
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

/* In the order of messages; the first one is the default. */
static const struct sql_strategy strategies[] = {
	{ .name = "lease", ENTRIES, .can = BACKEND_SHARED | BACKEND_SLOTS },
	{ .name = "advisory", ENTRIES, .can = BACKEND_SHARED, .door = &advisory },
	/* The column "name" has room for 64 characters. */
	{ .name = "shedlock", .dialect = true, .statements = &shedlock, .name_characters = 64,
	  .tables = sql_shedlock_tables, .grants = sql_shedlock_grants },
	{ .name = NULL },
};

static void pg_close(struct backend *backend)
{
	struct postgres_backend *pg = postgres_from_backend(backend);

	postgres_close(&pg->conn);
	postgres_drop_rows(&pg->conn);
	free(pg);
}

static int pg_connect(struct backend *backend, const struct request *request, struct error *err)
{
	(void)request;
	return postgres_open(&postgres_from_backend(backend)->conn, err);
}

static int pg_fd(struct backend *backend)
{
	/* -1 without a connection. */
	return PQsocket(postgres_from_backend(backend)->conn.pg);
}

static struct backend *pg_open(const struct uri *uri, struct error *err)
{
	static const char *const known[] = {
		URI_COMMON_PARAMS, "strategy", "dialect", POSTGRES_PARAMS, NULL
	};
	const struct sql_strategy *strategy = sql_find_strategy(strategies, uri, err);
	struct postgres_backend *pg;

	if (!strategy || uri_check_params(uri, known, err))
		return NULL;
	pg = memory_new(1, sizeof(*pg));
	pg->strategy = strategy;
	pg->conn.backend = &pg->base;
	pg->base.session = strategy->door;
	pg->base.can = strategy->can;
	if (!postgres_conn_init(&pg->conn, uri, err))
		return &pg->base;
	free(pg);
	return NULL;
}

static int pg_setup(struct backend *backend, char **plan, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);

	if (plan)
		*plan = sql_make_plan(pg->strategy, &postgres_dialect, "", "", pg->conn.uri->user);
	/*
	 * Existing tables are enough for an account that may not create any. The try to show a lock
	 * has set the values.
	 */
	else if (!sql_can_show(backend) || !strcmp(pg->conn.state, POSTGRES_NO_TABLE))
		return postgres_run(&pg->conn, sql_make_tables, pg->values, err);
	return 0;
}

static const struct backend_ops pg_ops = {
	.open = pg_open,
	.close = pg_close,
	.connect = pg_connect,
	.acquire = postgres_acquire,
	.renew = postgres_renew,
	.release = postgres_release,
	.show = postgres_show,
	.fd = pg_fd,
	.event = postgres_event,
	.setup = pg_setup,
	.check = postgres_check,
	.break_hold = postgres_break,
};

static const char *describe_library(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "libpq %d.%d", PQlibVersion() / 10000, PQlibVersion() % 10000);
	return text;
}

const struct backend_module dlock_module = {
	.module = { DLOCK_VERSION, describe_library },
	.ops = &pg_ops,
};
