/* SPDX-License-Identifier: MIT */
/* The queue of a lock: taking, waking, showing. See entries.h. */
#include "entries.h"

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
/* How long a request to take is repeated while others get in its way; a waiter comes again. */
#define TAKE_MS 200
/* So many waiters are woken: one to take the lock, and one to watch that. */
#define WOKEN 2
/* A server may miss what a busy connection does. */
#define WAKE_AGAIN 3
#define WAKE_PAUSE_US 4000

/* ---- taking ---- */

static int64_t number_of_mode(const struct request *request)
{
	switch (request->mode) {
	case HOLD_SHARED:
		return -1;
	case HOLD_SLOT:
		return request->slots;
	default:
		return 0;
	}
}

static void make_params(struct params *params, struct mysql_backend *my,
			const struct request *request)
{
	params_begin(params, my, request);
	params_add(params, (const struct sql_value[]){
		SQL_INT("mode", number_of_mode(request)),
		SQL_INT("ttl", request->ttl_ms * 1000),
		SQL_INT("keep", request->keep_ms * 1000),
		SQL_PART("which", "q.newer = ''"),
		SQL_LAST
	});
	if (my->strategy->texts->add_params)
		my->strategy->texts->add_params(my, request, params);
}

/* The columns of entries_take. */
enum column {
	COLUMN_TAKEN, COLUMN_NUMBER, COLUMN_PLACE, COLUMN_BEFORE, COLUMN_WAITING, COLUMN_LEFT,
	COLUMN_FOREIGN, COLUMN_SLOTS, COLUMN_READ_ONLY, COLUMN_NEWER, COLUMN_LATE, COLUMNS
};

static int64_t column_number(MYSQL_ROW row, int column)
{
	return row[column] ? strtoll(row[column], NULL, 10) : 0;
}

/* Frees rows. */
static enum outcome read_state(struct mysql_backend *my, struct mysql_conn *conn,
			       const struct request *request, MYSQL_RES *rows,
			       struct entries_state *state, struct error *err)
{
	MYSQL_ROW row = mysql_fetch_row(rows);
	enum outcome outcome = OUTCOME_BUSY;
	bool read_only;
	int slots;

	*state = (struct entries_state){
		.taken = column_number(row, COLUMN_TAKEN) == 1,
		.number = column_number(row, COLUMN_NUMBER),
		.place = column_number(row, COLUMN_PLACE),
		.before = column_number(row, COLUMN_BEFORE),
		.waiting = column_number(row, COLUMN_WAITING),
		.left_ms = column_number(row, COLUMN_LEFT) / 1000,
		.foreign = column_number(row, COLUMN_FOREIGN),
		.late = column_number(row, COLUMN_LATE),
	};
	slots = (int)column_number(row, COLUMN_SLOTS);
	read_only = column_number(row, COLUMN_READ_ONLY);
	if (row[COLUMN_NEWER] && row[COLUMN_NEWER][0])
		state->newer = memory_copy(row[COLUMN_NEWER]);
	mysql_free_result(rows);
	if (state->taken)
		return OUTCOME_HELD;
	if (read_only) {
		mysql_read_only(my, conn, err);
		outcome = OUTCOME_ERROR;
	} else if (state->newer) {
		outcome = OUTCOME_LOST;
	} else if (slots && !hold_mode_slots_agree(slots, request, err)) {
		outcome = OUTCOME_ERROR;
	}
	return outcome;
}

/* Take a lock that is free and that nobody waits for, as most are. BUSY: it is not. */
static enum outcome try_empty(struct mysql_backend *my, struct mysql_conn *conn,
			      const struct params *params, struct entries_state *state,
			      bool *excluded, struct error *err)
{
	int64_t numbers[4];	/* see entries_try */
	MYSQL_RES *rows;

	if (mysql_persist(my, conn, my->strategy->texts->try_sql, params->values, TAKE_MS, 4,
			  &rows, err))
		return mysql_contended(conn) ? OUTCOME_BUSY : OUTCOME_ERROR;
	mysql_numbers(rows, numbers, 4);
	*excluded = !numbers[3];
	if (numbers[2]) {
		mysql_read_only(my, conn, err);
		return OUTCOME_ERROR;
	}
	*state = (struct entries_state){ .taken = numbers[0] == 1 && numbers[1] > 0,
					 .number = numbers[1] };
	return state->taken ? OUTCOME_HELD : OUTCOME_BUSY;
}

static void wake_listed(struct mysql_backend *my, struct mysql_conn *conn, struct params *params,
			MYSQL_RES *list, int most);

/* Wake waiters of the lock that this request concerns: which of them, and at most so many. */
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

enum outcome entries_take(struct mysql_backend *my, struct mysql_conn *conn,
			  const struct request *request, const struct entries_how *how,
			  struct entries_state *state, struct error *err)
{
	enum outcome outcome = OUTCOME_BUSY;
	struct params params;
	MYSQL_RES *rows;
	bool excluded = false;

	*state = (struct entries_state){ .left_ms = -1 };
	if (mysql_conn_open(conn, err))
		return OUTCOME_ERROR;
	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_INT("alive", ALIVE_US),
		SQL_INT("late", how->late),
		SQL_INT("queue", how->queue),
		SQL_INT("replaces", request->replaces && how->queue),
		/* A connection that breaks has another number when the request is sent again. */
		how->connection == 0 ? (struct sql_value)SQL_PART("conn", "CONNECTION_ID()") :
		(struct sql_value)SQL_INT("conn", how->connection == ENTRIES_AT_DOOR
							  ? 0 : how->connection),
		SQL_LAST
	});
	if (how->wake)
		wake_waiters(my, conn, &params, "q.newer = ''", 1);
	if (how->fresh)
		outcome = try_empty(my, conn, &params, state, &excluded, err);
	/* Somebody who does not wait writes nothing. Only the other text compares slots. */
	if (outcome != OUTCOME_BUSY ||
	    (excluded && !how->queue && request->mode != HOLD_SLOT))
		return outcome;
	if (mysql_persist(my, conn, my->strategy->texts->take_sql, params.values, TAKE_MS, COLUMNS,
			  &rows, err)) {
		if (mysql_contended(conn))
			return OUTCOME_BUSY;
		/* A server that has answered just now is worth to wait for. */
		return how->fresh && how->queue && err->kind == ERROR_UNAVAILABLE ? OUTCOME_BUSY
										  : OUTCOME_ERROR;
	}
	outcome = read_state(my, conn, request, rows, state, err);
	/* Those behind a shared hold or a slot may hold, too. */
	if (outcome == OUTCOME_HELD && request->mode != HOLD_EXCLUSIVE)
		wake_waiters(my, conn, &params, "q.newer = ''", WOKEN);
	if (outcome == OUTCOME_BUSY && request->replaces && how->enters)
		wake_waiters(my, conn, &params, "q.newer <> ''", INT32_MAX);
	return outcome;
}

int entries_sleep(struct mysql_backend *my, struct mysql_conn *conn, const struct request *request,
		  int64_t place, int64_t sleep_ms, struct error *err)
{
	struct params params;

	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_INT("place", place), SQL_INT("sleep", sleep_ms), SQL_LAST });
	return mysql_start(my, conn, sql_entries_sleep, params.values, err);
}

/* ---- waking ---- */

/*
 * Interrupt one waiter, if it sleeps. False: its connection is gone. A late wake-up that was meant
 * for our own sleep may interrupt this very request.
 */
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
		if (mysql_numbers(rows, numbers, 2) < 2 ||
		    (failed && conn->code != MYSQL_NO_SUCH_THREAD))
			numbers[0] = numbers[1] = 1;
	}
	return numbers[0];
}

/* How many of the waiters in these places have died, and are removed now. */
static int bury_woken(struct mysql_backend *my, struct mysql_conn *conn, struct params *params,
		      const char *places)
{
	struct error ignored = { 0 };
	int64_t dead = 0;
	MYSQL_RES *rows;

	usleep(WAKE_PAUSE_US);
	params_add(params, (const struct sql_value[]){ SQL_PART("woken", places), SQL_LAST });
	mysql_run(my, conn, sql_entries_bury_woken, params->values, &rows, &ignored);
	mysql_numbers(rows, &dead, 1);
	return (int)dead;
}

/*
 * Wake the first ones of a list that entries_waiters has made, and remove those that have died. Of
 * a client that died in its sleep, the server notices that after it was woken.
 */
static void wake_listed(struct mysql_backend *my, struct mysql_conn *conn, struct params *params,
			MYSQL_RES *list, int most)
{
	char places[24 * WOKEN] = "";
	MYSQL_ROW row;

	mysql_data_seek(list, 0);
	while ((row = mysql_fetch_row(list)) && row[2]) {
		if (most == 0) {
			most = bury_woken(my, conn, params, places);
			places[0] = '\0';
		}
		if (most == 0)
			break;
		params_add(params, (const struct sql_value[]){
			SQL_INT("place", column_number(row, 2)),
			SQL_INT("waiter", column_number(row, 3)), SQL_LAST });
		if (!wake_one(my, conn, params)) {
			mysql_try(my, conn, sql_entries_bury, params->values);
			continue;
		}
		most--;
		if (strlen(places) + 22 < sizeof(places))
			sprintf(places + strlen(places), "%s%" PRId64, places[0] ? ", " : "",
				column_number(row, 2));
	}
}

/* ---- holding ---- */

enum outcome entries_renew(struct mysql_backend *my, struct mysql_conn *conn,
			   const struct request *request, bool sooner, struct error *err)
{
	int64_t numbers[2];	/* see entries_renew */
	struct params params;
	MYSQL_RES *rows;

	make_params(&params, my, request);
	if (mysql_persist(my, conn, my->strategy->texts->renew_sql, params.values, TAKE_MS, 2,
			  &rows, err))
		return OUTCOME_ERROR;
	mysql_numbers(rows, numbers, 2);
	if (numbers[0] > 0) {
		if (sooner)
			wake_waiters(my, conn, &params, "q.newer = ''", WOKEN);
		return OUTCOME_HELD;
	}
	if (numbers[1]) {
		mysql_read_only(my, conn, err);
		return OUTCOME_ERROR;
	}
	error_set(err, ERROR_REFUSED, 0, "%s: this hold has ended, or somebody else has it now",
		  my->address.label);
	return OUTCOME_LOST;
}

enum outcome entries_release(struct mysql_backend *my, struct mysql_conn *conn,
			     const struct request *request, struct error *err)
{
	const struct entries_texts *texts = my->strategy->texts;
	struct params params;
	MYSQL_RES *rows;
	bool held, resent;
	int failed;

	make_params(&params, my, request);
	my->only_looks = true;
	failed = mysql_persist(my, conn,
			       request->keep_ms > 0 ? texts->keep_sql : texts->release_sql,
			       params.values, my->base.timeout_ms, 4, &rows, err);
	my->only_looks = false;
	if (failed)
		return conn->mysql && conn->code == MYSQL_NO_SUCH_TABLE ? OUTCOME_LOST
									: OUTCOME_ERROR;
	resent = my->base.resent;
	held = column_number(mysql_fetch_row(rows), 0) > 0;
	wake_listed(my, conn, &params, rows, WOKEN);
	mysql_free_result(rows);
	my->base.resent = resent;
	if (held)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: this hold has ended, or somebody else has it now",
		  my->address.label);
	return OUTCOME_LOST;
}

/* ---- showing and breaking ---- */

/* The columns of entries_show. */
enum shown {
	SHOWN_LAST, SHOWN_FENCE, SHOWN_MODE, SHOWN_TOKEN, SHOWN_LEFT, SHOWN_AGE, SHOWN_OWNER,
	SHOWN_MINE, SHOWN_THERE, SHOWN
};

static void read_mode(int64_t mode, struct row *row)
{
	row->mode = mode > 0 ? HOLD_SLOT : mode < 0 ? HOLD_SHARED : HOLD_EXCLUSIVE;
	row->slots = mode > 0 ? (int)mode : 0;
}

/* A hold that lives with a connection has no end while that is there. */
static void show_row(const struct mysql_strategy *strategy, MYSQL_ROW from,
		     const unsigned long lengths[], struct rows *rows)
{
	const size_t length = lengths[SHOWN_TOKEN] < SHA256_SIZE ? lengths[SHOWN_TOKEN]
								 : SHA256_SIZE;
	struct row *row;
	char *text = NULL;

	rows->fence = (uint64_t)column_number(from, SHOWN_LAST);
	if (!from[SHOWN_TOKEN] || !from[SHOWN_OWNER])
		return;
	if (strategy->texts->read_owner)
		strategy->texts->read_owner(from[SHOWN_OWNER], &text);
	row = rows_add(rows, text ? text : from[SHOWN_OWNER],
		       text ? strlen(text) : lengths[SHOWN_OWNER]);
	free(text);
	for (size_t i = 0; i < length; i++)
		snprintf(row->id + 2 * i, 3, "%02x", (unsigned char)from[SHOWN_TOKEN][i]);
	row->fence = (uint64_t)column_number(from, SHOWN_FENCE);
	row->holds = row->fence > 0;
	row->mine = column_number(from, SHOWN_MINE) && column_number(from, SHOWN_THERE);
	read_mode(column_number(from, SHOWN_MODE), row);
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
	const char *sql = request->name ? my->strategy->texts->show_sql
					 : my->strategy->texts->list_sql;
	struct params params;
	MYSQL_RES *from;
	MYSQL_ROW row;
	int failed;

	make_params(&params, my, request);
	params_add(&params, (const struct sql_value[]){
		SQL_PART("there", my->strategy->door ? sql_entries_there : "1"), SQL_LAST });
	/* Without tables there are no locks. */
	my->only_looks = true;
	failed = mysql_run(my, conn, sql, params.values, &from, err);
	if (failed && conn->mysql && conn->code == MYSQL_NO_SUCH_TABLE)
		failed = 0;
	else if (!failed && from && !request->name)
		add_names(from, &rows->names);
	else if (!failed && from && mysql_num_fields(from) == SHOWN)
		while ((row = mysql_fetch_row(from)))
			show_row(my->strategy, row, mysql_fetch_lengths(from), rows);
	mysql_free_result(from);
	my->only_looks = false;
	return failed;
}

enum outcome entries_break(struct mysql_backend *my, struct mysql_conn *conn, const char *name,
			   const struct row *row, int64_t *connection, struct error *err)
{
	const struct request request = { .name = name };
	char literal[ROW_ID_SIZE + 4];
	struct params params;
	MYSQL_RES *rows;
	MYSQL_ROW first;
	bool held;

	snprintf(literal, sizeof(literal), "X'%s'", row->id);
	make_params(&params, my, &request);
	params_add(&params, (const struct sql_value[]){
		SQL_PART("row", literal), SQL_INT("fence", (int64_t)row->fence), SQL_LAST });
	if (mysql_persist(my, conn, my->strategy->texts->break_sql, params.values,
			  my->base.timeout_ms, 4, &rows, err))
		return OUTCOME_ERROR;
	first = mysql_fetch_row(rows);
	held = column_number(first, 0) > 0;
	*connection = column_number(first, 1);
	wake_listed(my, conn, &params, rows, WOKEN);
	mysql_free_result(rows);
	return held ? OUTCOME_HELD : OUTCOME_LOST;
}
