/* SPDX-License-Identifier: MIT */
/*
 * The functions for the engine. A lock is an entry with an end in the table dlock_entries
 * (sql/entries.sql). A waiter listens for a notification. A release removes the entry and notifies
 * the first two waiters in one transaction.
 *
 * The steps of tests/model/line.pml: try and take are the statement take, which also removes a late
 * waiter. release is the statement of this name, which wakes.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "postgres.h"

/* The server ends a wait for a row so long after its client has given up with its own error. */
#define GIVEN_UP_MS 100

/* ---- requests ---- */

void postgres_begin(struct postgres_backend *pg, const struct request *request)
{
	struct sql_value *const values = pg->values;
	const char *text = request->text;
	/* break_hold() has no token, and no session that has the server's lock. */
	const bool session = pg->strategy->door && request->token;

	if (request->token)
		row_id(request->token, pg->id);
	snprintf(pg->channel, sizeof(pg->channel), "dlock_%.32s", pg->id);
	values[0] = SQL_LAST;
	sql_set(values, SQL_TEXT("strategy", pg->strategy->name));
	sql_set(values, SQL_PART("create", pg->strategy->tables));
	sql_set(values, SQL_TEXT("name", request->name ? request->name : ""));
	sql_set(values, SQL_TEXT("token", pg->id));
	sql_set(values, text ? SQL_TEXT("owner", text) : SQL_PART("owner", "NULL"));
	sql_set(values, SQL_INT("mode", sql_mode(request)));
	sql_set(values, SQL_INT("ttl", request->keep_ms ? request->keep_ms : request->ttl_ms));
	sql_set(values, SQL_INT("keep", request->keep_ms));
	sql_set(values, SQL_INT("alive", HOLD_ALIVE_MS));
	sql_set(values, SQL_INT("patience", HOLD_LATE_MS));
	sql_set(values, SQL_INT("far", HOLD_FAR));
	sql_set(values, SQL_INT("fence", 0));
	sql_set(values, SQL_INT("stale", pg->conn.stale));
	sql_set(values, SQL_INT("limit", pg->base.timeout_ms + GIVEN_UP_MS));
	sql_set(values, SQL_NAME("channel", pg->channel));
	sql_set(values, SQL_PART("listening", request->queue ? sql_listen : ""));
	sql_set(values, SQL_PART("queue", request->queue ? "true" : "false"));
	sql_set(values, SQL_PART("suffix", request->mode == HOLD_SHARED ? "_shared" : ""));
	sql_set(values, SQL_PART("mine", session ? "pid = pg_backend_pid()" : "true"));
	/* A session that has the lock already would have to unlock it twice. */
	sql_set(values, SQL_PART("door", session && !pg->conn.session ? sql_advisory_pass
								      : "true"));
	sql_set(values, SQL_PART("open", session ? sql_advisory_open : "NULL"));
	sql_set(values, SQL_PART("strangers", session ? sql_advisory_strangers : ""));
}

static bool is_missing(const struct postgres_conn *conn)
{
	return !strcmp(conn->state, POSTGRES_NO_TABLE);
}

static int64_t get_number(const struct postgres_backend *pg, int column)
{
	return sql_number(postgres_column(&pg->conn, 0, column));
}

/* The columns of statements that change a hold. */
enum change {
	CHANGED,		/* whether it was a hold */
	PID,			/* the server's process of its connection */
	TAKEN_MS,		/* a clock that was set back keeps it taken for so long */
};

/* Run a statement that changes a hold. HELD: it has changed one, that of the process pg->pid. */
static enum outcome change_hold(struct postgres_backend *pg, const char *sql, struct error *err)
{
	if (postgres_run(&pg->conn, sql, pg->values, err))
		return is_missing(&pg->conn) ? OUTCOME_LOST : OUTCOME_ERROR;
	if (!get_number(pg, CHANGED))
		return sql_lost(pg->conn.hosts.label, err);
	pg->pid = get_number(pg, PID);
	if (get_number(pg, TAKEN_MS))
		sql_warn_taken(pg->conn.hosts.label, get_number(pg, TAKEN_MS), err);
	return OUTCOME_HELD;
}

/* ---- renewing and releasing ---- */

enum outcome postgres_renew(struct backend *backend, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const bool door = pg->strategy->door;
	enum outcome outcome;

	if (door && !pg->conn.session)
		return sql_lost(pg->conn.hosts.label, err);
	grant->fence = pg->fence;
	/* The server ends an idle connection after the TTL of the acquisition. */
	grant->ttl_ms = door ? pg->idle_ms : request->ttl_ms;
	postgres_begin(pg, request);
	sql_set(pg->values, SQL_INT("ttl", grant->ttl_ms));
	outcome = change_hold(pg, pg->strategy->statements->renew_sql, err);
	/* The lock of the server ends with its connection. */
	return outcome == OUTCOME_ERROR && door && !pg->conn.pg ? OUTCOME_LOST : outcome;
}

enum outcome postgres_release(struct backend *backend, const struct request *request,
			      struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const struct sql_statements *statements = pg->strategy->statements;
	const bool had = pg->conn.session, kept = request->keep_ms && statements->leave_sql;
	const char *sql = kept ? statements->renew_sql : statements->release_sql;
	enum outcome outcome;
	bool ended;

	pg->polls = false;
	postgres_begin(pg, request);
	outcome = change_hold(pg, sql, err);
	pg->conn.session = false;
	if (!had || outcome == OUTCOME_HELD)
		return outcome;
	/* The end of the connection frees the lock of the server. Its entry is still there. */
	ended = !pg->conn.pg;
	postgres_close(&pg->conn);
	return outcome == OUTCOME_ERROR && ended ? change_hold(pg, sql, err) : outcome;
}

/* ---- acquiring ---- */

/* The columns of take. */
enum state {
	FENCE,			/* 0: it was not taken */
	WAITING,		/* waiters before ours */
	LEFT_MS,		/* until the first lease before it ends; -1: there is none */
	FOREIGN,		/* another program has the lock, or no wake-up can come */
	OTHER_SLOTS,		/* of holders that do not agree with ours; 0: there are none */
	LATE,			/* a waiter before it that may hold; "": none */
};

/* Is our entry still far back in the queue? Then this has noted that its client is alive. */
static bool stays_far(struct postgres_backend *pg)
{
	struct error ignored = { 0 };

	return pg->polls && pg->far &&
	       !postgres_run(&pg->conn, sql_stay, pg->values, &ignored) && get_number(pg, 0);
}

/* Take the lock with an entry, which is made if it is not there, and remove a late waiter. */
static enum outcome take_lock(struct postgres_backend *pg, const struct request *request,
			      struct grant *grant, struct error *err)
{
	const struct sql_statements *statements = pg->strategy->statements;
	/* Most locks are free, and half of the waiters that are woken are first. */
	const char *sql = pg->polls ? NULL : statements->try_sql, *found;
	char late[ROW_ID_SIZE] = "";
	int64_t late_ms = sql ? 0 : CLOCK_NEVER;
	int failed;

	if (!sql)
		sql = statements->take_sql;
	postgres_begin(pg, request);
	sql_set(pg->values, SQL_INT("ttl", grant->ttl_ms));
	if (stays_far(pg)) {
		grant->retry_ms = hold_retry_at(-1, 0, false);
		return OUTCOME_BUSY;
	}
	do {
		sql_set(pg->values, SQL_TEXT("late", late));
		failed = postgres_run(&pg->conn, sql, pg->values, err);
		if (failed && is_missing(&pg->conn) &&
		    !postgres_run(&pg->conn, sql_make_tables, pg->values, err))
			failed = postgres_run(&pg->conn, sql, pg->values, err);
		if (failed)
			return OUTCOME_ERROR;
		found = postgres_column(&pg->conn, 0, LATE);
		snprintf(late, sizeof(late), "%s", found ? found : "");
		if (sql == statements->take_sql)
			late_ms = hold_watch_late(&pg->late, late);
		sql = statements->take_sql;
		grant->fence = pg->fence = (uint64_t)get_number(pg, FENCE);
	} while (!grant->fence && !late_ms);
	pg->polls = !grant->fence && request->queue;
	pg->far = get_number(pg, WAITING) >= HOLD_FAR;
	if (grant->fence)
		return OUTCOME_HELD;
	grant->retry_ms = clock_earlier(late_ms, hold_retry_at(
		get_number(pg, LEFT_MS), get_number(pg, WAITING), get_number(pg, FOREIGN)));
	return hold_mode_slots_agree((int)get_number(pg, OTHER_SLOTS), request, err)
		       ? OUTCOME_BUSY : OUTCOME_ERROR;
}

enum outcome postgres_acquire(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const bool door = pg->strategy->door, had = pg->conn.session;
	enum outcome outcome;

	if (sql_check_name(pg->strategy, request->name, err))
		return OUTCOME_ERROR;
	backend->woken = false;
	if (postgres_open(&pg->conn, err))
		return OUTCOME_ERROR;
	grant->sent_ms = clock_boot_ms();
	/* idle_session_timeout is an int, of ms. */
	pg->idle_ms = clock_earlier(request->ttl_ms, INT_MAX);
	grant->ttl_ms = door ? pg->idle_ms : request->ttl_ms;
	outcome = take_lock(pg, request, grant, err);
	pg->conn.session = door && outcome == OUTCOME_HELD;
	if (pg->conn.session)
		grant->hold_fd = PQsocket(pg->conn.pg);
	/* A session keeps the server's lock, even if its transaction has failed. */
	if (door && (outcome == OUTCOME_ERROR || (had && outcome == OUTCOME_BUSY)))
		postgres_close(&pg->conn);
	if (outcome == OUTCOME_HELD)
		backend->woken = false;
	return outcome;
}

int64_t postgres_event(struct backend *backend)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	bool woken;

	postgres_read_input(&pg->conn);
	woken = backend->woken;
	pg->polls &= !woken;
	backend->woken = false;
	return woken || !pg->conn.pg ? 0 : CLOCK_NEVER;
}

/* ---- showing and breaking ---- */

int postgres_show(struct backend *backend, const struct request *request, struct rows *rows,
		  struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const struct sql_statements *statements = pg->strategy->statements;
	const char *columns[SHOWN];

	if (request->name && sql_check_name(pg->strategy, request->name, err))
		return -1;
	postgres_begin(pg, request);
	if (postgres_run(&pg->conn, request->name ? statements->show_sql : statements->list_sql,
			 pg->values, err))
		/* Without tables there are no locks. */
		return is_missing(&pg->conn) ? 0 : -1;
	for (int i = 0; i < PQntuples(pg->conn.rows); i++) {
		for (int c = 0; c < SHOWN; c++)
			columns[c] = postgres_column(&pg->conn, i, c);
		if (request->name)
			sql_show_row(pg->strategy, columns, rows);
		else if (columns[0])
			name_list_add(&rows->names, columns[0], strlen(columns[0]));
	}
	postgres_drop_rows(&pg->conn);
	return 0;
}

enum outcome postgres_break(struct backend *backend, const char *name, const struct row *row,
			    struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const struct request request = { .name = name };
	enum outcome outcome = OUTCOME_HELD;

	pg->pid = row->holder.pid;
	snprintf(pg->id, sizeof(pg->id), "%s", row->id);
	postgres_begin(pg, &request);
	sql_set(pg->values, SQL_INT("fence", (int64_t)row->fence));
	if (row->id[0] || !pg->strategy->door)
		outcome = change_hold(pg, pg->strategy->statements->release_sql, err);
	if (outcome != OUTCOME_HELD || !pg->strategy->door)
		return outcome;
	/* The user has confirmed that its command is dead: end the connection that has the lock. */
	sql_set(pg->values, SQL_INT("pid", pg->pid));
	outcome = change_hold(pg, sql_advisory_terminate, err);
	return row->id[0] && outcome == OUTCOME_LOST ? OUTCOME_HELD : outcome;
}
