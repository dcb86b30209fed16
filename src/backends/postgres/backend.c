/* SPDX-License-Identifier: MIT */
/* Locks in a PostgreSQL server: opening the strategy of a URI, making its tables. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "lock.h"

static void pg_close(struct backend *backend)
{
	struct postgres_backend *pg = postgres_from_backend(backend);

	postgres_close(&pg->conn);
	close(pg->ready_fd);
	free(pg);
}

static int pg_connect(struct backend *backend, const struct request *request, struct error *err)
{
	(void)request;
	return postgres_open(&postgres_from_backend(backend)->conn, err);
}

static struct backend *pg_open(const struct uri *uri, struct error *err)
{
	const char *known[16] = { URI_COMMON_PARAMS, "strategy" }, *strategy = uri_param(uri, "strategy");
	const bool door = strategy && !strcmp(strategy, "advisory");
	struct postgres_backend *pg;
	struct postgres_address address = { 0 };

	for (size_t i = 0; postgres_params[i]; i++)
		known[4 + i] = postgres_params[i];
	if (uri_check_params(uri, known, err))
		return NULL;
	if (strategy && !door && strcmp(strategy, "lease") != 0) {
		error_set(err, ERROR_USAGE, 0, "%s: unknown strategy '%.60s': known are lease, advisory",
			  uri->scheme, strategy);
		return NULL;
	}
	if (postgres_address_init(&address, uri, err))
		return NULL;
	pg = memory_new(1, sizeof(*pg));
	pg->address = address;
	pg->conn.address = &pg->address;
	pg->conn.backend = &pg->base;
	pg->base.session = pg->door = door;
	pg->base.can = BACKEND_SHARED | (door ? 0 : BACKEND_SLOTS);
	pg->ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	return &pg->base;
}

static int pg_setup(struct backend *backend, char **plan, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const char *user = pg->address.uri->user;
	const struct sql_value values[] = { SQL_NAME("user", user ? user : "dlock"), SQL_LAST };
	const struct request request = { .name = "dlock-check", .token = "" };
	struct error ignored = { 0 };
	struct rows rows = { 0 };
	char *text;
	bool made;

	if (plan) {
		text = memory_format("%s%s", sql_tables, sql_grants);
		*plan = sql_format(&postgres_dialect, text, values);
		assert(*plan);
		free(text);
		return 0;
	}
	/* Existing tables are enough for an account that may not create any. */
	made = !postgres_show(backend, &request, &rows, &ignored) && strcmp(pg->conn.state, "42P01") != 0;
	rows_finish(&rows);
	return made ? 0 : postgres_make_tables(pg, err);
}

static const struct backend_ops pg_ops = {
	.open = pg_open,
	.close = pg_close,
	.connect = pg_connect,
	.acquire = postgres_acquire,
	.renew = postgres_renew,
	.release = postgres_release,
	.show = postgres_show,
	.fd = postgres_fd,
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
