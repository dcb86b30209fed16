/* SPDX-License-Identifier: MIT */
/* The table dlock_sessions: what holders write there. See session.h. */
#include "session.h"

#include "api.h"

#include "base/error.h"
#include "waiters.h"

/*
 * Runs sql over the second connection, whatever the first one is doing. It stays open until
 * session_drop(), and is opened anew when it broke: what goes over it may be sent twice.
 */
static int run_on_side(struct mysql_backend *my, const char *sql,
		       const struct session_words *words, MYSQL_RES **rows, struct error *err)
{
	struct mysql_session *session = session_of(my);
	const struct mysql_conn main = my->conn;
	const bool resent = my->resent;
	int result;

	my->conn = session->side;
	my->conn.no_cluster |= main.no_cluster;
	result = mysql_run(my, sql, words->values, MYSQL_REPEAT, rows, err);
	session->side = my->conn;
	my->conn = main;
	my->resent = resent;
	return result;
}

enum outcome session_register(struct mysql_backend *my, const struct request *request,
			      struct error *err)
{
	struct mysql_session *session = session_of(my);
	const char *sql = request->mode == HOLD_SHARED ? sql_session_share
						       : sql_session_register;
	int64_t numbers[2] = { 0 };
	struct session_words words;
	MYSQL_RES *rows;
	int result;

	session_words(my, request, 0, &words);
	session->registered = true;
	result = session->kind->own_registry
		? mysql_run(my, sql, words.values, MYSQL_ONCE, &rows, err)
		: run_on_side(my, sql, &words, &rows, err);
	if (result)
		return OUTCOME_ERROR;
	mysql_numbers(rows, numbers, 2);
	mysql_free_result(rows);
	if (numbers[0] > 0) {
		session->fence = (uint64_t)numbers[0];
		return OUTCOME_HELD;
	}
	if (numbers[1] > 0) {
		session->registered = false;
		return OUTCOME_BUSY;
	}
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave no fence", my->address.label);
	return OUTCOME_ERROR;
}

int session_extend(struct mysql_backend *my, const struct request *request, struct error *err)
{
	struct session_words words;

	session_words(my, request, 0, &words);
	return run_on_side(my, sql_session_extend, &words, NULL, err);
}

void session_end(struct mysql_backend *my, const struct request *request, bool shown)
{
	struct mysql_session *session = session_of(my);
	const enum hold_mode mode = session->tried ? session->mode : request->mode;
	const bool unshare = mode == HOLD_SHARED && !shown;
	struct session_words words;
	struct error ignored = { 0 };

	session_words(my, request, 0, &words);
	if (!run_on_side(my, unshare ? sql_session_unshare : sql_session_end, &words, NULL,
			 &ignored))
		session->registered = false;
}

void session_bound(struct mysql_backend *my, const struct request *request)
{
	struct session_words words;
	struct error ignored = { 0 };

	session_words(my, request, 0, &words);
	mysql_run_aside(my, sql_session_behind, words.values, NULL, &ignored);
}

void session_note_end(struct mysql_backend *my, const struct request *request)
{
	struct session_words words;
	struct error ignored = { 0 };

	session_words(my, request, 0, &words);
	mysql_run_aside(my, sql_session_until, words.values, NULL, &ignored);
}

enum outcome session_count(struct mysql_backend *my, const struct request *request, int delta,
			   uint64_t *fence, struct error *err)
{
	int64_t numbers[2] = { 0 };
	struct session_words words;
	MYSQL_RES *rows;

	session_words(my, request, delta, &words);
	if (mysql_run_aside(my, sql_session_count, words.values, &rows, err))
		return OUTCOME_ERROR;
	mysql_numbers(rows, numbers, 2);
	mysql_free_result(rows);
	*fence = (uint64_t)numbers[1];
	return numbers[0] > 0 ? OUTCOME_HELD : OUTCOME_LOST;
}
