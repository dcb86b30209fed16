/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: taking them, and waiting for them. See session_parts.h. */
#include "session_parts.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"

/* How often a waiter looks who holds the lock, to be able to say so. */
#define LOOK_MS 15000
/* Pause after statements of several clients got in each other's way. */
#define CONTENTION_MS 20
/* Pause before a look whether the command of an earlier holder is dead; it doubles each time. */
#define NAP_FIRST_MS 2
#define NAP_LAST_MS 100
/* How often to try when the row has to be made first. */
#define ATTEMPTS 3

/* Runs sql over my.conn, which is closed when that takes too long. 0 or -1. */
static int ask(struct session *session, const char *sql, const struct request *request,
	       struct session_answer *answer, struct error *err)
{
	MYSQL_RES *rows;

	if (session_run(session, OVER_HOLDER, sql, request, &rows, err))
		return -1;
	session_read_answer(session, rows, answer);
	return 0;
}

/* Refuses a server on which the lock that it has just given is of no use. */
static int admit_server(const struct session *session, const struct request *request,
			const struct session_answer *answer, struct error *err)
{
	const char *label = session->my.address.label;

	if (answer->wsrep && !session->unsafe)
		return error_set(err, ERROR_USAGE, 0, "%s: is a Galera node, and ?strategy=%s "
				 "excludes nobody on another one: use ?strategy=lease, or insert; "
				 "with one node for all clients, ?wsrep=unsafe", label,
				 session->my.strategy->name);
	if (answer->read_only)
		return error_set(err, ERROR_REFUSED, 0,
				 "%s: the server is read-only: name the primary", label);
	if (answer->idle_s != session_idle_s(request))
		return error_set(err, ERROR_REFUSED, 0, "%s: wait_timeout does not stay as it was "
				 "set; ?strategy=lease needs no session of its own", label);
	return 0;
}

/* Somebody else has the lock. Says who, and when to ask again unless the server says more. */
static enum outcome busy(const struct session *session, struct grant *grant, int64_t retry_ms)
{
	grant->holder = session->holder;
	grant->age_ms = session->since_ms < 0 ? -1 : clock_boot_ms() - session->since_ms;
	grant->ahead = -1;
	grant->retry_ms = retry_ms;
	return OUTCOME_BUSY;
}

static enum outcome contention(struct session *session, struct grant *grant)
{
	/* This session has the lock already, and would take it a second time. */
	if (session->waiting && session->asleep == BEHIND)
		session_drop(session);
	session->waiting = false;
	return busy(session, grant, clock_boot_ms() + CONTENTION_MS);
}

/*
 * Looks who holds the lock. True with *err if the server gave no answer at all: it hangs, or cannot
 * be reached, and the connection that sleeps cannot tell that. Any other failure means nothing.
 */
static bool is_silent(struct session *session, const struct request *request, struct error *err)
{
	return session_look(session, request, OVER_NEW, err) && err->errnum == ETIMEDOUT;
}

/*
 * Takes in what the server says to a session that sleeps. BUSY: nothing yet. HELD: the statement
 * has come to its end, with the lock.
 */
static enum outcome hear(struct session *session, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct mysql_backend *my = &session->my;
	struct session_answer answer = { .there = false };
	MYSQL_RES *rows;

	for (;;) {
		switch (mysql_next(my, &rows, err)) {
		case MYSQL_STEP_PENDING:
			if (clock_boot_ms() >= session->look_ms) {
				if (is_silent(session, request, err)) {
					session_drop(session);
					return OUTCOME_ERROR;
				}
				session->look_ms = clock_boot_ms() + LOOK_MS;
			}
			return busy(session, grant, session->look_ms);
		case MYSQL_STEP_ROWS:
			session_read_answer(session, rows, &answer);
			continue;
		case MYSQL_STEP_END:
			if (answer.there && answer.yes)
				return OUTCOME_HELD;
			return contention(session, grant);
		case MYSQL_STEP_FAILED:
			if (mysql_contended(my))
				return contention(session, grant);
			session_drop(session);
			return OUTCOME_ERROR;
		}
	}
}

/* Sends sql, in which the server keeps this session waiting, for the lock or with it. */
static void fall_asleep(struct session *session, const struct request *request, const char *sql)
{
	struct words words;

	session_words(session, request, &words);
	mysql_conn_send(&session->my.conn, sql_format(sql, words.values));
	session->asleep = sql == sql_session_nap ? BEHIND : IN_LINE;
	session->waiting = true;
	session->look_ms = clock_boot_ms() + LOOK_MS;
}

/*
 * The lock is ours, but the command of an earlier holder may be alive yet: waits for its end, or,
 * if nobody wants to wait, gives the lock back.
 */
static enum outcome stay_behind(struct session *session, const struct request *request,
				struct grant *grant, struct error *err)
{
	/* The first time it may be a holder in good order, whose last statement is under way. */
	const bool look = session->nap_ms == NAP_FIRST_MS || session->since_ms < 0;
	struct error ignored = { 0 };

	if (look || !request->queue)
		session_run(session, OVER_NEW, sql_session_behind, request, NULL, &ignored);
	if (!request->queue) {
		session_drop(session);
		return OUTCOME_BUSY;
	}
	if (look)
		session_look(session, request, OVER_NEW, err);
	if (!session->nap_ms)
		session->nap_ms = NAP_FIRST_MS;
	else if (session->nap_ms < NAP_LAST_MS)
		session->nap_ms *= 2;
	fall_asleep(session, request, sql_session_nap);
	/* The next call sends the statement, and hears what comes of it. */
	return busy(session, grant, clock_boot_ms());
}

/*
 * A client that took the lock before our registration was written has not seen it: so makes sure
 * that there was none.
 */
static int prove_again(struct session *session, const struct request *request, struct error *err)
{
	const struct session_kind *kind = session_kind_of(session);
	struct session_answer answer;

	if (kind->own_registry)
		return 0;
	if (ask(session, kind->prove_sql, request, &answer, err))
		return -1;
	if (answer.yes && answer.connection == session->connection &&
	    (!kind->transaction || answer.in_transaction))
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: the session that took the lock is gone",
			 session->my.address.label);
}

/* The lock is ours: registers that, and tells the engine. */
static enum outcome settle(struct session *session, const struct request *request,
			   const struct session_answer *answer, int64_t sent_ms,
			   struct grant *grant, struct error *err)
{
	enum outcome outcome = OUTCOME_ERROR;
	struct error why;

	session->waiting = false;
	session->connection = answer->connection;
	session->idle_ms = session_idle_s(request) * 1000;
	session->mode = request->mode;
	session->until_ms = request->until_ms;
	if (!admit_server(session, request, answer, err))
		outcome = session_register(session, request, err);
	if (outcome == OUTCOME_BUSY)
		return stay_behind(session, request, grant, err);
	if (outcome == OUTCOME_HELD && prove_again(session, request, err))
		outcome = OUTCOME_ERROR;
	if (outcome != OUTCOME_HELD) {
		why = *err;
		/* No command has been started for the registration. */
		if (session->registered)
			session_end(session, request);
		session_drop(session);
		*err = why;
		return OUTCOME_ERROR;
	}
	session->nap_ms = 0;
	session->generation = session->my.conn.generation;
	grant->hold_fd = mysql_conn_fd(&session->my.conn);
	grant->sent_ms = sent_ms;
	grant->ttl_ms = session->idle_ms;
	grant->fence = session->fence;
	return OUTCOME_HELD;
}

/* One statement that takes the lock or does not. The row may have to be made first. */
static enum outcome try_once(struct session *session, const struct request *request,
			     struct grant *grant, struct error *err)
{
	const struct session_kind *kind = session_kind_of(session);
	struct mysql_backend *my = &session->my;
	struct session_answer answer;
	int64_t sent_ms;

	/* What the texts say depends on the server. */
	if (mysql_connect(my, err))
		return OUTCOME_ERROR;
	for (int i = 0; i < ATTEMPTS; i++) {
		sent_ms = clock_boot_ms();
		if (ask(session, kind->try_sql, request, &answer, err)) {
			if (mysql_contended(my))
				return OUTCOME_BUSY;
			if (my->conn.mysql && my->conn.code == MYSQL_NO_SUCH_TABLE &&
			    !kind->make_sql)
				error_set(err, ERROR_REFUSED, 0, "%s: there is no table of this "
					  "name to lock; ?strategy=lease needs none",
					  my->address.label);
			return OUTCOME_ERROR;
		}
		if (answer.there && answer.yes)
			return settle(session, request, &answer, sent_ms, grant, err);
		if (answer.there || !kind->make_sql)
			return OUTCOME_BUSY;
		if (ask(session, kind->make_sql, request, &answer, err) && !mysql_contended(my))
			return OUTCOME_ERROR;
	}
	return OUTCOME_BUSY;
}

/* In line, or behind an earlier holder. The statement's end tells that the lock may be ours. */
static enum outcome go_on_waiting(struct session *session, const struct request *request,
				  struct grant *grant, struct error *err)
{
	const struct session_kind *kind = session_kind_of(session);
	enum outcome outcome = hear(session, request, grant, err);
	const int64_t sent_ms = clock_boot_ms();
	struct session_answer answer;

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (ask(session, kind->confirm_sql, request, &answer, err)) {
		session_drop(session);
		return OUTCOME_ERROR;
	}
	if (!answer.yes || (kind->transaction && !answer.in_transaction))
		return contention(session, grant);
	return settle(session, request, &answer, sent_ms, grant, err);
}

static enum outcome session_acquire(struct backend *backend, const struct request *request,
				    struct grant *grant, struct error *err)
{
	struct session *session = session_of(backend);
	enum outcome outcome;

	if (mysql_check_name(session->my.strategy, request->name, err))
		return OUTCOME_ERROR;
	session->tried = true;
	if (session->waiting)
		return go_on_waiting(session, request, grant, err);
	if (session->generation) {
		grant->fence = session->fence;
		return session_renew(backend, request, grant, err);
	}
	session->nap_ms = 0;
	outcome = try_once(session, request, grant, err);
	if (outcome != OUTCOME_BUSY || session->waiting)
		return outcome;
	if (session_look(session, request, OVER_HOLDER, err)) {
		session_drop(session);
		return OUTCOME_ERROR;
	}
	if (!request->queue)
		return busy(session, grant, CLOCK_NEVER);
	fall_asleep(session, request, session_kind_of(session)->wait_sql);
	return go_on_waiting(session, request, grant, err);
}

const struct backend_ops session_ops = {
	MYSQL_COMMON_SLOTS,
	.acquire = session_acquire,
	.event = session_event,
	.renew = session_renew,
	.verify = session_verify,
	.release = session_release,
	.inspect = session_inspect,
	.list = session_list,
	.break_hold = session_break,
};
