/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: keeping and giving back. See session_parts.h. */
#include "session_parts.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/linger.h"
#include "base/net.h"
#include "lock/hold_mode.h"
#include "waiters.h"

/* ---- keeping ---- */

/* The server has spoken, or has ended the connection: the call that waits for that looks. */
int64_t session_event(struct backend *backend)
{
	struct session *session = session_of(backend);
	struct mysql_backend *my = &session->my;
	struct error ignored = { 0 };
	enum mysql_step step;
	MYSQL_RES *rows;

	if (session->waiting || session->asking || session->generation)
		return 0;
	if (!my->conn.pending) {
		mysql_conn_close(&my->conn);
		return 0;
	}
	step = mysql_next(my, &rows, &ignored);
	mysql_free_result(rows);
	return step == MYSQL_STEP_PENDING ? CLOCK_NEVER : 0;
}

/*
 * Takes in an answer that is under way, into session->answer. BUSY: it has not come by then. ERROR:
 * the server refused one of the statements; the row may have come before that.
 */
static enum outcome await_answer(struct session *session, int64_t deadline_ms, struct error *err)
{
	struct mysql_backend *my = &session->my;
	MYSQL_RES *rows;

	for (;;) {
		switch (mysql_next(my, &rows, err)) {
		case MYSQL_STEP_PENDING:
			/* Never given up half-way: closing the connection would free the lock. */
			if (!net_wait(mysql_conn_fd(&my->conn), my->conn.waits, deadline_ms, -1,
				      err))
				continue;
			error_prefix(err, "%s", my->address.label);
			return OUTCOME_BUSY;
		case MYSQL_STEP_ROWS:
			session_read_answer(session, rows, &session->answer);
			continue;
		case MYSQL_STEP_END:
			return session->answer.there ? OUTCOME_HELD : OUTCOME_ERROR;
		case MYSQL_STEP_FAILED:
			return my->conn.mysql ? OUTCOME_ERROR : OUTCOME_LOST;
		}
	}
}

/*
 * Asks over the connection that holds, which stays as it is, whatever comes of it: session->answer.
 * If another question is under way, its answer is waited for first. LOST: the connection is gone.
 */
static enum outcome ask(struct session *session, const char *sql, const struct request *request,
			struct error *err)
{
	const int64_t deadline_ms = clock_boot_ms() + session->my.base.timeout_ms;
	enum outcome outcome;
	struct words words;

	if (session->asking && sql != session->asked_sql) {
		outcome = await_answer(session, deadline_ms, err);
		session->asking = outcome == OUTCOME_BUSY;
		if (outcome == OUTCOME_BUSY || outcome == OUTCOME_LOST)
			return outcome;
	}
	if (!session->asking) {
		session_words(session, request, &words);
		session->asked_sql = sql;
		session->asked_ms = clock_boot_ms();
		session->answer.there = false;
		mysql_conn_send(&session->my.conn, sql_format(sql, words.values));
	}
	outcome = await_answer(session, deadline_ms, err);
	session->asking = outcome == OUTCOME_BUSY;
	return outcome;
}

static enum outcome lost(const struct session *session, const char *how, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", session->my.address.label, how);
	return OUTCOME_LOST;
}

/* Is my.conn still the one that holds? */
static bool holding(const struct session *session, struct error *err)
{
	const struct mysql_conn *conn = &session->my.conn;

	if (session->generation && conn->mysql && conn->generation == session->generation)
		return true;
	lost(session, "the server ended the connection", err);
	return false;
}

/* What an answer of a holder says of the hold. */
static enum outcome judge(const struct session *session, struct error *err)
{
	const struct session_answer *answer = &session->answer;

	if (answer->connection != session->connection || answer->idle_s * 1000 != session->idle_ms)
		return lost(session, "the session is another one now", err);
	if (!answer->yes || (session_kind_of(session)->transaction && !answer->in_transaction))
		return lost(session, "the session no longer has the lock", err);
	if (answer->read_only)
		return lost(session, "the server is read-only now, another one may be the primary",
			    err);
	return OUTCOME_HELD;
}

static enum outcome prove(struct session *session, const struct request *request, const char *sql,
			  struct error *err)
{
	enum outcome outcome;
	struct error why;

	if (!holding(session, err))
		return OUTCOME_LOST;
	*err = (struct error){ .kind = ERROR_NONE };
	outcome = ask(session, sql, request, err);
	if (outcome == OUTCOME_HELD)
		return judge(session, err);
	/* What was refused stays an error, unless the proof that came before it says more. */
	if (outcome == OUTCOME_ERROR && session->answer.there &&
	    judge(session, &why) == OUTCOME_LOST) {
		*err = why;
		return OUTCOME_LOST;
	}
	return outcome == OUTCOME_LOST ? OUTCOME_LOST : OUTCOME_ERROR;
}

enum outcome session_renew(struct backend *backend, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct session *session = session_of(backend);
	const struct session_kind *kind = session_kind_of(session);
	struct error ignored = { 0 };
	enum outcome outcome;

	if (!session->generation)
		return OUTCOME_LOST;
	outcome = prove(session, request, kind->renew_sql ? kind->renew_sql : kind->prove_sql, err);
	grant->sent_ms = session->asked_ms;
	grant->ttl_ms = session->idle_ms;
	if (outcome == OUTCOME_HELD && !kind->renew_sql &&
	    session_run(session, OVER_SIDE, sql_session_extend, request, NULL, err))
		return OUTCOME_ERROR;
	if (outcome == OUTCOME_HELD && request->until_ms != session->until_ms) {
		session->until_ms = request->until_ms;
		session_run(session, OVER_NEW, sql_session_until, request, NULL, &ignored);
	}
	return outcome;
}

enum outcome session_verify(struct backend *backend, const struct request *request,
			    struct error *err)
{
	struct session *session = session_of(backend);
	enum outcome outcome;

	if (!session->generation)
		return session_verify_other(session, request, err);
	outcome = prove(session, request, session_kind_of(session)->prove_sql, err);
	return outcome == OUTCOME_HELD ? hold_mode_covers(session->mode, 0, request, err)
				       : outcome;
}

/* ---- giving back ---- */

/* A process of its own keeps the connection while dlock itself returns. */
static enum outcome linger(struct session *session, const struct request *request,
			   int64_t keep_ms, struct error *err)
{
	const int fd = mysql_conn_fd(&session->my.conn);
	struct request kept = *request;
	enum outcome outcome;

	/* Should this host die meanwhile, the server ends the connection at about the same time. */
	kept.ttl_ms = keep_ms + 1999;
	session->idle_ms = session_idle_s(&kept) * 1000;
	outcome = prove(session, &kept, session_kind_of(session)->confirm_sql, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (linger_start(keep_ms, &fd, 1, NULL, NULL, err))
		return OUTCOME_ERROR;
	/* Closing would say farewell to the server, for both processes. */
	session->my.conn.mysql = NULL;
	return OUTCOME_HELD;
}

/*
 * Frees the lock, and says with the same request that the command is dead. The lock was held to
 * the end if the answer says so, whatever the server refuses of the rest: then the end of the
 * connection frees it.
 */
static enum outcome free_lock(struct session *session, const struct request *request,
			      struct error *err)
{
	const struct session_kind *kind = session_kind_of(session);
	enum outcome outcome;

	if (!holding(session, err))
		return OUTCOME_LOST;
	outcome = ask(session, kind->release_sql, request, err);
	session->registered = outcome != OUTCOME_HELD;
	if (session->asked_sql == kind->release_sql && session->answer.there)
		return judge(session, err);
	if (outcome == OUTCOME_ERROR && session->my.conn.mysql)
		return prove(session, request, kind->prove_sql, err);
	return outcome == OUTCOME_BUSY ? OUTCOME_ERROR : outcome;
}

/* Deletes what a name that will never be used again has left. */
static void forget(struct session *session, const struct request *request)
{
	const char *forget_sql = session_kind_of(session)->forget_sql;
	struct error ignored = { 0 };

	session_run(session, OVER_NEW, sql_session_forget, request, NULL, &ignored);
	if (forget_sql)
		session_run(session, OVER_NEW, forget_sql, request, NULL, &ignored);
}

/* Is nothing left of a hold that another process has made? */
static bool has_ended(struct session *session, const struct request *request, struct error *err)
{
	return request->own || session_verify_other(session, request, err) == OUTCOME_LOST;
}

enum outcome session_release(struct backend *backend, const struct request *request,
			     int64_t keep_ms, struct error *err)
{
	struct session *session = session_of(backend);
	enum outcome outcome;

	if (session->waiting) {
		waiters_leave(&session->my, request);
		session_drop(session);
		return OUTCOME_LOST;
	}
	/*
	 * Only the process that has the connection frees the lock. But any process that has the
	 * token may say that the command is dead, when that process or the connection is gone.
	 */
	if (!session->generation) {
		if (session->registered || (!session->tried && has_ended(session, request, err)))
			session_end(session, request);
		session_drop(session);
		return OUTCOME_LOST;
	}
	if (keep_ms > 0) {
		outcome = linger(session, request, keep_ms, err);
		if (outcome == OUTCOME_HELD)
			session_keep(session, request, keep_ms);
	} else {
		outcome = free_lock(session, request, err);
	}
	if (session->registered)
		session_end(session, request);
	if (request->forget && outcome == OUTCOME_HELD)
		forget(session, request);
	session_drop(session);
	return outcome;
}
