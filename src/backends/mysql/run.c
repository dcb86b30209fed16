/* SPDX-License-Identifier: MIT */
/* Running statements: repeating them, and making missing tables. */
#include "run.h"

#include <assert.h>
#include <errno.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"

/* The longest pause after contention. */
#define CONTENTION_US 8000

/* ---- values ---- */

/* A hexadecimal literal means the same in every character set and sql_mode. */
static void put_bytes(FILE *out, const unsigned char *bytes, size_t length)
{
	fputs("X'", out);
	for (size_t i = 0; i < length; i++)
		fprintf(out, "%02x", bytes[i]);
	putc('\'', out);
}

const struct sql_dialect mysql_dialect = { put_bytes, '`' };

void call_begin(struct call *call, struct mysql_backend *my, struct mysql_conn *conn,
		const struct request *request)
{
	const char *token = request->token ? request->token : "", *text = request->text;
	const int64_t keep_us = request->keep_ms * 1000;

	call->my = my;
	call->conn = conn;
	call->request = request;
	sha256(token, strlen(token), my->digest);
	call->values[0] = SQL_LAST;
	sql_set(call->values, SQL_TEXT("name", request->name ? request->name : ""));
	sql_set(call->values, SQL_BLOB("token", my->digest, sizeof(my->digest)));
	sql_set(call->values, SQL_TEXT("strategy", my->strategy->name));
	sql_set(call->values, text ? SQL_TEXT("owner", text) : SQL_PART("owner", "NULL"));
	sql_set(call->values, SQL_INT("mode", sql_mode(request)));
	/* A hold that is retained has no client's token. */
	sql_set(call->values, SQL_PART("as", keep_us ? "CONCAT('kept ', place)" : "token"));
	sql_set(call->values, SQL_INT("ttl", keep_us ? keep_us : request->ttl_ms * 1000));
	sql_set(call->values, SQL_INT("keep", keep_us));
	sql_set(call->values, SQL_INT("alive", HOLD_ALIVE_MS * INT64_C(1000)));
	sql_set(call->values, SQL_INT("queue", request->queue));
	sql_set(call->values, SQL_INT("place", my->position));
	sql_set(call->values, SQL_INT("far", HOLD_FAR));
	sql_set(call->values, SQL_PART("all", "1"));
	sql_set(call->values, SQL_PART("conn", "conn"));
	sql_set(call->values, my->zone ? SQL_TEXT("zone", my->zone) : SQL_PART("zone", "DEFAULT"));
}

/* ---- requests ---- */

int mysql_start(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
		struct error *err)
{
	char *text = sql_format(&mysql_dialect, sql, values);

	assert(text);
	return mysql_conn_send(conn, text, err);
}

/* Open conn, and end an earlier request, to make it ready for a request. */
static int prepare_conn(struct mysql_conn *conn, struct error *err)
{
	MYSQL_RES *rows;

	if (conn->pending && !conn->session)
		mysql_conn_close(conn);
	if (conn->pending) {
		mysql_conn_receive(conn, &rows, err);
		mysql_free_result(rows);
	}
	return conn->pending ? -1 : mysql_conn_open(conn, err);
}

/* Run sql once. */
static int run_once(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
		    MYSQL_RES **rows, struct error *err)
{
	MYSQL_RES *mine = NULL;
	int failed;

	conn->sent = false;
	if (rows)
		*rows = NULL;
	if (prepare_conn(conn, err) || mysql_start(conn, sql, values, err))
		return -1;
	failed = mysql_conn_receive(conn, rows ? rows : &mine, err);
	mysql_free_result(mine);
	return failed;
}

void mysql_end_stale(struct mysql_conn *conn)
{
	const struct mysql_backend *my = mysql_from_backend(conn->backend);
	const struct sql_value values[] = {
		SQL_INT("stale", my->address.stale),
		SQL_BLOB("token", my->digest, sizeof(my->digest)), SQL_LAST
	};
	struct error ignored = { 0 };

	if (!my->address.stale || conn->session || mysql_conn_open(conn, &ignored))
		return;
	conn->address->stale = 0;
	run_once(conn, sql_end_stale, values, NULL, &ignored);
}

bool mysql_is_missing(const struct mysql_conn *conn)
{
	return conn->code == ER_NO_SUCH_TABLE;
}

int mysql_make_tables(struct mysql_conn *conn, struct error *err)
{
	if (!mysql_run(conn, mysql_from_backend(conn->backend)->strategy->tables, NULL, NULL, err))
		return 0;
	if (conn->code == ER_TABLEACCESS_DENIED_ERROR)
		error_set(err, ERROR_REFUSED, 0, "%s: tables are missing, and this account may "
			  "not make them: 'dlock setup --dry-run' prints the SQL for one that may",
			  conn->address->hosts.label);
	return -1;
}

/* Roll back after an error, which leaves a transaction open with its locked rows. */
static void roll_back(struct mysql_conn *conn)
{
	const unsigned int code = conn->code;
	struct error ignored = { 0 };

	if (conn->mysql && !conn->session && conn->mysql->server_status & SERVER_STATUS_IN_TRANS)
		run_once(conn, "ROLLBACK", NULL, NULL, &ignored);
	conn->code = code;
}

int mysql_run(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
	      MYSQL_RES **rows, struct error *err)
{
	const struct sql_hosts *hosts = &conn->address->hosts;
	size_t sent_to = 0, most;

	for (size_t tries = 0;; tries++) {
		*err = (struct error){ .kind = ERROR_NONE };
		mysql_end_stale(conn);
		if (!run_once(conn, sql, values, rows, err)) {
			/* Another host has not received the first request. */
			conn->backend->resent |= tries && hosts->at == sent_to;
			return 0;
		}
		roll_back(conn);
		/* A host that takes no writes is passed over at once, so ask all of them. */
		most = mysql_classify(conn->code) == SQL_ELSEWHERE && hosts->count > 1 ?
		       hosts->count - 1 : 1;
		/* Do not repeat a request to a server that hangs, but send it to the next one. */
		if (tries >= most || conn->session || conn->mysql || !conn->sent ||
		    err->kind != ERROR_UNAVAILABLE ||
		    (err->errnum == ETIMEDOUT && hosts->count == 1))
			return -1;
		sent_to = hosts->at;
		if (rows)
			mysql_free_result(*rows);
	}
}

int mysql_persist(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
		  int64_t limit_ms, unsigned int columns, MYSQL_RES **rows, struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + limit_ms;
	size_t hosts = conn->session ? 1 : conn->address->hosts.count;
	int failed;

	for (;;) {
		failed = mysql_run(conn, sql, values, rows, err);
		if (!failed && *rows && mysql_num_fields(*rows) == columns)
			return 0;
		mysql_free_result(*rows);
		*rows = NULL;
		if (failed && !mysql_contended(conn))
			return -1;
		if (!failed) {
			mysql_unexpected(conn, err);
			roll_back(conn);
		}
		if (clock_boot_ms() >= until_ms) {
			/* This host may be locked, as by a backup, and the next one not. */
			if (!failed || !--hosts)
				return -1;
			mysql_conn_leave(conn);
		}
		/* The request may have been carried out up to its last statement. */
		conn->backend->resent = true;
		usleep((useconds_t)(rand() % CONTENTION_US));
	}
}

bool mysql_contended(const struct mysql_conn *conn)
{
	return mysql_classify(conn->code) == SQL_CONTENTION;
}
