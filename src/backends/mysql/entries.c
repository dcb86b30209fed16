/* SPDX-License-Identifier: MIT */
/* The queue of a lock: taking, waking, holding, showing. See entries.h. */
#include "entries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"

/* The time for which a waiter counts as alive after each of its requests. */
#define ALIVE_US INT64_C(20000000)
/* How long a request to take is repeated under contention; a waiter tries later. */
#define TAKE_MS 200
/* How many waiters are woken: one to take the lock, and one to watch it. */
#define WOKEN 2
/* How often to wake a connection, because a server may not show what a busy one does. */
#define WAKE_AGAIN 3
#define WAKE_PAUSE_US 4000

static void make_params(struct params *params, struct mysql_backend *my,
			const struct request *request)
{
	const int64_t mode = request->mode == HOLD_SHARED ? -1 :
			     request->mode == HOLD_SLOT ? request->slots : 0;

	params_begin(params, my, request);
	params_add(params, (const struct sql_value[]){
		SQL_INT("mode", mode),
		SQL_INT("ttl", request->ttl_ms * 1000),
		SQL_INT("keep", request->keep_ms * 1000),
		SQL_PART("which", "q.newer = ''"),
		SQL_LAST
	});
	if (my->strategy->statements->add_params)
		my->strategy->statements->add_params(my, request, params);
}

static int64_t column_number(MYSQL_ROW row, int column)
{
	return row[column] ? strtoll(row[column], NULL, 10) : 0;
}

/* ---- waking ---- */

/* Interrupt the waiter at {place}, if it sleeps. False: its connection is gone. */
static bool wake_one(struct mysql_backend *my, struct mysql_conn *conn, struct params *params)
{
	int64_t numbers[2] = { 1, 1 };	/* see entries_wake */
	struct error ignored = { 0 };
	MYSQL_RES *rows;
	int failed;

	for (int i = 0; i < WAKE_AGAIN && numbers[1]; i++) {
		if (i)
			usleep(WAKE_PAUSE_US);
		failed = mysql_run(my, conn, sql_entries_wake, params->values, &rows, &ignored);
		if (mysql_numbers(rows, numbers, 2) < 2 || (failed && mysql_contended(conn)))
			numbers[0] = numbers[1] = 1;
	}
	return numbers[0];
}

/* Remove the first dead waiter up to the last one that was woken. Returns how many were. */
static int remove_dead(struct mysql_backend *my, struct mysql_conn *conn,
		       const struct params *params)
{
	struct error ignored = { 0 };
	int64_t dead = 0;
	MYSQL_RES *rows;

	mysql_run(my, conn, sql_entries_remove_dead, params->values, &rows, &ignored);
	mysql_numbers(rows, &dead, 1);
	return (int)dead;
}

/*
 * Wake the first waiters in a list from entries_waiters, and remove dead ones. The server notices a
 * client's death in its sleep only after a wake-up.
 */
static void wake_listed(struct mysql_backend *my, struct mysql_conn *conn, struct params *params,
			MYSQL_RES *list, int most)
{
	const bool resent = my->base.resent;
	MYSQL_ROW row;

	mysql_data_seek(list, 0);
	for (int woken = 0; (row = mysql_fetch_row(list)) && row[2];) {
		if (woken == most) {
			usleep(WAKE_PAUSE_US);
			woken -= remove_dead(my, conn, params);
		}
		if (woken == most)
			break;
		params_add(params, (const struct sql_value[]){
			SQL_INT("place", column_number(row, 2)), SQL_LAST });
		woken++;
		if (!wake_one(my, conn, params))
			woken -= remove_dead(my, conn, params);
	}
	my->base.resent = resent;
}

/* Wake up to most waiters of the lock. which: an SQL condition. */
static void wake_waiters(struct mysql_backend *my, struct mysql_conn *conn, struct params *params,
			 const char *which, int most)
{
	struct error ignored = { 0 };
	MYSQL_RES *list;

	params_add(params, (const struct sql_value[]){ SQL_PART("which", which), SQL_LAST });
	if (!mysql_persist(my, conn, sql_entries_waiters, params->values, TAKE_MS, 4, &list,
			   &ignored))
		wake_listed(my, conn, params, list, most);
	mysql_free_result(list);
}

/* ---- taking ---- */

/* The columns of entries_try and entries_take. */
enum column {
	COLUMN_TAKEN, COLUMN_NUMBER, COLUMN_EXCLUDED, COLUMN_POSITION, COLUMN_BEFORE,
	COLUMN_WAITING, COLUMN_LEFT, COLUMN_FOREIGN, COLUMN_SLOTS, COLUMN_LATE, COLUMN_NEWER,
	COLUMNS
};

/* Run a statement that tries to take the lock, and make missing tables. */
static enum outcome request_lock(struct mysql_backend *my, struct mysql_conn *conn, const char *sql,
				 const struct request *request, const struct params *params,
				 struct entries_state *state, struct error *err)
{
	MYSQL_RES *rows;
	MYSQL_ROW row;
	bool taken;
	int slots, failed = mysql_persist(my, conn, sql, params->values, TAKE_MS, COLUMNS, &rows,
					  err);

	if (failed && mysql_is_missing(conn) && !mysql_make_tables(my, conn, err))
		failed = mysql_persist(my, conn, sql, params->values, TAKE_MS, COLUMNS, &rows, err);
	if (failed)
		return mysql_contended(conn) ? OUTCOME_BUSY : OUTCOME_ERROR;
	row = mysql_fetch_row(rows);
	*state = (struct entries_state){
		.number = column_number(row, COLUMN_NUMBER),
		.excluded = column_number(row, COLUMN_EXCLUDED),
		.position = column_number(row, COLUMN_POSITION),
		.before = column_number(row, COLUMN_BEFORE),
		.waiting = column_number(row, COLUMN_WAITING),
		.left_ms = column_number(row, COLUMN_LEFT) / 1000,
		.foreign = column_number(row, COLUMN_FOREIGN),
		.late = column_number(row, COLUMN_LATE),
	};
	taken = column_number(row, COLUMN_TAKEN) == 1;
	slots = (int)column_number(row, COLUMN_SLOTS);
	if (row[COLUMN_NEWER] && row[COLUMN_NEWER][0])
		state->newer = memory_copy(row[COLUMN_NEWER]);
	mysql_free_result(rows);
	if (taken || state->newer)
		return taken ? OUTCOME_HELD : OUTCOME_LOST;
	return slots && !hold_mode_slots_agree(slots, request, err) ? OUTCOME_ERROR : OUTCOME_BUSY;
}

/* Take the lock with an entry. */
static enum outcome take_queued(struct mysql_backend *my, struct mysql_conn *conn,
				const struct request *request, const struct entries_how *how,
				struct params *params, struct entries_state *state,
				struct error *err)
{
	enum outcome outcome = request_lock(my, conn, my->strategy->statements->take_sql, request,
					    params, state, err);

	/* Wait for a server that has answered a moment ago. */
	if (outcome == OUTCOME_ERROR && (how->fresh || how->wake) && how->queue &&
	    err->kind == ERROR_UNAVAILABLE)
		return OUTCOME_BUSY;
	/* Waiters behind a shared hold may hold, too, and behind a slot if one is free. */
	if (outcome == OUTCOME_HELD && (request->mode == HOLD_SHARED ||
					state->before + 1 < request->slots))
		wake_waiters(my, conn, params, "q.newer = ''", WOKEN);
	if (outcome == OUTCOME_BUSY && request->replaces && state->position)
		wake_waiters(my, conn, params, "q.newer <> ''", INT32_MAX);
	return outcome;
}

/*
 * Did the answer fail to come in time because the request waited behind those of others? A server
 * that hangs does not answer a release, either.
 */
static bool is_contended(struct mysql_backend *my, struct mysql_conn *conn,
			 const struct request *request, const struct error *err)
{
	struct error ignored = { 0 };

	return conn->sent && err->errnum == ETIMEDOUT &&
	       entries_release(my, conn, request, &ignored) != OUTCOME_ERROR;
}

enum outcome entries_take(struct mysql_backend *my, struct mysql_conn *conn,
			  const struct request *request, const struct entries_how *how,
			  struct entries_state *state, struct error *err)
{
	enum outcome outcome = OUTCOME_BUSY;
	struct params params;

	*state = (struct entries_state){ .left_ms = -1 };
	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_INT("alive", ALIVE_US),
		SQL_INT("late", how->late),
		SQL_INT("queue", how->queue),
		SQL_INT("replaces", request->replaces && how->queue),
		/* A request that is sent a second time has a connection with another number. */
		how->connection == 0 ? (struct sql_value)SQL_PART("conn", "CONNECTION_ID()") :
		(struct sql_value)SQL_INT("conn", how->connection == ENTRIES_AT_DOOR
							  ? 0 : how->connection),
		SQL_LAST
	});
	if (how->wake)
		wake_waiters(my, conn, &params, "q.newer = ''", 1);
	if (how->fresh)
		outcome = request_lock(my, conn, my->strategy->statements->try_sql, request,
				       &params, state, err);
	/* Without a wait, write nothing. Only the other statement compares slots. */
	if (outcome == OUTCOME_BUSY &&
	    (how->queue || !state->excluded || request->mode == HOLD_SLOT))
		outcome = take_queued(my, conn, request, how, &params, state, err);
	if (outcome == OUTCOME_ERROR && (how->fresh || !how->queue) &&
	    is_contended(my, conn, request, err))
		return OUTCOME_BUSY;
	return outcome;
}

int entries_sleep(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		  int64_t position, int64_t sleep_ms, struct error *err)
{
	struct params params;

	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_INT("place", position), SQL_INT("sleep", sleep_ms), SQL_LAST });
	return mysql_start(conn, sql_entries_sleep, params.values, err);
}

int entries_awake(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		  int64_t position, struct error *err)
{
	struct params params;
	MYSQL_RES *rows;
	int failed;

	if (strstr(mysql_get_server_info(conn->mysql), "MariaDB"))
		return 0;
	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){ SQL_INT("place", position), SQL_LAST });
	failed = mysql_persist(my, conn, sql_entries_awake, params.values, my->base.timeout_ms, 1,
			       &rows, err);
	mysql_free_result(rows);
	/* A connection that is closed cannot be interrupted. */
	if (failed)
		mysql_conn_close(conn);
	return failed;
}

/* ---- holding ---- */

/*
 * Run a statement whose answer begins with the number of changed holds. *rows: the waiters to wake,
 * which the caller frees; NULL after an error.
 */
static enum outcome change_hold(struct mysql_backend *my, struct mysql_conn *conn, const char *sql,
				const struct params *params, int64_t limit_ms, MYSQL_RES **rows,
				struct error *err)
{
	if (mysql_persist(my, conn, sql, params->values, limit_ms, 4, rows, err))
		return mysql_is_missing(conn) ? OUTCOME_LOST : OUTCOME_ERROR;
	if (column_number(mysql_fetch_row(*rows), 0) > 0)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: this hold has ended, or somebody else has it now",
		  my->address.label);
	return OUTCOME_LOST;
}

enum outcome entries_renew(struct mysql_backend *my, struct mysql_conn *conn,
			   const struct request *request, bool sooner, struct error *err)
{
	enum outcome outcome;
	struct params params;
	MYSQL_RES *rows;

	make_params(&params, my, request);
	outcome = change_hold(my, conn, my->strategy->statements->renew_sql, &params, TAKE_MS,
			      &rows, err);
	mysql_free_result(rows);
	if (outcome == OUTCOME_HELD && sooner)
		wake_waiters(my, conn, &params, "q.newer = ''", WOKEN);
	return outcome;
}

enum outcome entries_release(struct mysql_backend *my, struct mysql_conn *conn,
			     const struct request *request, struct error *err)
{
	const struct entries_statements *statements = my->strategy->statements;
	enum outcome outcome;
	struct params params;
	MYSQL_RES *rows;

	make_params(&params, my, request);
	outcome = change_hold(my, conn, request->keep_ms > 0 ? statements->keep_sql
							     : statements->release_sql,
			      &params, my->base.timeout_ms, &rows, err);
	if (rows)
		wake_listed(my, conn, &params, rows, WOKEN);
	mysql_free_result(rows);
	return outcome;
}

/* ---- showing and breaking ---- */

/* The columns of entries_show. */
enum shown {
	SHOWN_LAST, SHOWN_FENCE, SHOWN_MODE, SHOWN_TOKEN, SHOWN_LEFT, SHOWN_AGE, SHOWN_OWNER,
	SHOWN_MINE, SHOWN_THERE, SHOWN
};

/* Add a row. A hold that lives with a connection has no end while that exists. */
static void show_row(const struct mysql_strategy *strategy, MYSQL_ROW from,
		     const unsigned long lengths[], struct rows *rows)
{
	const size_t length = lengths[SHOWN_TOKEN] < SHA256_SIZE ? lengths[SHOWN_TOKEN]
								 : SHA256_SIZE;
	const int64_t mode = column_number(from, SHOWN_MODE);
	struct row *row;
	char *text = NULL;

	rows->fence = (uint64_t)column_number(from, SHOWN_LAST);
	if (!from[SHOWN_TOKEN] || !from[SHOWN_OWNER])
		return;
	if (strategy->statements->read_owner)
		strategy->statements->read_owner(from[SHOWN_OWNER], &text);
	row = rows_add(rows, text ? text : from[SHOWN_OWNER],
		       text ? strlen(text) : lengths[SHOWN_OWNER]);
	free(text);
	for (size_t i = 0; i < length; i++)
		snprintf(row->id + 2 * i, 3, "%02x", (unsigned char)from[SHOWN_TOKEN][i]);
	row->fence = (uint64_t)column_number(from, SHOWN_FENCE);
	row->holds = row->fence > 0;
	row->mine = column_number(from, SHOWN_MINE) && column_number(from, SHOWN_THERE);
	row->mode = mode > 0 ? HOLD_SLOT : mode < 0 ? HOLD_SHARED : HOLD_EXCLUSIVE;
	row->slots = mode > 0 ? (int)mode : 0;
	row->age_ms = column_number(from, SHOWN_AGE);
	if (row->age_ms < 0)
		row->age_ms = 0;
	if (row->holds && !(strategy->door && column_number(from, SHOWN_THERE)))
		row->left_ms = column_number(from, SHOWN_LEFT);
}

static void add_names(MYSQL_RES *from, struct name_list *names)
{
	MYSQL_ROW row;

	while ((row = mysql_fetch_row(from)))
		if (row[0])
			name_list_add(names, row[0], mysql_fetch_lengths(from)[0]);
}

int entries_show(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		 struct rows *rows, struct error *err)
{
	const char *sql = request->name ? my->strategy->statements->show_sql
					 : my->strategy->statements->list_sql;
	struct params params;
	MYSQL_RES *from;
	MYSQL_ROW row;
	int failed;

	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_PART("there", my->strategy->door ? sql_entries_there : "1"), SQL_LAST });
	failed = mysql_run(my, conn, sql, params.values, &from, err);
	/* Without tables there are no locks. */
	if (failed && mysql_is_missing(conn))
		failed = 0;
	else if (!failed && from && !request->name)
		add_names(from, &rows->names);
	else if (!failed && from && mysql_num_fields(from) == SHOWN)
		while ((row = mysql_fetch_row(from)))
			show_row(my->strategy, row, mysql_fetch_lengths(from), rows);
	mysql_free_result(from);
	return failed;
}

enum outcome entries_break(struct mysql_backend *my, struct mysql_conn *conn, const char *name,
			   const struct row *row, int64_t *connection, struct error *err)
{
	const struct request request = { .name = name };
	char literal[ROW_ID_SIZE + 4];
	enum outcome outcome;
	struct params params;
	MYSQL_RES *rows;

	snprintf(literal, sizeof(literal), "X'%s'", row->id);
	make_params(&params, my, &request);
	params_add(&params, (const struct sql_value[]){
		SQL_PART("row", literal), SQL_INT("fence", (int64_t)row->fence), SQL_LAST });
	outcome = change_hold(my, conn, my->strategy->statements->break_sql, &params,
			      my->base.timeout_ms, &rows, err);
	if (rows) {
		mysql_data_seek(rows, 0);
		*connection = column_number(mysql_fetch_row(rows), 1);
		wake_listed(my, conn, &params, rows, WOKEN);
	}
	mysql_free_result(rows);
	return outcome;
}
