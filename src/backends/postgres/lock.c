/* SPDX-License-Identifier: MIT */
/*
 * The functions for the engine. A lock is an entry with an end in the table dlock_entries
 * (sql/entries.sql). A waiter listens for a notification. A release removes the entry and notifies
 * the first two waiters in one transaction.
 *
 * The steps of tests/model/line.pml: try and take are the statements of these names; the second one
 * also removes a late waiter. release is that of this name, which wakes.
 */
#include "lock.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* The time for which a waiter counts as alive after each of its requests. */
#define ALIVE "interval '20 s'"

/* ---- requests ---- */

static void begin_call(struct call *call, struct postgres_backend *pg, const struct request *request)
{
	struct sql_value *const values = call->values;
	const bool shared = request->mode == HOLD_SHARED, listens = request->queue && !pg->conn.listens;
	const bool door = pg->door && request->token;

	call->request = request;
	if (request->token)
		row_id(request->token, pg->id);
	snprintf(call->ttl, sizeof(call->ttl), "%lld * interval '1 ms'",
		 (long long)(request->keep_ms ? request->keep_ms : request->ttl_ms));
	snprintf(call->listen, sizeof(call->listen), "LISTEN dlock_%.32s;", pg->id);
	values[0] = SQL_LAST;
	sql_set(values, SQL_TEXT("strategy", pg->door ? "advisory" : "lease"));
	sql_set(values, SQL_TEXT("name", request->name ? request->name : ""));
	sql_set(values, SQL_TEXT("token", pg->id));
	sql_set(values, request->text ? SQL_TEXT("owner", request->text) : SQL_PART("owner", "NULL"));
	sql_set(values, SQL_INT("mode", shared ? -1 : request->mode == HOLD_SLOT ? request->slots : 0));
	sql_set(values, SQL_PART("ttl", call->ttl));
	sql_set(values, SQL_INT("idle", request->ttl_ms));
	sql_set(values, SQL_PART("alive", ALIVE));
	sql_set(values, SQL_INT("patience", HOLD_LATE_MS));
	sql_set(values, SQL_PART("queue", request->queue ? "true" : "false"));
	sql_set(values, SQL_TEXT("late", ""));
	/* With another record, the lease may end before the time that waiters know. */
	sql_set(values, SQL_PART("wakes", request->text ? sql_wake : ""));
	sql_set(values, SQL_PART("listen", listens ? call->listen : ""));
	sql_set(values, SQL_PART("settings", door && request->ttl_ms ? sql_advisory_settings : ""));
	sql_set(values, SQL_PART("door", !door ? "true" : shared ? sql_advisory_door_shared : sql_advisory_door));
	sql_set(values, SQL_PART("proof", door ? sql_advisory_proof : "true"));
	sql_set(values, SQL_PART("open", !door ? "true" : shared ? sql_advisory_open_shared : sql_advisory_open));
	sql_set(values, SQL_PART("strangers", pg->door ? sql_advisory_strangers : ""));
}

static bool is_missing(const struct postgres_conn *conn)
{
	return !strcmp(conn->state, "42P01");
}

int postgres_make_tables(struct postgres_backend *pg, struct error *err)
{
	struct sql_value none[2] = { SQL_LAST };
	PGresult *rows;

	/* Two clients that make a table at once collide in the catalogue (23505, 42P07). */
	for (int tries = 0; tries < 3; tries++) {
		if (!postgres_run(&pg->conn, sql_tables, none, &rows, err))
			return 0;
		if (strncmp(pg->conn.state, "23", 2) != 0 && strcmp(pg->conn.state, "42P07") != 0)
			break;
	}
	return -1;
}

/* Run a statement that changes a hold. HELD: it has changed one. */
static enum outcome change_hold(struct postgres_backend *pg, struct call *call, const char *sql,
				struct error *err)
{
	PGresult *rows;
	int64_t changed;

	if (postgres_run(&pg->conn, sql, call->values, &rows, err))
		return is_missing(&pg->conn) ? OUTCOME_LOST : OUTCOME_ERROR;
	changed = postgres_number(rows, 0);
	pg->pid = postgres_number(rows, 1);
	PQclear(rows);
	if (changed)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: this hold has ended, or somebody else has it now",
		  pg->address.label);
	return OUTCOME_LOST;
}

/* ---- renewing and releasing ---- */

enum outcome postgres_renew(struct backend *backend, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	struct request entry = *request;
	enum outcome outcome;
	struct call call;

	/* The server ends an idle connection after the TTL of the acquisition. */
	if (pg->door)
		entry.ttl_ms = pg->idle_ms;
	grant->fence = pg->fence;
	grant->ttl_ms = entry.ttl_ms;
	begin_call(&call, pg, &entry);
	outcome = change_hold(pg, &call, sql_renew, err);
	/* The lock of the server ends with its connection. */
	return outcome == OUTCOME_ERROR && pg->door && !pg->conn.pg ? OUTCOME_LOST : outcome;
}

/* End a request that still runs on a closed connection: it could take a lock after its release. */
static void end_stale(struct postgres_backend *pg, struct call *call)
{
	struct error ignored;
	PGresult *rows;

	sql_set(call->values, SQL_INT("stale", pg->conn.stale));
	if (pg->conn.stale && !postgres_run(&pg->conn, sql_end_stale, call->values, &rows, &ignored))
		PQclear(rows);
	pg->conn.stale = 0;
}

enum outcome postgres_release(struct backend *backend, const struct request *request,
			      struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const bool had = pg->conn.session;
	enum outcome outcome;
	struct call call;

	pg->waits = pg->conn.session = pg->base.resent = false;
	begin_call(&call, pg, request);
	end_stale(pg, &call);
	pg->base.resent = false;
	outcome = change_hold(pg, &call, request->keep_ms ? sql_renew : sql_release, err);
	/* The end of the connection frees a lock whose entry is gone. */
	if (had && outcome != OUTCOME_HELD)
		postgres_close(&pg->conn);
	return outcome;
}

/* ---- acquiring ---- */

/* The columns of try and take. */
enum state {
	FENCE,			/* 0: it was not taken */
	WAITING,		/* waiters before ours */
	LEFT_MS,		/* until the first lease before it ends; -1: there is none */
	FOREIGN,		/* another program has the lock of the server, or no wake-up can come */
	OTHER_SLOTS,		/* of holders that do not agree with ours; 0: there are none */
	LATE,			/* a waiter before it that may hold; "": none */
	WAKES,			/* others may hold, too, or a dead waiter was removed */
};

/* Try once. BUSY: *rows, which the caller frees, has the state; NULL: nothing is known. */
static enum outcome request_lock(struct postgres_backend *pg, struct call *call, const char *sql,
				 PGresult **rows, struct grant *grant, struct error *err)
{
	struct error ignored;
	PGresult *woken;
	int failed = postgres_run(&pg->conn, sql, call->values, rows, err);

	if (failed && is_missing(&pg->conn) && !postgres_make_tables(pg, err))
		failed = postgres_run(&pg->conn, sql, call->values, rows, err);
	if (failed)
		return OUTCOME_ERROR;
	if (PQntuples(*rows) && PQnfields(*rows) > WAKES && PQgetvalue(*rows, 0, WAKES)[0] == 't' &&
	    !postgres_run(&pg->conn, sql_wake, call->values, &woken, &ignored))
		PQclear(woken);
	grant->fence = pg->fence = (uint64_t)postgres_number(*rows, FENCE);
	if (grant->fence)
		return OUTCOME_HELD;
	if (!PQntuples(*rows))
		return OUTCOME_BUSY;
	return hold_mode_slots_agree((int)postgres_number(*rows, OTHER_SLOTS), call->request, err)
		       ? OUTCOME_BUSY : OUTCOME_ERROR;
}

/* Take the lock with an entry, which is made if it is not there. */
static enum outcome take_queued(struct postgres_backend *pg, struct call *call, struct grant *grant,
				struct error *err)
{
	char late[ROW_ID_SIZE] = "";
	enum outcome outcome;
	PGresult *rows;
	int64_t late_ms;

	do {
		sql_set(call->values, SQL_TEXT("late", late));
		outcome = request_lock(pg, call, sql_take, &rows, grant, err);
		if (outcome == OUTCOME_BUSY) {
			snprintf(late, sizeof(late), "%s", PQgetvalue(rows, 0, LATE));
			late_ms = hold_watch_late(&pg->late, late);
			grant->retry_ms = clock_earlier(late_ms, hold_retry_at(
				postgres_number(rows, LEFT_MS), !postgres_number(rows, WAITING),
				PQgetvalue(rows, 0, FOREIGN)[0] == 't'));
		}
		PQclear(rows);
	} while (outcome == OUTCOME_BUSY && !late_ms);
	pg->waits = outcome == OUTCOME_BUSY && call->request->queue;
	pg->conn.listens |= pg->waits;
	return outcome;
}

enum outcome postgres_acquire(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	struct request entry = *request;
	enum outcome outcome = OUTCOME_BUSY;
	PGresult *rows = NULL;
	struct call call;

	pg->conn.woken = false;
	if (pg->conn.session)
		return postgres_renew(backend, request, grant, err);
	if (postgres_open(&pg->conn, err))
		return OUTCOME_ERROR;
	grant->sent_ms = clock_boot_ms();
	/* idle_session_timeout is an int, of ms. */
	if (pg->door)
		pg->idle_ms = entry.ttl_ms = clock_earlier(request->ttl_ms, INT_MAX);
	begin_call(&call, pg, &entry);
	/* Most locks are free, and most waiters that are woken are first: simpler statements for these. */
	if (!pg->waits || request->mode == HOLD_EXCLUSIVE)
		outcome = request_lock(pg, &call, pg->waits ? sql_step : sql_try, &rows, grant, err);
	PQclear(rows);
	if (outcome == OUTCOME_BUSY)
		outcome = take_queued(pg, &call, grant, err);
	grant->ttl_ms = entry.ttl_ms;
	pg->conn.session = pg->door && outcome == OUTCOME_HELD;
	if (pg->conn.session)
		grant->hold_fd = PQsocket(pg->conn.pg);
	return outcome;
}

int postgres_fd(struct backend *backend)
{
	const struct postgres_backend *pg = postgres_from_backend(backend);

	/* A wake-up may have come with the answer to another request. */
	return pg->conn.woken ? pg->ready_fd : pg->conn.pg ? PQsocket(pg->conn.pg) : -1;
}

int64_t postgres_event(struct backend *backend)
{
	struct postgres_conn *conn = &postgres_from_backend(backend)->conn;
	const bool woken = conn->woken;

	postgres_read_input(conn);
	return woken || conn->woken || !conn->pg ? 0 : CLOCK_NEVER;
}

/* ---- showing and breaking ---- */

/* The columns of show. */
enum shown {
	LAST, HOLDS, SHOWN_FENCE, MODE, ID, OWNER, MINE, SHOWN_LEFT_MS, AGE_MS, PLACE, BROKEN, SHOWN
};

/* Add a row. A hold that lives with a connection has no end while that exists. */
static void show_row(bool door, const PGresult *from, int at, struct rows *rows)
{
	const bool holds = PQgetvalue(from, at, HOLDS)[0] == 't';
	const bool broken = door && PQgetvalue(from, at, BROKEN)[0] == 't';
	int64_t numbers[SHOWN];
	struct row *row;

	for (int i = 0; i < SHOWN; i++)
		numbers[i] = strtoll(PQgetvalue(from, at, i), NULL, 10);
	if (numbers[LAST])
		rows->fence = (uint64_t)numbers[LAST];
	if (PQgetisnull(from, at, ID))
		return;
	row = rows_add(rows, holds, PQgetvalue(from, at, OWNER),
		       (size_t)PQgetlength(from, at, OWNER));
	snprintf(row->id, sizeof(row->id), "%s", PQgetvalue(from, at, ID));
	row->fence = (uint64_t)numbers[SHOWN_FENCE];
	row->mine = PQgetvalue(from, at, MINE)[0] == 't' && !broken;
	row->mode = numbers[MODE] > 0 ? HOLD_SLOT : numbers[MODE] < 0 ? HOLD_SHARED : HOLD_EXCLUSIVE;
	row->slots = numbers[MODE] > 0 ? (int)numbers[MODE] : 0;
	row->age_ms = numbers[AGE_MS];
	if (holds && (!door || broken))
		row->left_ms = numbers[SHOWN_LEFT_MS];
}

int postgres_show(struct backend *backend, const struct request *request, struct rows *rows,
		  struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const char *sql = request->name ? sql_show : sql_list;
	struct call call;
	PGresult *from;

	begin_call(&call, pg, request);
	if (postgres_run(&pg->conn, sql, call.values, &from, err))
		/* Without tables there are no locks. */
		return is_missing(&pg->conn) ? 0 : -1;
	for (int i = 0; i < PQntuples(from); i++)
		if (request->name)
			show_row(pg->door, from, i, rows);
		else
			name_list_add(&rows->names, PQgetvalue(from, i, 0),
				      (size_t)PQgetlength(from, i, 0));
	PQclear(from);
	return 0;
}

enum outcome postgres_break(struct backend *backend, const char *name, const struct row *row,
			    struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const struct request request = { .name = name };
	enum outcome outcome = OUTCOME_HELD;
	struct call call;

	snprintf(pg->id, sizeof(pg->id), "%s", row->id);
	begin_call(&call, pg, &request);
	if (row->id[0])
		outcome = change_hold(pg, &call, sql_release, err);
	if (outcome != OUTCOME_HELD || !pg->door)
		return outcome;
	/* The user has confirmed that its command is dead: end the connection that has the lock. */
	sql_set(call.values, SQL_INT("pid", row->id[0] ? pg->pid : row->holder.pid));
	outcome = change_hold(pg, &call, sql_advisory_terminate, err);
	return row->id[0] && outcome == OUTCOME_LOST ? OUTCOME_HELD : outcome;
}
