/* SPDX-License-Identifier: MIT */
/* The queue of a lock: taking, waking, holding, showing. See entries.h. */
#include "entries.h"

#include <errno.h>
#include <inttypes.h>
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
/* How often to wake at most, and how soon a waiter has to look at the queue after that. */
#define WAKE_MOST 20
#define WAKE_PAUSE_US 4000
/* {which} of entries_waiters: the waiters that may get the lock. */
#define NOT_REPLACED "newer = ''"

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
		SQL_INT("alive", ALIVE_US),
		SQL_PART("which", NOT_REPLACED),
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

/* The answer of a request that changes holds, or removes a dead waiter: see entries_waiters. */
struct change {
	int64_t count;		/* of rows that were changed */
	int64_t connection;	/* of the hold that was removed */
	int64_t first, last;	/* positions of the first two waiters; 0: there is none */
};

#define CHANGE_COLUMNS 4

static int request_change(struct mysql_backend *my, struct mysql_conn *conn, const char *sql,
			  const struct params *params, int64_t limit_ms, struct change *change,
			  struct error *err)
{
	int64_t numbers[CHANGE_COLUMNS];
	MYSQL_RES *rows;
	int failed;

	failed = mysql_persist(my, conn, sql, params->values, limit_ms, CHANGE_COLUMNS, &rows, err);
	mysql_numbers(rows, numbers, CHANGE_COLUMNS);
	*change = (struct change){ numbers[0], numbers[1], numbers[2], numbers[3] };
	return failed;
}

/* Has the waiter at {place} looked at the queue soon after it was woken? */
static bool has_looked(struct mysql_backend *my, struct mysql_conn *conn,
		       const struct params *params)
{
	struct error ignored = { 0 };
	int64_t unseen;
	MYSQL_RES *rows;

	usleep(WAKE_PAUSE_US);
	mysql_run(my, conn, sql_entries_unseen, params->values, &rows, &ignored);
	return mysql_numbers(rows, &unseen, 1) && !unseen;
}

/*
 * Wake the first waiter that a request has listed, to take the lock. If it does not look at the
 * queue, wake the second one, to watch whether the first one does, and others instead of dead ones.
 * The server notices a client's death in its sleep only after a wake-up.
 */
static void wake_listed(struct mysql_backend *my, struct mysql_conn *conn, struct params *params,
			struct change list)
{
	int64_t place = list.first, numbers[2];	/* see entries_wake */
	struct error ignored = { 0 };
	MYSQL_RES *rows;

	for (int i = 0; place && i < WAKE_MOST; i++) {
		params_add(params, (const struct sql_value[]){ SQL_INT("place", place), SQL_LAST });
		mysql_run(my, conn, sql_entries_wake, params->values, &rows, &ignored);
		if (mysql_numbers(rows, numbers, 2) < 2 || numbers[0])
			continue;
		if (numbers[1] && (list.first == list.last || has_looked(my, conn, params)))
			break;
		request_change(my, conn, sql_entries_remove_dead, params, TAKE_MS, &list, &ignored);
		place = list.count ? list.first : place < list.last ? list.last : 0;
	}
}

/* Wake the first waiters in a list. which: an SQL condition. Returns the first one, or 0. */
static int64_t wake_waiters(struct mysql_backend *my, struct mysql_conn *conn,
			    struct params *params, const char *which)
{
	struct error ignored = { 0 };
	struct change list;

	params_add(params, (const struct sql_value[]){ SQL_PART("which", which), SQL_LAST });
	request_change(my, conn, sql_entries_waiters, params, TAKE_MS, &list, &ignored);
	wake_listed(my, conn, params, list);
	return list.first;
}

static void wake_replaced(struct mysql_backend *my, struct mysql_conn *conn, struct params *params)
{
	char which[64];
	int64_t first = 0;

	do {
		snprintf(which, sizeof(which), "newer <> '' AND place > %" PRId64, first);
		first = wake_waiters(my, conn, params, which);
	} while (first);
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
	if (!row) {
		mysql_free_result(rows);
		mysql_unexpected(conn, err);
		return OUTCOME_ERROR;
	}
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
	if (outcome == OUTCOME_ERROR && (how->fresh || how->wake) && request->queue &&
	    err->kind == ERROR_UNAVAILABLE)
		return OUTCOME_BUSY;
	/* Waiters behind a shared hold may hold, too, and behind a slot if one is free. */
	if (outcome == OUTCOME_HELD && (request->mode == HOLD_SHARED ||
					state->before + 1 < request->slots))
		wake_waiters(my, conn, params, NOT_REPLACED);
	if (outcome == OUTCOME_BUSY && request->replaces && state->position)
		wake_replaced(my, conn, params);
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
		SQL_INT("late", how->late),
		SQL_INT("queue", request->queue),
		SQL_INT("replaces", request->replaces && request->queue),
		/* A request that is sent a second time has a connection with another number. */
		how->connection == 0 ? (struct sql_value)SQL_PART("conn", "CONNECTION_ID()") :
		(struct sql_value)SQL_INT("conn", how->connection == ENTRIES_AT_DOOR
							  ? 0 : how->connection),
		SQL_LAST
	});
	if (how->wake)
		wake_waiters(my, conn, &params, NOT_REPLACED);
	if (how->fresh)
		outcome = request_lock(my, conn, my->strategy->statements->try_sql, request,
				       &params, state, err);
	/* Without a wait, write nothing. Only the other statement compares slots. */
	if (outcome == OUTCOME_BUSY &&
	    (request->queue || !state->excluded || request->mode == HOLD_SLOT))
		outcome = take_queued(my, conn, request, how, &params, state, err);
	if (outcome == OUTCOME_ERROR && (how->fresh || !request->queue) &&
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

/* Run a statement that changes holds, for at most limit_ms. HELD: it has changed one. */
static enum outcome change_hold(struct mysql_backend *my, struct mysql_conn *conn, const char *sql,
				const struct params *params, int64_t limit_ms,
				struct change *change, struct error *err)
{
	if (request_change(my, conn, sql, params, limit_ms, change, err))
		return mysql_is_missing(conn) ? OUTCOME_LOST : OUTCOME_ERROR;
	if (change->count > 0)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: this hold has ended, or somebody else has it now",
		  my->address.label);
	return OUTCOME_LOST;
}

enum outcome entries_renew(struct mysql_backend *my, struct mysql_conn *conn,
			   const struct request *request, struct error *err)
{
	enum outcome outcome;
	struct change change;
	struct params params;

	make_params(&params, my, request);
	outcome = change_hold(my, conn, my->strategy->statements->renew_sql, &params, TAKE_MS,
			      &change, err);
	/* With another record, the lease may end before the time that waiters know. */
	if (outcome == OUTCOME_HELD && request->text)
		wake_waiters(my, conn, &params, NOT_REPLACED);
	return outcome;
}

enum outcome entries_release(struct mysql_backend *my, struct mysql_conn *conn,
			     const struct request *request, struct error *err)
{
	const struct entries_statements *statements = my->strategy->statements;
	enum outcome outcome;
	struct change change;
	struct params params;
	bool resent;

	my->base.resent = false;
	make_params(&params, my, request);
	outcome = change_hold(my, conn, request->keep_ms > 0 ? statements->keep_sql
							     : statements->release_sql,
			      &params, my->base.timeout_ms, &change, err);
	resent = my->base.resent;
	wake_listed(my, conn, &params, change);
	my->base.resent = resent;
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

	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_PART("there", my->strategy->door ? sql_entries_there : "1"), SQL_LAST });
	if (mysql_persist(my, conn, sql, params.values, TAKE_MS, request->name ? SHOWN : 1, &from,
			  err))
		/* Without tables there are no locks. */
		return mysql_is_missing(conn) ? 0 : -1;
	if (!request->name)
		add_names(from, &rows->names);
	else
		while ((row = mysql_fetch_row(from)))
			show_row(my->strategy, row, mysql_fetch_lengths(from), rows);
	mysql_free_result(from);
	return 0;
}

enum outcome entries_break(struct mysql_backend *my, struct mysql_conn *conn, const char *name,
			   const struct row *row, int64_t *connection, struct error *err)
{
	const struct request request = { .name = name };
	enum outcome outcome;
	struct change change;
	struct params params;

	make_params(&params, my, &request);
	params_add(&params, (const struct sql_value[]){
		SQL_TEXT("row", row->id), SQL_INT("fence", (int64_t)row->fence), SQL_LAST });
	outcome = change_hold(my, conn, my->strategy->statements->break_sql, &params,
			      my->base.timeout_ms, &change, err);
	*connection = change.connection;
	wake_listed(my, conn, &params, change);
	return outcome;
}
