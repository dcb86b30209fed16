/* SPDX-License-Identifier: MIT */
/* The table dlock_sessions: what holders write there, and what others read. */
#include "session_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/view.h"
#include "waiters.h"

/* The server's uptime is in whole seconds. */
#define UPTIME_GRAIN_US 1000000

/* ---- writing ---- */

enum outcome session_register(struct session *session, const struct request *request,
			      struct error *err)
{
	const bool own = session_kind_of(session)->own_registry;
	/* The fence, and for how long the command of an earlier holder may be alive. */
	int64_t numbers[2];

	session->registered = true;
	if (session_ask(session, own ? OVER_HOLDER : OVER_SIDE,
			request->mode == HOLD_SHARED ? sql_session_share : sql_session_register,
			request, numbers, 2, err) < 0)
		return OUTCOME_ERROR;
	if (numbers[0] > 0) {
		session->fence = (uint64_t)numbers[0];
		return OUTCOME_HELD;
	}
	if (numbers[1] > 0) {
		session->registered = false;
		return OUTCOME_BUSY;
	}
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave no fence", session->my.address.label);
	return OUTCOME_ERROR;
}

static void end_by(struct session *session, const char *sql, const struct request *request)
{
	struct error ignored = { 0 };

	if (!session_run(session, OVER_SIDE, sql, request, NULL, &ignored))
		session->registered = false;
}

void session_end(struct session *session, const struct request *request)
{
	end_by(session, sql_session_leave, request);
}

void session_keep(struct session *session, const struct request *request, int64_t keep_ms)
{
	session->keep_ms = keep_ms;
	end_by(session, sql_session_keep, request);
}

/* ---- reading ---- */

/* Is the connection that a row names there? */
enum presence {
	GONE,
	THERE,
	UNSEEN,		/* another account's, which this account may not be allowed to see */
};

#define RECORD_FIELDS 11

/* A row of session_holders. */
struct record {
	int64_t connection, fence, age_us, rest_us;
	int64_t alive_us;	/* how long its command may still be alive */
	unsigned char token[SHA256_SIZE];
	bool shared;
	bool ended;		/* given back; the connection may be there for a while */
	enum presence presence;
	struct holder holder;
};

/* What the server says of one lock. */
struct records {
	MYSQL_RES *rows;
	int64_t uptime_us;	/* since the server was started */
	int64_t owner;		/* number of the connection that holds; 0: nobody; -1: not told */
};

static int records_open(struct records *records, struct session *session,
			const struct request *request, enum session_over over, struct error *err)
{
	const char *owner_sql = session_kind_of(session)->owner_sql;
	int64_t uptime[2];	/* a name, and seconds */
	int told = 0;

	if (owner_sql)
		told = session_ask(session, over, owner_sql, request, &records->owner, 1, err);
	if (told < 0)
		return -1;
	if (!told)
		records->owner = -1;
	told = session_ask(session, over, sql_session_uptime, request, uptime, 2, err);
	if (told < 0)
		return -1;
	records->uptime_us = told == 2 ? uptime[1] * 1000000 : INT64_MAX / 2;
	if (session_run(session, over, sql_session_holders, request, &records->rows, err))
		return -1;
	if (records->rows)
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave no answer",
			 session->my.address.label);
}

/* False: there are no more. */
static bool records_next(struct records *records, struct record *record)
{
	const int64_t start_us = records->uptime_us + UPTIME_GRAIN_US;
	MYSQL_ROW row = mysql_fetch_row(records->rows);
	const unsigned long *lengths = row ? mysql_fetch_lengths(records->rows) : NULL;

	if (!row)
		return false;
	*record = (struct record){ .presence = UNSEEN };
	if (mysql_num_fields(records->rows) != RECORD_FIELDS)
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
	mysql_read_holder(&record->holder, row[5], lengths[5]);
	record->rest_us = strtoll(row[8], NULL, 10);
	record->alive_us = strtoll(row[9], NULL, 10);
	record->ended = row[10][0] == '1';
	/* Numbers of connections begin anew with the server. */
	if (!record->connection || !lengths[1])
		record->presence = GONE;
	else if (row[6][0] == '1' && record->age_us < start_us)
		record->presence = THERE;
	else if (row[7][0] == '1' || record->age_us >= start_us)
		record->presence = GONE;
	return true;
}

/* Can this row be about a hold that is there? */
static bool current(const struct records *records, const struct record *record)
{
	return record->presence != GONE &&
	       (records->owner < 0 || record->connection == records->owner);
}

int session_look(struct session *session, const struct request *request,
		 enum session_over over, struct error *err)
{
	struct records records;
	struct record record;

	if (records_open(&records, session, request, over, err))
		return -1;
	session->holder = (struct holder){ .pid = 0 };
	session->since_ms = -1;
	while (records_next(&records, &record)) {
		/* It holds the lock, or has not ended in good order. */
		if (record.alive_us <= 0 && !current(&records, &record))
			continue;
		session->holder = record.holder;
		session->since_ms = clock_boot_ms() - record.age_us / 1000;
		break;
	}
	mysql_free_result(records.rows);
	return 0;
}

enum outcome session_verify_other(struct session *session, const struct request *request,
				  struct error *err)
{
	unsigned char digest[SHA256_SIZE];
	enum outcome outcome = OUTCOME_LOST;
	struct records records;
	struct record record;
	int there = mysql_has_table(&session->my, "dlock_sessions", err);

	if (there <= 0)
		return there ? OUTCOME_ERROR : OUTCOME_LOST;
	sha256(request->token, strlen(request->token), digest);
	if (records_open(&records, session, request, OVER_HOLDER, err))
		return OUTCOME_ERROR;
	while (records_next(&records, &record))
		if (current(&records, &record) && !record.ended &&
		    !memcmp(record.token, digest, sizeof(digest)))
			outcome = hold_mode_covers(record.shared ? HOLD_SHARED : HOLD_EXCLUSIVE, 0,
						   request, err);
	mysql_free_result(records.rows);
	return outcome;
}

/* ---- showing ---- */

/*
 * Has somebody the lock who is not in the table? Where the server does not tell, this tries to
 * take the lock for an instant.
 */
static int taken(struct session *session, const struct request *request, bool *is,
		 struct error *err)
{
	const struct session_kind *kind = session_kind_of(session);
	struct mysql_backend *my = &session->my;
	int result;

	*is = false;
	if (!kind->probe_sql)
		return 0;
	if (mysql_connect(my, err))
		return -1;
	result = session_run(session, OVER_HOLDER, kind->probe_sql, request, NULL, err);
	if (result && mysql_contended(my)) {
		*is = true;
		result = 0;
	}
	/* Whatever the probe took is freed with the connection. */
	mysql_conn_close(&my->conn);
	return result;
}

static void add_hold(struct lock_view *view, const struct record *record)
{
	struct hold_view *hold = lock_view_add_hold(view);

	hold->holder = record->holder;
	hold->mode = record->shared ? HOLD_SHARED : HOLD_EXCLUSIVE;
	hold->fence = (uint64_t)record->fence;
	hold->age_ms = record->age_us / 1000;
	hold->expires_ms = record->rest_us > 0 ? record->rest_us / 1000 : -1;
	/* The connection is gone: this is how long others will wait, at most. */
	if (record->presence == GONE)
		hold->expires_ms = record->alive_us / 1000;
}

/* Shows the holds that the table knows. 0 or -1. */
static int show_records(struct session *session, const struct request *request,
			struct lock_view *view, int64_t *owner, struct error *err)
{
	struct records records;
	struct record record;

	if (records_open(&records, session, request, OVER_HOLDER, err))
		return -1;
	while (records_next(&records, &record)) {
		if ((uint64_t)record.fence > view->fence)
			view->fence = (uint64_t)record.fence;
		if (record.alive_us > 0 || (current(&records, &record) &&
		    (records.owner != -1 || record.presence == THERE)))
			add_hold(view, &record);
	}
	mysql_free_result(records.rows);
	*owner = records.owner;
	return 0;
}

int session_inspect(struct backend *backend, const char *name, bool listen,
		    struct lock_view *view, struct error *err)
{
	const struct request request = { .name = name, .ttl_ms = 1000 };
	struct session *session = session_of(backend);
	const struct session_kind *kind = session_kind_of(session);
	int64_t owner = -1;
	int there;

	if (mysql_check_name(session->my.strategy, name, err))
		return -1;
	there = mysql_has_table(&session->my, "dlock_sessions", err);
	/* Rows are in a table that is made together with dlock_sessions. */
	if (there < 0 || (!there && kind->make_sql))
		return there;
	if (there && show_records(session, &request, view, &owner, err))
		return -1;
	/* Without our table nobody holds through dlock, but somebody may have it all the same. */
	if (!there && kind->owner_sql &&
	    session_ask(session, OVER_HOLDER, kind->owner_sql, &request, &owner, 1, err) < 0)
		return -1;
	view->held = view->hold_count || owner > 0;
	if (!view->held && owner < 0 && taken(session, &request, &view->held, err))
		return -1;
	if (view->held && !view->hold_count)
		lock_view_add_hold(view);
	if (!view->held || !there)
		return 0;
	if (waiters_view(&session->my, name, view, err))
		return -1;
	return listen ? waiters_watch(&session->my, err) : 0;
}

int session_list(struct backend *backend, struct name_list *names, struct error *err)
{
	const struct request request = { .name = "", .ttl_ms = 1000 };
	struct session *session = session_of(backend);
	struct name_list known = { 0 };
	MYSQL_RES *rows;
	int failed = 0, there = mysql_has_table(&session->my, "dlock_sessions", err);

	if (there <= 0)
		return there;
	if (session_run(session, OVER_HOLDER, sql_session_list, &request, &rows, err))
		return -1;
	mysql_add_names(rows, &known);
	for (size_t i = 0; !failed && i < known.count; i++) {
		struct lock_view view = { 0 };

		failed = session_inspect(backend, known.names[i], false, &view, err);
		if (!failed && view.held)
			name_list_add(names, known.names[i], strlen(known.names[i]));
		lock_view_finish(&view);
	}
	name_list_finish(&known);
	return failed;
}

/* ---- breaking ---- */

/* Buries the registration that session->connection and ->fence name, kills its connection. */
static int end_holder(struct session *session, const struct request *request, bool bury, bool kill,
		      struct error *err)
{
	if (bury && session_run(session, OVER_HOLDER, sql_session_bury, request, NULL, err))
		return -1;
	return kill ? session_run(session, OVER_HOLDER, sql_kill_connection, request, NULL, err)
		    : 0;
}

/*
 * Ends the connections that hold the lock, and the server frees it with them. Nobody waits
 * afterwards for their commands, nor for that of a holder whose connection is gone: the user who
 * breaks a lock answers for these commands.
 */
int session_break(struct backend *backend, const char *name, struct lock_view *view,
		  struct error *err)
{
	const struct request request = { .name = name, .ttl_ms = 1000 };
	struct session *session = session_of(backend);
	struct records records;
	struct record record;
	bool there, broken = false;
	int failed = 0;

	if (session_inspect(backend, name, false, view, err))
		return -1;
	if (!view->held)
		return 0;
	if (records_open(&records, session, &request, OVER_HOLDER, err))
		return -1;
	while (!failed && records_next(&records, &record)) {
		session->connection = record.connection;
		session->fence = (uint64_t)record.fence;
		there = record.presence == THERE && current(&records, &record);
		if (!there && (record.presence != GONE || !record.alive_us))
			continue;
		failed = end_holder(session, &request, true, there, err);
		broken = record.connection;
	}
	mysql_free_result(records.rows);
	/* A client that has the lock beside a buried registration waited only for its end. */
	if (!failed && records.owner > 0 && !broken) {
		session->connection = records.owner;
		broken = true;
		failed = end_holder(session, &request, false, true, err);
	}
	if (failed || broken)
		return failed;
	return error_set(err, ERROR_REFUSED, 0, "%s: held by a connection that this account cannot "
			 "see; find it and KILL it as an administrator", session->my.address.label);
}
