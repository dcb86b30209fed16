/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/view.h"
#include "api.h"

#define TABLE_DENIED 1142
#define NO_SUCH_VARIABLE 1193

int mysql_connect(struct mysql_backend *my, struct error *err)
{
	return mysql_conn_open(&my->conn, &my->address, &my->base, err);
}

/* Reads results, all of them or up to the first rows; *rows: the last ones. 0 or -1. */
static int receive(struct mysql_backend *my, bool all, MYSQL_RES **rows, struct error *err)
{
	const int64_t end_ms = clock_boot_ms() + my->base.timeout_ms;
	MYSQL_RES *last = NULL, *next = NULL;
	enum mysql_step step;

	while ((step = mysql_conn_next(&my->conn, &my->address, &my->base, &next, err)) ==
	       MYSQL_STEP_ROWS) {
		mysql_free_result(last);
		last = next;
		if (!all)
			break;
		/* Each of the results came in time, and there is no end of them. */
		if (clock_boot_ms() > end_ms) {
			mysql_odd(my, err);
			step = MYSQL_STEP_FAILED;
			break;
		}
	}
	if (step == MYSQL_STEP_FAILED || !rows) {
		mysql_free_result(last);
		last = NULL;
	}
	if (rows)
		*rows = last;
	return step == MYSQL_STEP_FAILED ? -1 : 0;
}

static int attempt(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		   bool all, MYSQL_RES **rows, struct error *err)
{
	char *text;

	/* What is left of an earlier answer would be taken for this request's. */
	if (my->conn.pending)
		mysql_conn_close(&my->conn);
	my->conn.sent = false;
	if (mysql_connect(my, err))
		return -1;
	text = sql_format(sql, values);
	mysql_conn_send(&my->conn, text);
	return receive(my, all, rows, err);
}

/* Makes the tables, if the error is that one is missing: 1; or -1. 0: the error is another one. */
static int make_missing(struct mysql_backend *my, struct error *err)
{
	const char *tables = my->strategy->tables;

	if (!my->conn.mysql || my->conn.code != MYSQL_NO_SUCH_TABLE || my->only_looks || !tables[0])
		return 0;
	if (!attempt(my, tables, NULL, true, NULL, err))
		return 1;
	if (my->conn.code == TABLE_DENIED)
		error_set(err, ERROR_REFUSED, 0, "%s: tables are missing, and this account may "
			  "not make them: 'dlock setup --dry-run' prints the SQL for one that may",
			  my->address.label);
	return -1;
}

int mysql_run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	      enum mysql_how how, MYSQL_RES **rows, struct error *err)
{
	bool made = false;
	int missing;

	my->resent = false;
	if (how == MYSQL_POST) {
		if (my->conn.mysql && !my->conn.pending) {
			mysql_conn_send(&my->conn, sql_format(sql, values));
			mysql_poll(my);
		}
		return 0;
	}
	for (;;) {
		err->kind = ERROR_NONE;
		err->errnum = 0;
		if (!attempt(my, sql, values, how != MYSQL_FIRST_ROWS, rows, err))
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
		/* A server that hangs would hang again. */
		if (how == MYSQL_ONCE || my->resent || my->conn.mysql || !my->conn.sent ||
		    err->kind != ERROR_UNAVAILABLE || err->errnum == ETIMEDOUT)
			return -1;
		my->resent = true;
	}
}

int mysql_drain(struct mysql_backend *my, struct error *err)
{
	return my->conn.pending ? receive(my, true, NULL, err) : 0;
}

int mysql_ask(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	      int64_t *number, struct error *err)
{
	MYSQL_RES *rows;

	if (mysql_run(my, sql, values, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, number, 1);
	return 0;
}

int mysql_run_over(struct mysql_backend *my, struct mysql_conn *other, const char *sql,
		   const struct sql_value values[], MYSQL_RES **rows, struct error *err)
{
	const struct mysql_conn main = my->conn;
	const bool resent = my->resent;
	int result;

	my->conn = other ? *other : (struct mysql_conn){ .mysql = NULL };
	my->conn.no_cluster |= main.no_cluster;
	result = mysql_run(my, sql, values, other ? MYSQL_REPEAT : MYSQL_ONCE, rows, err);
	if (other)
		*other = my->conn;
	else
		mysql_conn_close(&my->conn);
	my->conn = main;
	my->resent = resent;
	return result;
}

int mysql_start(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		struct error *err)
{
	enum mysql_step step;
	MYSQL_RES *rows;

	if (mysql_connect(my, err))
		return -1;
	mysql_conn_send(&my->conn, sql_format(sql, values));
	step = mysql_next(my, &rows, err);
	mysql_free_result(rows);
	return step == MYSQL_STEP_FAILED ? -1 : 0;
}

enum mysql_step mysql_next(struct mysql_backend *my, MYSQL_RES **rows, struct error *err)
{
	return mysql_conn_next(&my->conn, &my->address, NULL, rows, err);
}

bool mysql_poll(struct mysql_backend *my)
{
	struct error ignored = { 0 };
	enum mysql_step step;
	MYSQL_RES *rows;

	while ((step = mysql_next(my, &rows, &ignored)) == MYSQL_STEP_ROWS)
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

bool mysql_contended(const struct mysql_backend *my)
{
	return my->conn.mysql && mysql_code_is_contention(my->conn.code);
}

size_t mysql_numbers(MYSQL_RES *rows, int64_t numbers[], size_t most)
{
	MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
	size_t count = row ? mysql_num_fields(rows) : 0;

	if (count > most)
		count = most;
	for (size_t i = 0; i < most; i++)
		numbers[i] = i < count && row[i] ? strtoll(row[i], NULL, 10) : 0;
	mysql_free_result(rows);
	return count;
}

void mysql_read_holder(struct holder *holder, const char *text, size_t length)
{
	if (!text || holder_decode(holder, text, length))
		*holder = (struct holder){ .pid = 0 };
}

int mysql_has_table(struct mysql_backend *my, const char *table, struct error *err)
{
	const struct sql_value values[] = { SQL_PART("table", table), SQL_LAST };
	int64_t count;

	return mysql_ask(my, sql_has_table, values, &count, err) ? -1 : count > 0;
}

void mysql_end_connection(struct mysql_backend *my, int64_t connection)
{
	const struct sql_value values[] = { SQL_INT("connection", connection), SQL_LAST };
	struct error ignored = { 0 };

	if (connection > 0)
		mysql_run(my, sql_kill_connection, values, MYSQL_ONCE, NULL, &ignored);
}

int mysql_read_only(struct mysql_backend *my, struct error *err)
{
	mysql_conn_close(&my->conn);
	mysql_refusal(&my->address, MYSQL_READ_ONLY, "read_only is set", err);
	return -1;
}

int mysql_odd(struct mysql_backend *my, struct error *err)
{
	mysql_conn_close(&my->conn);
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
			 my->address.label);
}

void mysql_add_names(MYSQL_RES *rows, struct name_list *names)
{
	MYSQL_ROW row;

	while (rows && (row = mysql_fetch_row(rows)))
		name_list_add(names, row[0], mysql_fetch_lengths(rows)[0]);
	mysql_free_result(rows);
}

int mysql_event_fd(struct backend *backend)
{
	return mysql_conn_fd(&mysql_from_backend(backend)->conn);
}

int mysql_reach(struct backend *backend, const struct request *request, struct error *err)
{
	(void)request;
	return mysql_connect(mysql_from_backend(backend), err);
}

void mysql_close_backend(struct backend *backend)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	if (!my)
		return;
	mysql_conn_close(&my->side);
	mysql_conn_close(&my->conn);
	mysql_address_finish(&my->address);
	free(my);
}
