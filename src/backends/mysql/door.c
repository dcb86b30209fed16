/* SPDX-License-Identifier: MIT */
/* The strategies row, advisory and table: see door.h. */
#include "door.h"

#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* MySQL takes no more for wait_timeout: a year. */
#define YEAR_S 31536000
/* How long a waiter that hangs keeps the door. */
#define HUNG_S 4
/* The name of the lock of `dlock check`, which no table has. */
#define PROBE_NAME "dlock-check"

const struct door_kind door_row = {
	.begin_sql = sql_row_begin,
	.pass_sql = sql_row_pass,
	.prove_sql = sql_row_prove,
	.open_sql = sql_row_open,
	.probe_sql = sql_row_pass,
	.exclusive = "FOR UPDATE",
	.shared = "LOCK IN SHARE MODE",
};

const struct door_kind door_advisory = {
	.begin_sql = "",
	.pass_sql = sql_advisory_pass,
	.prove_sql = sql_advisory_prove,
	.open_sql = sql_advisory_open,
	.probe_sql = sql_advisory_probe,
	.exclusive = "",
};

const struct door_kind door_table = {
	.begin_sql = "",
	.pass_sql = sql_table_pass,
	.prove_sql = sql_table_prove,
	.open_sql = sql_table_open,
	.probe_sql = sql_table_pass,
	.exclusive = "WRITE",
	.shared = "READ",
};

/* ---- values ---- */

int64_t door_ttl_ms(const struct request *request)
{
	const int64_t idle_s = request->ttl_ms / 1000;

	return 1000 * (idle_s < 1 ? 1 : idle_s > YEAR_S ? YEAR_S : idle_s);
}

/* limit_s: how long to wait at the door, in a sleep; 0: not at all. */
static void begin_call(struct call *call, struct mysql_backend *my, struct mysql_conn *conn,
		       const struct request *request, int64_t limit_s)
{
	const struct door_kind *kind = my->strategy->door;
	const bool shared = request->mode == HOLD_SHARED && kind->shared;
	const bool nowait = !limit_s && !shared;
	const char *name = request->name;

	call_begin(call, my, conn, request);
	sql_set(call->values, SQL_NAME("table", strcmp(name, PROBE_NAME) ? name : "dlock_probe"));
	sql_set(call->values, SQL_PART("clause", shared ? kind->shared : kind->exclusive));
	/* Oracle's server has it for exclusive rows only. For MariaDB the limit says the same. */
	sql_set(call->values, SQL_PART("nowait", nowait ? "/*!80001 NOWAIT */" : ""));
	sql_set(call->values, SQL_INT("limit", limit_s));
	/* A client that hangs when it gets the door in its sleep is disconnected soon. */
	sql_set(call->values, SQL_INT("idle", limit_s ? HUNG_S : request->ttl_ms / 1000));
}

/* ---- requests over the connection that passes the door ---- */

/* The row of each proof: see door_facts. */
enum answer { YES, NUMBER, IDLE_S, READ_ONLY, ANSWER_COLUMNS };

void door_drop(struct mysql_backend *my)
{
	mysql_conn_close(&my->conn);
	my->conn.session = my->at_door = false;
}

static enum outcome report_loss(const struct mysql_backend *my, const char *how, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", my->address.hosts.label, how);
	return OUTCOME_LOST;
}

/*
 * Does the answer show that the door is ours, or was until this request opened it? BUSY: no, or an
 * interrupt between two statements has cut the answer. LOST: this door can be no lock any more.
 */
static enum outcome classify_answer(const struct mysql_backend *my, size_t columns,
				    const int64_t answer[static ANSWER_COLUMNS], bool opened,
				    struct error *err)
{
	const bool in_transaction = my->conn.mysql->server_status & SERVER_STATUS_IN_TRANS;
	const bool transaction = my->strategy->door->begin_sql[0];

	if (columns < ANSWER_COLUMNS || !answer[YES] || (transaction && in_transaction == opened)) {
		report_loss(my, "the session no longer has the lock", err);
		return OUTCOME_BUSY;
	}
	if (answer[NUMBER] != my->conn.number || answer[IDLE_S] != my->idle_s)
		return report_loss(my, "wait_timeout does not stay as it was set: the session is "
				   "another one now; ?strategy=lease needs none of its own", err);
	if (answer[READ_ONLY] && !opened)
		return report_loss(my, "the server is read-only now, another one may be the "
				   "primary", err);
	return OUTCOME_HELD;
}

/* Prove that the door is ours, over the connection that has it, between other statements. */
static enum outcome request_proof(struct mysql_backend *my, const struct request *request,
				  const char *before, const char *after, struct error *err)
{
	char *text = memory_format("%s%s%s", before, my->strategy->door->prove_sql, after);
	int64_t answer[ANSWER_COLUMNS];
	struct call call;
	MYSQL_RES *rows;
	size_t columns;
	int failed;

	begin_call(&call, my, &my->conn, request, 0);
	failed = mysql_run(call.conn, text, call.values, &rows, err);
	free(text);
	columns = mysql_numbers(rows, answer, ANSWER_COLUMNS);
	if (failed)
		return my->conn.mysql ? OUTCOME_ERROR : OUTCOME_LOST;
	return classify_answer(my, columns, answer, after[0], err);
}

enum outcome door_prove(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const enum outcome outcome = request_proof(my, request, "", "", err);

	return outcome == OUTCOME_BUSY ? OUTCOME_LOST : outcome;
}

/* ---- passing the door ---- */

/* Did the last request fail because another program has the door? */
static bool is_taken(const struct mysql_conn *conn)
{
	return conn->code == ER_LOCK_WAIT_TIMEOUT || conn->code == MYSQL_LOCK_NOWAIT;
}

/* Pass the door by these statements. From then on it lives with this connection. */
static enum outcome pass_by(struct mysql_backend *my, const struct request *request,
			    const char *statements, struct error *err)
{
	enum outcome outcome;

	my->idle_s = request->ttl_ms / 1000;
	outcome = request_proof(my, request, statements, "", err);
	/* An interrupt may have come between the passage and its proof. */
	if (outcome != OUTCOME_HELD)
		door_drop(my);
	my->conn.session = outcome == OUTCOME_HELD;
	if (outcome == OUTCOME_ERROR && is_taken(&my->conn))
		return OUTCOME_BUSY;
	return outcome == OUTCOME_LOST ? OUTCOME_ERROR : outcome;
}

enum outcome door_try(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const struct door_kind *kind = my->strategy->door;
	char *text = memory_format("%s%s%s", sql_door_settings, kind->begin_sql, kind->pass_sql);
	enum outcome outcome = pass_by(my, request, text, err);

	if (mysql_is_missing(&my->conn) && !mysql_make_tables(&my->conn, err))
		outcome = pass_by(my, request, text, err);
	free(text);
	if (mysql_is_missing(&my->conn))
		error_set(err, ERROR_REFUSED, 0, "%s: there is no table of this name to lock; "
			  "?strategy=lease needs none", my->address.hosts.label);
	return outcome;
}

int door_wait(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const struct door_kind *kind = my->strategy->door;
	char *text = memory_format("%s%s", sql_door_settings, kind->begin_sql);
	struct call call;
	int failed;

	begin_call(&call, my, &my->conn, request, HOLD_RETRY_MS / 1000);
	failed = mysql_run(call.conn, text, call.values, NULL, err) ||
		 mysql_start(call.conn, kind->pass_sql, call.values, err);
	free(text);
	my->at_door = !failed;
	return failed ? -1 : 0;
}

enum outcome door_wake(struct mysql_backend *my, const struct request *request, struct error *err)
{
	MYSQL_RES *rows;
	const bool failed = mysql_conn_receive(&my->conn, &rows, err);
	int64_t yes;

	my->at_door = false;
	mysql_numbers(rows, &yes, 1);
	if (failed && !mysql_contended(&my->conn))
		return OUTCOME_ERROR;
	if (failed || !yes)
		return OUTCOME_BUSY;
	/* Over another connection the proof would prove nothing. */
	my->conn.session = true;
	return pass_by(my, request, sql_door_settings, err);
}

enum outcome door_open(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const char *open_sql = my->strategy->door->open_sql;
	const enum outcome outcome = request_proof(my, request, "", open_sql, err);

	if (outcome != OUTCOME_HELD)
		door_drop(my);
	my->conn.session = false;
	return outcome == OUTCOME_HELD ? OUTCOME_HELD : OUTCOME_LOST;
}

int door_probe(struct mysql_backend *my, const char *name, bool *taken, int64_t *number,
	       struct error *err)
{
	const struct request request = { .name = name };
	const struct door_kind *kind = my->strategy->door;
	char *text = memory_format("%s%s", sql_door_settings, kind->probe_sql);
	struct call call;
	MYSQL_RES *rows;
	int failed;

	begin_call(&call, my, &my->side, &request, 0);
	failed = mysql_run(call.conn, text, call.values, &rows, err);
	free(text);
	mysql_numbers(rows, number, 1);
	*taken = failed ? is_taken(&my->side)
			: kind->probe_sql != kind->pass_sql && *number > 0;
	failed = failed && !*taken && !mysql_is_missing(&my->side);
	/* The end of the connection frees what the probe has taken. */
	mysql_conn_close(&my->side);
	return failed ? -1 : 0;
}
