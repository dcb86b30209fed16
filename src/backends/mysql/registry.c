/* SPDX-License-Identifier: MIT */
/* The table dlock_sessions: who holds locks that live with a connection, read and shown. */
#include "session.h"

#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/view.h"
#include "waiters.h"

/* The server's uptime is in whole seconds. */
#define UPTIME_GRAIN_US 1000000

/* ---- reading ---- */

/*
 * Is the table there? What only looks makes none. With none there is nobody. 1, 0 or -1.
 */
static int exists(struct mysql_backend *my, struct error *err)
{
	static const struct sql_value none[] = { SQL_LAST };
	int64_t count = 0;
	MYSQL_RES *rows;

	if (mysql_run(my, sql_session_exists, none, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, &count, 1);
	mysql_free_result(rows);
	return count > 0;
}

/* Is the connection that a row names there? */
enum presence {
	GONE,
	THERE,
	UNSEEN,		/* another account's, which we may not be allowed to see */
};

#define RECORD_FIELDS 11

/* A row of sql/session_holders.sql. */
struct record {
	int64_t connection, fence, age_us, rest_us;
	int64_t alive_us;	/* for so long its command may be alive yet */
	int count;
	unsigned char token[SHA256_SIZE];
	bool shared;
	enum presence presence;
	struct holder holder;
};

static bool read_record(struct record *record, MYSQL_RES *rows, int64_t uptime_us)
{
	MYSQL_ROW row = mysql_fetch_row(rows);
	const unsigned long *lengths = row ? mysql_fetch_lengths(rows) : NULL;
	bool there;

	if (!row)
		return false;
	*record = (struct record){ .presence = UNSEEN };
	if (mysql_num_fields(rows) != RECORD_FIELDS)
		return true;
	for (int i = 0; i < RECORD_FIELDS; i++)
		if (!row[i])
			return true;
	record->connection = strtoll(row[0], NULL, 10);
	if (lengths[1] == SHA256_SIZE)
		memcpy(record->token, row[1], SHA256_SIZE);
	record->shared = lengths[2] > 0;
	record->fence = strtoll(row[3], NULL, 10);
	record->age_us = strtoll(row[4], NULL, 10);
	if (holder_decode(&record->holder, row[5], lengths[5]))
		record->holder = (struct holder){ .pid = 0 };
	record->count = atoi(row[8]);
	record->rest_us = strtoll(row[9], NULL, 10);
	record->alive_us = strtoll(row[10], NULL, 10);
	there = row[6][0] == '1' && record->age_us < uptime_us + UPTIME_GRAIN_US;
	if (!record->connection || !lengths[1])
		record->presence = GONE;
	else if (there)
		record->presence = THERE;
	else if (row[7][0] == '1' || record->age_us >= uptime_us + UPTIME_GRAIN_US)
		record->presence = GONE;
	return true;
}

static int run(struct mysql_backend *my, bool aside, const char *sql,
	       const struct session_words *words, MYSQL_RES **rows, struct error *err)
{
	return aside ? mysql_run_aside(my, sql, words->values, rows, err)
		     : mysql_run(my, sql, words->values, MYSQL_ONCE, rows, err);
}

/* Rows of what is said of request's lock, and for how long the server is up. 0 or -1. */
static int ask(struct mysql_backend *my, const struct request *request, bool aside,
	       MYSQL_RES **rows, int64_t *uptime_us, struct error *err)
{
	struct session_words words;
	MYSQL_RES *uptime;
	MYSQL_ROW row;

	session_words(my, request, 0, &words);
	if (run(my, aside, sql_session_uptime, &words, &uptime, err))
		return -1;
	row = uptime ? mysql_fetch_row(uptime) : NULL;
	*uptime_us = row && row[1] ? strtoll(row[1], NULL, 10) * 1000000 : INT64_MAX / 2;
	mysql_free_result(uptime);
	if (run(my, aside, sql_session_holders, &words, rows, err))
		return -1;
	if (*rows)
		return 0;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave no answer", my->address.label);
	return -1;
}

/* The number of the connection that holds, where the server tells; 0: nobody; -1: not. */
static int owner(struct mysql_backend *my, const struct request *request, bool aside,
		 int64_t *connection, struct error *err)
{
	const char *sql = session_of(my)->kind->owner_sql;
	struct session_words words;
	MYSQL_RES *rows;

	*connection = -1;
	if (!sql)
		return 0;
	session_words(my, request, 0, &words);
	if (run(my, aside, sql, &words, &rows, err))
		return -1;
	if (mysql_numbers(rows, connection, 1) != 1)
		*connection = -1;
	mysql_free_result(rows);
	return 0;
}

/* Can this row be about a hold that is there? holder: of owner(). */
static bool current(const struct record *record, int64_t holder)
{
	return record->presence != GONE && (holder < 0 || record->connection == holder);
}

/* Must one who takes the lock wait for it, because it holds or has not ended in good order? */
static bool in_the_way(const struct record *record, int64_t holder)
{
	return record->alive_us > 0 || current(record, holder);
}

int session_look(struct mysql_backend *my, const struct request *request, bool aside,
		 struct error *err)
{
	struct mysql_session *session = session_of(my);
	struct record record;
	int64_t uptime_us, holder;
	MYSQL_RES *rows;

	if (owner(my, request, aside, &holder, err) ||
	    ask(my, request, aside, &rows, &uptime_us, err))
		return -1;
	session->holder = (struct holder){ .pid = 0 };
	session->since_ms = -1;
	while (read_record(&record, rows, uptime_us)) {
		if (!in_the_way(&record, holder))
			continue;
		session->holder = record.holder;
		session->since_ms = clock_boot_ms() - record.age_us / 1000;
		break;
	}
	mysql_free_result(rows);
	return 0;
}

enum outcome session_verify_other(struct mysql_backend *my, const struct request *request,
				  struct error *err)
{
	unsigned char digest[SHA256_SIZE];
	enum outcome outcome = OUTCOME_LOST;
	int64_t uptime_us, holder;
	struct record record;
	MYSQL_RES *rows;
	int there = exists(my, err);

	if (there <= 0)
		return there ? OUTCOME_ERROR : OUTCOME_LOST;
	sha256(request->token, strlen(request->token), digest);
	if (owner(my, request, false, &holder, err) ||
	    ask(my, request, false, &rows, &uptime_us, err))
		return OUTCOME_ERROR;
	while (read_record(&record, rows, uptime_us)) {
		if (!current(&record, holder) || memcmp(record.token, digest, sizeof(digest)) != 0)
			continue;
		outcome = hold_mode_covers(record.shared ? HOLD_SHARED : HOLD_EXCLUSIVE, 0,
					   request, err);
	}
	mysql_free_result(rows);
	return outcome;
}

/* ---- showing ---- */

/*
 * Is it taken, by somebody who is not in the table? Tries, for an instant, where the
 * server does not tell otherwise.
 */
static int taken(struct mysql_backend *my, const struct request *request, bool *is,
		 struct error *err)
{
	const struct session_kind *kind = session_of(my)->kind;
	struct session_words words;
	int result;

	*is = false;
	if (!kind->probe_sql)
		return 0;
	if (mysql_connect(my, err))
		return -1;
	session_words(my, request, 0, &words);
	result = mysql_run(my, kind->probe_sql, words.values, MYSQL_ONCE, NULL, err);
	if (result && my->conn.mysql && mysql_code_is_contention(my->conn.code)) {
		*is = true;
		result = 0;
	}
	/* Whatever it took goes with it. */
	mysql_conn_close(&my->conn);
	return result;
}

static void add_hold(struct lock_view *view, const struct record *record)
{
	struct hold_view *hold = lock_view_add_hold(view);

	if (!hold)
		return;
	hold->holder = record->holder;
	hold->mode = record->shared ? HOLD_SHARED : HOLD_EXCLUSIVE;
	hold->fence = (uint64_t)record->fence;
	hold->age_ms = record->age_us / 1000;
	hold->expires_ms = record->rest_us > 0 ? record->rest_us / 1000 : -1;
	/* The connection is gone: this is how long others will wait, at most. */
	if (record->presence == GONE)
		hold->expires_ms = record->alive_us / 1000;
	hold->count = record->count;
}

/* Somebody has it who uses no dlock. */
static void add_stranger(struct lock_view *view)
{
	const struct record unknown = { .age_us = -1000, .rest_us = -1, .count = 1 };

	view->held = true;
	add_hold(view, &unknown);
}

/* Where there is no table of ours nobody of ours has been. */
static int inspect_others(struct mysql_backend *my, const struct request *request,
			  struct lock_view *view, struct error *err)
{
	int64_t holder;
	bool is = false;

	if (owner(my, request, false, &holder, err) ||
	    (holder < 0 && taken(my, request, &is, err)))
		return -1;
	if (is || holder > 0)
		add_stranger(view);
	return 0;
}

int session_inspect(struct mysql_backend *my, const char *name, bool listen,
		    struct lock_view *view, struct error *err)
{
	const struct request request = { .name = name, .ttl_ms = 1000 };
	const struct session_kind *kind = session_of(my)->kind;
	int64_t uptime_us, holder;
	char mark[WAITERS_MARK_SIZE];
	struct record record;
	MYSQL_RES *rows;
	int there;
	bool is;

	if (kind->admit(name, err))
		return -1;
	there = exists(my, err);
	/* What is locked without our tables, others have locked; rows are in one of them. */
	if (there < 0 || (!there && kind->make_sql))
		return there;
	if (!there)
		return inspect_others(my, &request, view, err);
	if (owner(my, &request, false, &holder, err) ||
	    ask(my, &request, false, &rows, &uptime_us, err))
		return -1;
	while (read_record(&record, rows, uptime_us)) {
		if ((uint64_t)record.fence > view->fence)
			view->fence = (uint64_t)record.fence;
		if (record.alive_us > 0 ||
		    (current(&record, holder) && (holder != -1 || record.presence == THERE)))
			add_hold(view, &record);
	}
	mysql_free_result(rows);
	view->held = view->hold_count || holder > 0;
	if (!view->held && holder < 0) {
		if (taken(my, &request, &is, err))
			return -1;
		view->held = is;
	}
	if (view->held && !view->hold_count)
		add_stranger(view);
	if (!view->held)
		return 0;
	waiters_mark(session_of(my)->kind->name, name, mark);
	return waiters_view(my, mark, view, err) || (listen && waiters_watch(my, err)) ? -1 : 0;
}

int session_list(struct mysql_backend *my, struct name_list *names, struct error *err)
{
	const struct request request = { .name = "", .ttl_ms = 1000 };
	struct lock_view view = { 0 };
	struct session_words words;
	const unsigned long *lengths;
	char name[256];
	MYSQL_RES *rows;
	MYSQL_ROW row;
	int failed = 0, there = exists(my, err);

	if (there <= 0)
		return there;
	session_words(my, &request, 0, &words);
	if (mysql_run(my, sql_session_list, words.values, MYSQL_ONCE, &rows, err))
		return -1;
	while (!failed && rows && (row = mysql_fetch_row(rows))) {
		lengths = mysql_fetch_lengths(rows);
		snprintf(name, sizeof(name), "%.*s", (int)lengths[0], row[0]);
		failed = session_inspect(my, name, false, &view, err);
		if (!failed && view.held && name_list_add(names, name, lengths[0])) {
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			failed = -1;
		}
		lock_view_finish(&view);
		view = (struct lock_view){ 0 };
	}
	mysql_free_result(rows);
	return failed;
}

/* Runs sql on what session->connection and session->fence say. 0 or -1. */
static int on(struct mysql_backend *my, const char *sql, const struct request *request,
	      struct error *err)
{
	struct session_words words;

	session_words(my, request, 0, &words);
	return mysql_run(my, sql, words.values, MYSQL_ONCE, NULL, err);
}

/*
 * Ends the connections that hold it: the server frees it with them. Nobody is to wait for the
 * commands that they were for, nor for that of one whose connection is gone: the user who breaks
 * a lock answers for that.
 */
int session_break(struct mysql_backend *my, const char *name, struct lock_view *view,
		  struct error *err)
{
	const struct request request = { .name = name, .ttl_ms = 1000 };
	struct mysql_session *session = session_of(my);
	int64_t uptime_us, holder, broken = 0;
	struct record record;
	MYSQL_RES *rows;
	bool there;
	int failed = 0;

	if (session_inspect(my, name, false, view, err))
		return -1;
	if (!view->held)
		return 0;
	if (owner(my, &request, false, &holder, err) ||
	    ask(my, &request, false, &rows, &uptime_us, err))
		return -1;
	while (!failed && read_record(&record, rows, uptime_us)) {
		session->connection = record.connection;
		session->fence = (uint64_t)record.fence;
		there = record.presence == THERE && current(&record, holder);
		if (!there && (record.presence != GONE || !record.alive_us))
			continue;
		failed = on(my, sql_session_bury, &request, err) ||
			 (there && on(my, sql_kill_connection, &request, err)) ? -1 : 0;
		broken = record.connection;
	}
	mysql_free_result(rows);
	/* Whoever has the lock beside a holder that is buried only waits for that. */
	if (!failed && holder > 0 && !broken) {
		session->connection = broken = holder;
		failed = on(my, sql_kill_connection, &request, err);
	}
	if (failed || broken)
		return failed;
	error_set(err, ERROR_REFUSED, 0, "%s: held by a connection that this account cannot see; "
		  "find it and KILL it as an administrator", my->address.label);
	return -1;
}
