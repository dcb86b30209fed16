/* SPDX-License-Identifier: MIT */
/* Locks in a MySQL or MariaDB server: the backend, which leaves locking to a strategy. */
#include "api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/version.h"
#include "lock/uri.h"
#include "lock.h"

#define TABLE_DENIED 1142
#define NO_SUCH_VARIABLE 1193
#define NO_SUCH_COLUMN 1054
#define COLUMN_EXISTS 1060

extern const struct mysql_strategy mysql_lease, mysql_insert, mysql_row, mysql_advisory,
	mysql_table, mysql_shedlock;

const struct mysql_strategy *const mysql_strategies[] = {
	&mysql_lease, &mysql_insert, &mysql_row, &mysql_advisory, &mysql_table, &mysql_shedlock,
	NULL
};

/* ---- requests ---- */

struct mysql_limits mysql_limits_of(const struct mysql_backend *my)
{
	return (struct mysql_limits){
		.connect_ms = my->base.connect_timeout_ms,
		.request_ms = my->base.timeout_ms,
		.cancel_fd = my->base.cancel_fd,
	};
}

int mysql_connect(struct mysql_backend *my, struct error *err)
{
	struct mysql_limits limits = mysql_limits_of(my);

	return mysql_conn_open(&my->conn, &my->address, &limits, err);
}

/* Reads results, all of them or up to the first rows; *rows: the last ones. 0 or -1. */
static int receive(struct mysql_backend *my, bool all, MYSQL_RES **rows, struct error *err)
{
	struct mysql_limits limits = mysql_limits_of(my);
	MYSQL_RES *last = NULL, *next = NULL;
	enum mysql_step step;

	while ((step = mysql_conn_next(&my->conn, &my->address, &limits, &next, err)) ==
	       MYSQL_STEP_ROWS) {
		mysql_free_result(last);
		last = next;
		if (!all)
			break;
	}
	if (step == MYSQL_STEP_FAILED || !rows) {
		mysql_free_result(last);
		last = NULL;
	}
	if (rows)
		*rows = last;
	return step == MYSQL_STEP_FAILED ? -1 : 0;
}

/* One attempt. What is left of an earlier answer would be taken for this one's. */
static int attempt(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		   bool all, MYSQL_RES **rows, struct error *err)
{
	char *text;

	if (my->conn.pending)
		mysql_conn_close(&my->conn);
	my->conn.sent = false;
	if (mysql_connect(my, err))
		return -1;
	text = sql_format(sql, values);
	mysql_conn_send(&my->conn, text);
	return receive(my, all, rows, err);
}

static int make_tables(struct mysql_backend *my, struct error *err)
{
	static const struct sql_value none[] = { SQL_LAST };

	if (!attempt(my, my->strategy->tables, none, true, NULL, err))
		return 0;
	if (my->conn.code == TABLE_DENIED)
		error_set(err, ERROR_REFUSED, 0, "%s: tables are missing, and this account may not "
			  "make them: 'dlock setup --dry-run' prints the SQL for one that may",
			  my->address.label);
	return -1;
}

/* A table that an earlier version made gets the columns that it lacks. */
static int upgrade_tables(struct mysql_backend *my, struct error *err)
{
	static const struct sql_value none[] = { SQL_LAST };

	/* Two may find at once that they are missing. */
	if (!attempt(my, my->strategy->upgrade, none, true, NULL, err) ||
	    my->conn.code == COLUMN_EXISTS)
		return 0;
	if (my->conn.code == TABLE_DENIED)
		error_set(err, ERROR_REFUSED, 0, "%s: a table of an earlier version lacks columns, "
			  "and this account may not add them: 'dlock setup' by one that may does",
			  my->address.label);
	return -1;
}

/* What the server lacks, a table or a column, is made: 1. 0: it is something else; or -1. */
static int make_missing(struct mysql_backend *my, struct error *err)
{
	if (!my->conn.mysql)
		return 0;
	if (my->conn.code == MYSQL_NO_SUCH_TABLE && !my->only_looks && my->strategy->tables[0])
		return make_tables(my, err) ? -1 : 1;
	if (my->conn.code == NO_SUCH_COLUMN && my->strategy->upgrade)
		return upgrade_tables(my, err) ? -1 : 1;
	return 0;
}

static int run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	       enum mysql_repeat repeat, bool all, MYSQL_RES **rows, struct error *err)
{
	bool made = false;
	int missing;

	my->resent = false;
	for (;;) {
		err->kind = ERROR_NONE;
		err->errnum = 0;
		if (!attempt(my, sql, values, all, rows, err))
			return 0;
		if (my->conn.mysql && my->conn.code == NO_SUCH_VARIABLE && !my->conn.no_cluster) {
			my->conn.no_cluster = my->conn.fresh = true;
			continue;
		}
		missing = made ? 0 : make_missing(my, err);
		if (missing < 0)
			return -1;
		if (missing) {
			made = true;
			continue;
		}
		/* A server that hangs would do so again. */
		if (repeat != MYSQL_REPEAT || my->resent || my->conn.mysql || !my->conn.sent ||
		    err->kind != ERROR_UNAVAILABLE || err->errnum == ETIMEDOUT)
			return -1;
		my->resent = true;
	}
}

int mysql_run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	      enum mysql_repeat repeat, MYSQL_RES **rows, struct error *err)
{
	return run(my, sql, values, repeat, true, rows, err);
}

int mysql_begin(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		enum mysql_repeat repeat, MYSQL_RES **rows, struct error *err)
{
	return run(my, sql, values, repeat, false, rows, err);
}

int mysql_drain(struct mysql_backend *my, struct error *err)
{
	return my->conn.pending ? receive(my, true, NULL, err) : 0;
}

void mysql_post(struct mysql_backend *my, const char *sql, const struct sql_value values[])
{
	if (!my->conn.mysql || my->conn.pending)
		return;
	mysql_conn_send(&my->conn, sql_format(sql, values));
	mysql_poll(my);
}

bool mysql_poll(struct mysql_backend *my)
{
	struct error ignored = { 0 };
	enum mysql_step step;
	MYSQL_RES *rows;

	while ((step = mysql_conn_next(&my->conn, &my->address, NULL, &rows, &ignored)) ==
	       MYSQL_STEP_ROWS)
		mysql_free_result(rows);
	return step != MYSQL_STEP_PENDING;
}

bool mysql_is_gone(struct mysql_backend *my)
{
	int fd = mysql_conn_fd(&my->conn);
	char byte;

	if (fd >= 0 && !my->conn.pending &&
	    (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
		mysql_conn_close(&my->conn);
	return !my->conn.mysql;
}

size_t mysql_numbers(MYSQL_RES *rows, int64_t numbers[], size_t most)
{
	MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
	size_t count = row ? mysql_num_fields(rows) : 0;

	if (count > most)
		count = most;
	for (size_t i = 0; i < count; i++)
		numbers[i] = row[i] ? strtoll(row[i], NULL, 10) : 0;
	return count;
}

void mysql_odd(struct mysql_backend *my, struct error *err)
{
	mysql_conn_close(&my->conn);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
		  my->address.label);
}

/* ---- the backend ---- */

static void my_close(struct backend *backend)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	if (!my)
		return;
	mysql_conn_close(&my->conn);
	if (my->strategy)
		my->strategy->close(my);
	mysql_address_finish(&my->address);
	free(my);
}

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
	for (const struct mysql_strategy *const *s = mysql_strategies; *s; s++) {
		if (!wanted || ((*s)->dialect == (dialect != NULL) && !strcmp((*s)->name, wanted)))
			return *s;
		if ((*s)->dialect == (dialect != NULL))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", (*s)->name);
	}
	error_set(err, ERROR_USAGE, 0, "%s: no such %s; known are: %s", uri->scheme,
		  dialect ? "dialect" : "strategy", known);
	return NULL;
}

static int check_params(const struct mysql_strategy *strategy, const struct uri *uri,
			struct error *err)
{
	const char *known[32] = {
		"strategy", "dialect", "timeout", "connect-timeout", "password-file", "socket",
		"ssl-ca", "ssl-cert", "ssl-key", "ssl-mode", "defaults-file", "defaults-group", NULL
	};
	size_t count = 12;

	for (const char *const *p = strategy->params; *p && count < 31; p++)
		known[count++] = *p;
	return uri_check_params(uri, known, err);
}

static struct backend *my_open(const struct uri *uri, struct error *err)
{
	struct mysql_backend *my = calloc(1, sizeof(*my));

	if (!my) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return NULL;
	}
	my->strategy = find_strategy(uri, err);
	if (!my->strategy || check_params(my->strategy, uri, err) ||
	    mysql_address_init(&my->address, uri, err) || my->strategy->open(my, uri, err)) {
		my_close(&my->base);
		return NULL;
	}
	return &my->base;
}

static int my_connect(struct backend *backend, const struct request *request, struct error *err)
{
	(void)request;
	return mysql_connect(mysql_from_backend(backend), err);
}

static enum outcome my_acquire(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->acquire(my, request, grant, err);
}

static int my_event_fd(struct backend *backend)
{
	return mysql_conn_fd(&mysql_from_backend(backend)->conn);
}

static int64_t my_event(struct backend *backend)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->event(my);
}

static enum outcome my_renew(struct backend *backend, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->renew(my, request, grant, err);
}

static enum outcome my_verify(struct backend *backend, const struct request *request,
			      struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->verify(my, request, err);
}

static enum outcome my_release(struct backend *backend, const struct request *request,
			       enum release how, int64_t keep_ms, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->release(my, request, how, keep_ms, err);
}

static enum outcome my_again(struct backend *backend, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->again(my, request, grant, err);
}

static int my_inspect(struct backend *backend, const char *name, bool listen,
		      struct lock_view *view, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->inspect(my, name, listen, view, err);
}

static int my_list(struct backend *backend, struct name_list *names, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->list(my, names, err);
}

static int my_break(struct backend *backend, const char *name, struct lock_view *view,
		    struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return my->strategy->break_hold(my, name, view, err);
}

static const struct backend_ops my_ops = {
	.open = my_open,
	.close = my_close,
	.connect = my_connect,
	.acquire = my_acquire,
	.event_fd = my_event_fd,
	.event = my_event,
	.renew = my_renew,
	.verify = my_verify,
	.release = my_release,
	.again = my_again,
	.inspect = my_inspect,
	.list = my_list,
	.break_hold = my_break,
	.setup = mysql_setup,
	.plan = mysql_plan,
	.check = mysql_check,
};

extern const struct backend_module dlock_backend_module;
const struct backend_module dlock_backend_module = {
	.version = DLOCK_VERSION,
	.ops = &my_ops,
};
