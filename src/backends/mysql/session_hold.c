/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: keeping and ending. See session.h. */
#include "session.h"

#include "api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/net.h"
#include "lock/hold_mode.h"

/* ---- keeping ---- */

/* The server has spoken, or has ended the connection: whoever is waiting for that looks. */
int64_t session_event(struct mysql_backend *my)
{
	const struct mysql_session *session = session_of(my);
	struct error ignored = { 0 };
	MYSQL_RES *rows;

	if (session->waiting || session->asking || session->generation)
		return 0;
	if (!my->conn.pending)
		mysql_conn_close(&my->conn);
	else if (mysql_conn_next(&my->conn, &my->address, NULL, &rows, &ignored) ==
		 MYSQL_STEP_PENDING)
		return CLOCK_NEVER;
	return 0;
}

/* Takes in an answer that is under way. BUSY: it has not come by then. */
static enum outcome await_answer(struct mysql_backend *my, int64_t deadline_ms,
				 struct session_answer *answer, struct error *err)
{
	MYSQL_RES *rows;

	for (;;) {
		switch (mysql_conn_next(&my->conn, &my->address, NULL, &rows, err)) {
		case MYSQL_STEP_PENDING:
			/* Never given up half-way: closing it would free the lock. */
			if (!net_wait(mysql_conn_fd(&my->conn), my->conn.waits, deadline_ms, -1,
				      err))
				continue;
			error_prefix(err, "%s", my->address.label);
			return OUTCOME_BUSY;
		case MYSQL_STEP_ROWS:
			session_read_answer(my, rows, answer);
			mysql_free_result(rows);
			continue;
		case MYSQL_STEP_END:
			return answer->there ? OUTCOME_HELD : OUTCOME_ERROR;
		case MYSQL_STEP_FAILED:
			return my->conn.mysql ? OUTCOME_ERROR : OUTCOME_LOST;
		}
	}
}

/*
 * Asks over the connection that holds; it stays as it is, whatever comes of it. Of two
 * questions, the first one's answer is waited for first. LOST: the connection is gone.
 */
static enum outcome ask(struct mysql_backend *my, const char *sql,
			const struct request *request, struct session_answer *answer,
			struct error *err)
{
	const int64_t deadline_ms = clock_boot_ms() + my->base.timeout_ms;
	struct mysql_session *session = session_of(my);
	struct session_words words;
	enum outcome outcome;
	char *text;

	*answer = (struct session_answer){ .there = false };
	if (session->asking && sql != session->asked_sql) {
		outcome = await_answer(my, deadline_ms, answer, err);
		session->asking = outcome == OUTCOME_BUSY;
		if (outcome == OUTCOME_BUSY || outcome == OUTCOME_LOST)
			return outcome;
	}
	if (!session->asking) {
		session_words(my, request, 0, &words);
		text = sql_format(sql, words.values);
		if (!text) {
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			return OUTCOME_ERROR;
		}
		session->asked_sql = sql;
		session->asked_ms = clock_boot_ms();
		mysql_conn_send(&my->conn, text);
		session->asking = true;
	}
	*answer = (struct session_answer){ .there = false };
	outcome = await_answer(my, deadline_ms, answer, err);
	session->asking = outcome == OUTCOME_BUSY;
	return outcome;
}

/* Is my->conn still the one that holds? */
static bool holding(const struct mysql_backend *my)
{
	const struct mysql_session *session = session_of(my);

	return session->generation && my->conn.mysql &&
	       my->conn.generation == session->generation;
}

static enum outcome lost(const struct mysql_backend *my, const char *how, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", my->address.label, how);
	return OUTCOME_LOST;
}

/* What an answer of a holder says of the hold. */
static enum outcome judge(const struct mysql_backend *my, const struct session_answer *answer,
			  struct error *err)
{
	const struct mysql_session *session = session_of(my);

	if (answer->connection != session->connection || answer->idle_s * 1000 != session->idle_ms)
		return lost(my, "the session is another one now", err);
	if (!answer->yes || (session->kind->transaction && !answer->in_transaction))
		return lost(my, "the session does not have it any more", err);
	if (answer->read_only)
		return lost(my, "the server is read-only now, another one may be the primary", err);
	return OUTCOME_HELD;
}

static enum outcome prove(struct mysql_backend *my, const struct request *request,
			  const char *sql, struct error *err)
{
	struct session_answer answer;
	struct error why = { 0 };

	if (!holding(my))
		return lost(my, "the server ended the connection", err);
	switch (ask(my, sql, request, &answer, &why)) {
	case OUTCOME_HELD:
		return judge(my, &answer, err);
	case OUTCOME_LOST:
		*err = why;
		return OUTCOME_LOST;
	case OUTCOME_BUSY:
	case OUTCOME_ERROR:
		break;
	}
	*err = why;
	return OUTCOME_ERROR;
}

enum outcome session_renew(struct mysql_backend *my, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);
	const struct session_kind *kind = session->kind;
	enum outcome outcome;

	if (!session->generation)
		return OUTCOME_LOST;
	outcome = prove(my, request, kind->renew_sql ? kind->renew_sql : kind->prove_sql, err);
	grant->sent_ms = session->asked_ms;
	grant->ttl_ms = session->idle_ms;
	if (outcome == OUTCOME_HELD && !kind->renew_sql && session_extend(my, request, err))
		return OUTCOME_ERROR;
	if (outcome == OUTCOME_HELD && request->until_ms != session->until_ms) {
		session->until_ms = request->until_ms;
		session_note_end(my, request);
	}
	return outcome;
}

enum outcome session_verify(struct mysql_backend *my, const struct request *request,
			    struct error *err)
{
	struct mysql_session *session = session_of(my);
	enum outcome outcome;

	if (!session->generation)
		return session_verify_other(my, request, err);
	outcome = prove(my, request, session->kind->prove_sql, err);
	return outcome == OUTCOME_HELD ? hold_mode_covers(session->mode, 0, request, err)
				       : outcome;
}

enum outcome session_again(struct mysql_backend *my, const struct request *request,
			   struct grant *grant, struct error *err)
{
	const struct mysql_session *session = session_of(my);
	enum outcome outcome = session_verify(my, request, err);

	grant->sent_ms = session->asked_ms;
	grant->ttl_ms = session->idle_ms;
	if (outcome == OUTCOME_HELD)
		outcome = session_count(my, request, 1, &grant->fence, err);
	return outcome;
}

/* ---- ending ---- */

/* A process of its own keeps the connection while dlock itself returns. */
static enum outcome linger(struct mysql_backend *my, const struct request *request,
			   int64_t keep_ms, struct error *err)
{
	const struct timespec rest = { keep_ms / 1000, keep_ms % 1000 * 1000000 };
	const int fd = mysql_conn_fd(&my->conn);
	struct request kept = *request;
	enum outcome outcome;
	pid_t pid;

	/* Should this host die meanwhile, the server ends it at about the same time. */
	kept.ttl_ms = keep_ms + 1999;
	session_of(my)->idle_ms = session_idle_s(&kept) * 1000;
	outcome = prove(my, &kept, session_of(my)->kind->confirm_sql, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	pid = fork();
	if (pid < 0) {
		error_set(err, ERROR_INTERNAL, 0, "fork");
		return OUTCOME_ERROR;
	}
	if (pid > 0) {
		/* Closing would say farewell to the server, for both of us. */
		my->conn.mysql = NULL;
		return OUTCOME_HELD;
	}
	prctl(PR_SET_NAME, "dlock-min-hold");
	setsid();
	/* Pipes of the caller must not stay open, or it would wait for us. */
	fds_drop_standard();
	fds_close_all_but(&fd, 1);
	if (chdir("/") == 0)
		nanosleep(&rest, NULL);
	_exit(0);
}

/* One acquisition less, but not the last one: see RELEASE_COUNTED. */
static enum outcome release_counted(struct mysql_backend *my, const struct request *request,
				    struct error *err)
{
	enum outcome outcome = session_verify(my, request, err);
	uint64_t fence;

	if (outcome != OUTCOME_HELD)
		return outcome;
	outcome = session_count(my, request, -1, &fence, err);
	if (outcome == OUTCOME_HELD)
		return OUTCOME_BUSY;
	return outcome == OUTCOME_LOST ? OUTCOME_HELD : outcome;
}

/*
 * Frees it, and says with the same request that the command is dead. It was held to the end if
 * the answer says so, whatever the server refuses of the rest: then the end of the connection
 * frees it.
 */
static enum outcome free_lock(struct mysql_backend *my, const struct request *request,
			      struct error *err)
{
	struct mysql_session *session = session_of(my);
	const struct session_kind *kind = session->kind;
	const bool shared = session->mode == HOLD_SHARED;
	struct session_answer answer = { .there = false };
	enum outcome outcome;

	if (!holding(my))
		return lost(my, "the server ended the connection", err);
	outcome = ask(my, shared ? kind->release_shared_sql : kind->release_sql, request, &answer,
		      err);
	session->registered = outcome != OUTCOME_HELD;
	if (answer.there)
		return judge(my, &answer, err);
	if (outcome == OUTCOME_ERROR && my->conn.mysql)
		return prove(my, request, kind->prove_sql, err);
	return outcome == OUTCOME_BUSY ? OUTCOME_ERROR : outcome;
}

enum outcome session_release(struct mysql_backend *my, const struct request *request,
			     enum release how, int64_t keep_ms, struct error *err)
{
	struct mysql_session *session = session_of(my);
	bool ended = how == RELEASE_ALL;
	struct session_words words;
	enum outcome outcome;
	uint64_t fence;

	if (how == RELEASE_COUNTED)
		return release_counted(my, request, err);
	if (session->waiting) {
		waiters_leave(my);
		session_drop(my);
		return OUTCOME_LOST;
	}
	if (how == RELEASE_ONE) {
		outcome = session_verify(my, request, err);
		ended = outcome == OUTCOME_LOST;
		if (outcome == OUTCOME_HELD &&
		    session_count(my, request, -1, &fence, err) == OUTCOME_HELD)
			return OUTCOME_BUSY;
	}
	/*
	 * It is freed by the process that has the connection only. But who has the token may say
	 * that the command is dead, when that process, or the connection, is gone.
	 */
	if (!session->generation) {
		if (session->registered || (!session->tried && ended))
			session_end(my, request, false);
		session_drop(my);
		return OUTCOME_LOST;
	}
	if (keep_ms > 0) {
		outcome = linger(my, request, keep_ms, err);
		if (outcome == OUTCOME_HELD)
			session_end(my, request, true);
	} else {
		outcome = free_lock(my, request, err);
	}
	if (session->registered)
		session_end(my, request, false);
	if (request->forget && outcome == OUTCOME_HELD) {
		session_words(my, request, 0, &words);
		mysql_run_aside(my, sql_session_forget, words.values, NULL, err);
		if (session->kind->forget_sql)
			mysql_run_aside(my, session->kind->forget_sql, words.values, NULL, err);
	}
	session_drop(my);
	return outcome;
}
