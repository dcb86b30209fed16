/* SPDX-License-Identifier: MIT */
/* The strategies row, advisory and table: see door.h. */
#include "door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* MySQL takes no more for wait_timeout: a year. */
#define YEAR_S 31536000
/* How long a waiter that hangs keeps the door. */
#define HUNG_S 4
/* How often to try when the row or the tables have to be made first. */
#define ATTEMPTS 3
/* The name of the lock of `dlock check`, which no table has. */
#define PROBE_NAME "dlock-check"
/* Room for the name of a lock in the server. */
#define KEY_SIZE 65
/* Without NOWAIT, the server waits for a second, which the statement "session" sets. */
#define NOWAIT_MARIADB "/*M!100300 NOWAIT */"
#define NOWAIT_MYSQL "/*!80001 NOWAIT */"

const struct door_kind door_row = {
	.try_sql = sql_row_try,
	.ready_sql = sql_row_ready,
	.wait_sql = sql_row_wait,
	.prove_sql = sql_door_prove,
	.open_sql = sql_row_open,
	.make_sql = sql_row_make,
	.probe_sql = sql_row_probe,
	.exclusive = "FOR UPDATE",
	.shared = "LOCK IN SHARE MODE",
	.nowait = NOWAIT_MARIADB NOWAIT_MYSQL,
	.transaction = true,
};

const struct door_kind door_advisory = {
	.try_sql = sql_advisory_try,
	.ready_sql = sql_door_ready,
	.wait_sql = sql_advisory_wait,
	.prove_sql = sql_advisory_prove,
	.open_sql = sql_advisory_open,
	.probe_sql = sql_advisory_probe,
	.exclusive = "",
	.nowait = "",
};

const struct door_kind door_table = {
	.try_sql = sql_table_try,
	.ready_sql = sql_door_ready,
	.wait_sql = sql_table_wait,
	.prove_sql = sql_door_prove,
	.open_sql = sql_table_open,
	.probe_sql = sql_table_probe,
	.exclusive = "WRITE",
	.shared = "READ",
	.nowait = NOWAIT_MARIADB,
};

static const struct door_kind *kind_of(const struct mysql_backend *my)
{
	return my->strategy->door;
}

/* ---- values ---- */

int64_t door_ttl_ms(const struct request *request)
{
	const int64_t idle_s = request->ttl_ms / 1000;

	return 1000 * (idle_s < 1 ? 1 : idle_s > YEAR_S ? YEAR_S : idle_s);
}

/*
 * Write the name of a lock of the server. These have at most 64 characters, and the server may
 * ignore case and accents. A name without such characters is used as it is, and any other one by
 * its digest.
 */
static void make_key(const char *name, char key[static KEY_SIZE])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.:/+=@,#";
	unsigned char digest[SHA256_SIZE];
	const size_t length = strlen(name);

	if (length < KEY_SIZE && strspn(name, plain) == length) {
		memcpy(key, name, length + 1);
		return;
	}
	sha256(name, length, digest);
	memcpy(key, "dlock:", 6);
	for (int i = 0; i < 24; i++)
		snprintf(key + 6 + 2 * i, 3, "%02x", digest[i]);
}

/* key: room for the name in the server, to which the values point. */
static void begin_call(struct call *call, struct mysql_backend *my, struct mysql_conn *conn,
		       const struct request *request, char key[static KEY_SIZE])
{
	const struct door_kind *kind = my->strategy->door;
	const bool shared = request->mode == HOLD_SHARED && kind->shared;
	const int64_t idle_s = request->ttl_ms / 1000;
	const char *name = request->name;

	call_begin(call, my, conn, request);
	make_key(name, key);
	call_set(call, SQL_NAME("table", strcmp(name, PROBE_NAME) ? name : "dlock_probe"));
	call_set(call, SQL_TEXT("key", key));
	call_set(call, SQL_PART("clause", shared ? kind->shared : kind->exclusive));
	call_set(call, SQL_PART("nowait", shared ? NOWAIT_MARIADB : kind->nowait));
	call_set(call, SQL_INT("idle", idle_s));
	call_set(call, SQL_INT("hung", idle_s < HUNG_S ? idle_s : HUNG_S));
	call_set(call, SQL_INT("limit", HOLD_RETRY_MS / 1000));
}

/* ---- requests over the connection that passes the door ---- */

/* The row of each statement; see door_facts. */
struct door_answer {
	bool there;		/* there is a row */
	int64_t yes, number, idle_s, read_only;
};

/* Read the answer, and free rows. */
static void read_answer(MYSQL_RES *rows, struct door_answer *answer)
{
	int64_t numbers[4];
	const bool there = mysql_numbers(rows, numbers, 4) == 4;

	*answer = (struct door_answer){ there, numbers[0], numbers[1], numbers[2], numbers[3] };
}

static int request_door(struct mysql_backend *my, const char *sql, const struct request *request,
			struct door_answer *answer, struct error *err)
{
	struct call call;
	char key[KEY_SIZE];
	MYSQL_RES *rows;
	int failed;

	begin_call(&call, my, &my->conn, request, key);
	failed = mysql_run(call.conn, sql, call.values, &rows, err);
	read_answer(rows, answer);
	return failed;
}

void door_drop(struct mysql_backend *my)
{
	mysql_conn_close(&my->conn);
	my->conn.session = my->at_door = false;
}

static enum outcome report_loss(const struct mysql_backend *my, const char *how, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", my->address.label, how);
	return OUTCOME_LOST;
}

/* From now on the door lives with this connection. */
static void mark_passed(struct mysql_backend *my, const struct request *request)
{
	my->conn.session = true;
	my->idle_s = request->ttl_ms / 1000;
}

/* Does the answer show that the door is ours, or was until this request opened it? */
static enum outcome classify_answer(const struct mysql_backend *my,
				    const struct door_answer *answer, bool opened,
				    struct error *err)
{
	const bool in_transaction = my->conn.mysql->server_status & SERVER_STATUS_IN_TRANS;

	if (answer->number != my->conn.number || answer->idle_s != my->idle_s)
		return report_loss(my, "wait_timeout does not stay as it was set: the session is "
				   "another one now; ?strategy=lease needs none of its own", err);
	if (!answer->yes || (kind_of(my)->transaction && !opened && !in_transaction))
		return report_loss(my, "the session no longer has the lock", err);
	if (answer->read_only && !opened)
		return report_loss(my, "the server is read-only now, another one may be the "
				   "primary", err);
	return OUTCOME_HELD;
}

/* Run a statement over the connection that has the door. */
static enum outcome ask_session(struct mysql_backend *my, const char *sql,
				const struct request *request, bool opens, struct error *err)
{
	const struct mysql_conn *conn = &my->conn;
	struct door_answer answer;

	if (!conn->mysql)
		return report_loss(my, "the server closed the connection", err);
	if (request_door(my, sql, request, &answer, err))
		return conn->mysql ? OUTCOME_ERROR : OUTCOME_LOST;
	return classify_answer(my, &answer, opens, err);
}

enum outcome door_prove(struct mysql_backend *my, const struct request *request, struct error *err)
{
	return ask_session(my, kind_of(my)->prove_sql, request, false, err);
}

/* ---- passing the door ---- */

enum outcome door_try(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const struct door_kind *kind = kind_of(my);
	struct door_answer answer;

	for (int i = 0; i < ATTEMPTS; i++) {
		if (request_door(my, kind->try_sql, request, &answer, err)) {
			if (mysql_contended(&my->conn))
				return OUTCOME_BUSY;
			if (i == 0 && mysql_is_missing(&my->conn) &&
			    !mysql_make_tables(&my->conn, err))
				continue;
			if (i > 0 && mysql_is_missing(&my->conn))
				error_set(err, ERROR_REFUSED, 0, "%s: there is no table of this "
					  "name to lock; ?strategy=lease needs none",
					  my->address.label);
			return OUTCOME_ERROR;
		}
		if (answer.yes) {
			mark_passed(my, request);
			return classify_answer(my, &answer, false, err) == OUTCOME_HELD
			       ? OUTCOME_HELD : OUTCOME_ERROR;
		}
		if (answer.there || !kind->make_sql)
			return OUTCOME_BUSY;
		if (request_door(my, kind->make_sql, request, &answer, err) &&
		    !mysql_contended(&my->conn))
			return OUTCOME_ERROR;
	}
	return OUTCOME_BUSY;
}

int door_wait(struct mysql_backend *my, const struct request *request, struct error *err)
{
	struct mysql_conn *conn = &my->conn;
	struct door_answer ignored;
	struct call call;
	char key[KEY_SIZE];

	begin_call(&call, my, conn, request, key);
	if (request_door(my, kind_of(my)->ready_sql, request, &ignored, err) ||
	    mysql_start(conn, kind_of(my)->wait_sql, call.values, err))
		return -1;
	my->at_door = true;
	return 0;
}

enum outcome door_wake(struct mysql_backend *my, const struct request *request, struct error *err)
{
	struct mysql_conn *conn = &my->conn;
	struct door_answer answer;
	MYSQL_RES *rows;
	char *text;
	int failed = mysql_conn_receive(conn, &rows, err);
	enum outcome outcome;

	my->at_door = false;
	read_answer(rows, &answer);
	if (failed)
		return mysql_contended(conn) ? OUTCOME_BUSY : OUTCOME_ERROR;
	/* LOCK TABLES gives no row. */
	if (!answer.yes && (answer.there || kind_of(my)->make_sql))
		return OUTCOME_BUSY;
	mark_passed(my, request);
	text = memory_format("%s%s", sql_door_confirm, kind_of(my)->prove_sql);
	outcome = ask_session(my, text, request, false, err);
	free(text);
	if (outcome == OUTCOME_HELD)
		return outcome;
	/* The door was lost before anything depended on it. */
	err->kind = ERROR_UNAVAILABLE;
	return OUTCOME_ERROR;
}

enum outcome door_open(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const enum outcome outcome = ask_session(my, kind_of(my)->open_sql, request, true, err);

	if (outcome != OUTCOME_HELD)
		door_drop(my);
	my->conn.session = my->at_door = false;
	return outcome == OUTCOME_HELD ? OUTCOME_HELD : OUTCOME_LOST;
}

int door_probe(struct mysql_backend *my, const char *name, bool *taken, int64_t *number,
	       struct error *err)
{
	const struct request request = { .name = name };
	struct call call;
	char key[KEY_SIZE];
	MYSQL_RES *rows;
	int failed;

	begin_call(&call, my, &my->side, &request, key);
	failed = mysql_run(call.conn, kind_of(my)->probe_sql, call.values, &rows, err);
	mysql_numbers(rows, number, 1);
	*taken = failed ? mysql_contended(&my->side) : !kind_of(my)->exclusive[0] && *number > 0;
	failed = failed && !*taken && !mysql_is_missing(&my->side);
	/* The end of the connection frees what the probe has taken. */
	mysql_conn_close(&my->side);
	return failed ? -1 : 0;
}
