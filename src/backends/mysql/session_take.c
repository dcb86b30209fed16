/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: taking them, and waiting for them. See session.h. */
#include "session.h"

#include "api.h"

#include "base/clock.h"
#include "base/error.h"

/* A waiter looks so often at who holds it, to be able to say so. */
#define LOOK_MS 15000
/* Statements got in each other's way: again after this. */
#define CONTENTION_MS 20
/* A look whether the command of an earlier holder is dead: after this, then twice as long. */
#define NAP_FIRST_MS 2
#define NAP_LAST_MS 100

/* Runs text over my->conn, which is closed when that takes too long. */
static int run(struct mysql_backend *my, const char *sql, const struct request *request,
	       struct session_answer *answer, struct error *err)
{
	struct session_words words;
	MYSQL_RES *rows;

	session_words(my, request, 0, &words);
	if (mysql_run(my, sql, words.values, MYSQL_ONCE, &rows, err))
		return -1;
	session_read_answer(my, rows, answer);
	mysql_free_result(rows);
	return 0;
}

static int refuse(const struct mysql_session *session, const struct request *request,
		  struct error *err)
{
	const struct session_kind *kind = session->kind;

	if (request->mode == HOLD_SLOT)
		error_set(err, ERROR_USAGE, 0, "?strategy=%s has no --slots; ?strategy=lease has",
			  kind->name);
	else if (request->mode == HOLD_SHARED && !kind->shared)
		error_set(err, ERROR_USAGE, 0, "?strategy=%s has no shared holds; ?strategy=lease, "
			  "row and table have", kind->name);
	else
		return kind->admit(request->name, err);
	return -1;
}

/* What is wrong with a server that has just given us the lock. */
static int admit_server(const struct mysql_backend *my, const struct request *request,
			const struct session_answer *answer, struct error *err)
{
	const struct mysql_session *session = session_of(my);

	if (answer->wsrep && !session->unsafe)
		error_set(err, ERROR_USAGE, 0, "%s: is a Galera node, and ?strategy=%s "
			  "excludes nobody "
			  "on another one: use ?strategy=lease, or insert; with one node for all "
			  "clients, ?wsrep=unsafe", my->address.label, session->kind->name);
	else if (answer->read_only)
		error_set(err, ERROR_REFUSED, 0, "%s: the server is read-only: name the primary",
			  my->address.label);
	else if (answer->idle_s != session_idle_s(request))
		error_set(err, ERROR_REFUSED, 0, "%s: wait_timeout does not stay as it was set; "
			  "?strategy=lease needs no session of its own", my->address.label);
	else
		return 0;
	return -1;
}

/* Somebody else has it. Says who, and when to ask again unless the server says more. */
static enum outcome busy(const struct mysql_session *session, struct grant *grant,
			 int64_t retry_ms)
{
	grant->holder = session->holder;
	grant->age_ms = session->since_ms < 0 ? -1 : clock_boot_ms() - session->since_ms;
	grant->ahead = -1;
	grant->retry_ms = retry_ms;
	return OUTCOME_BUSY;
}

static enum outcome contention(struct mysql_backend *my, struct grant *grant)
{
	struct mysql_session *session = session_of(my);

	/* It has the lock, and would take it a second time. */
	if (session->waiting && session->asleep == BEHIND)
		session_drop(my);
	session->waiting = false;
	return busy(session, grant, clock_boot_ms() + CONTENTION_MS);
}

/*
 * Has the server said anything to one who sleeps? Not yet: BUSY. HELD: the statement has come
 * to its end, with the lock.
 */
static enum outcome hear(struct mysql_backend *my, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);
	struct session_answer answer = { .there = false };
	MYSQL_RES *rows;

	for (;;) {
		switch (mysql_conn_next(&my->conn, &my->address, NULL, &rows, err)) {
		case MYSQL_STEP_PENDING:
			if (clock_boot_ms() >= session->look_ms) {
				session_look(my, request, true, err);
				session->look_ms = clock_boot_ms() + LOOK_MS;
			}
			return busy(session, grant, session->look_ms);
		case MYSQL_STEP_ROWS:
			session_read_answer(my, rows, &answer);
			mysql_free_result(rows);
			continue;
		case MYSQL_STEP_END:
			if (answer.there && answer.yes)
				return OUTCOME_HELD;
			return contention(my, grant);
		case MYSQL_STEP_FAILED:
			if (my->conn.mysql && mysql_code_is_contention(my->conn.code))
				return contention(my, grant);
			session_drop(my);
			return OUTCOME_ERROR;
		}
	}
}

/* Sends sql, in which the server keeps us waiting, for the lock or with it. */
static int fall_asleep(struct mysql_backend *my, const struct request *request, const char *sql,
		       struct error *err)
{
	struct mysql_session *session = session_of(my);
	struct session_words words;
	char *text;

	session_words(my, request, 0, &words);
	text = sql_format(sql, words.values);
	if (!text) {
		session_drop(my);
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	mysql_conn_send(&my->conn, text);
	session->asleep = sql == sql_session_nap ? BEHIND : IN_LINE;
	session->waiting = true;
	session->look_ms = clock_boot_ms() + LOOK_MS;
	return 0;
}

/*
 * It is ours, but the command of an earlier holder may be alive yet: waits for its end, or, if
 * nobody wants to wait, gives it back.
 */
static enum outcome stay_behind(struct mysql_backend *my, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);

	if (!request->queue) {
		session_drop(my);
		return OUTCOME_BUSY;
	}
	/* The first time it may be a holder in good order, whose last statement is under way. */
	if (session->nap_ms == NAP_FIRST_MS || session->since_ms < 0) {
		session_bound(my, request);
		session_look(my, request, true, err);
	}
	if (!session->nap_ms)
		session->nap_ms = NAP_FIRST_MS;
	else if (session->nap_ms < NAP_LAST_MS)
		session->nap_ms *= 2;
	if (fall_asleep(my, request, sql_session_nap, err))
		return OUTCOME_ERROR;
	/* The next call sends it, and hears what comes of it. */
	return busy(session, grant, clock_boot_ms());
}

/*
 * Whoever took the lock before it was registered that it is ours will not have seen that: so
 * nobody must have.
 */
static int prove_again(struct mysql_backend *my, const struct request *request, struct error *err)
{
	const struct mysql_session *session = session_of(my);
	struct session_answer answer;

	if (session->kind->own_registry)
		return 0;
	if (run(my, session->kind->prove_sql, request, &answer, err))
		return -1;
	if (answer.yes && answer.connection == session->connection &&
	    (!session->kind->transaction || answer.in_transaction))
		return 0;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: the session that took the lock is gone",
		  my->address.label);
	return -1;
}

/* It is ours: notes that, and what the engine wants to know. */
static enum outcome settle(struct mysql_backend *my, const struct request *request,
			   const struct session_answer *answer, int64_t sent_ms,
			   struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);
	enum outcome outcome = OUTCOME_ERROR;
	struct error why;

	session->waiting = false;
	session->connection = answer->connection;
	session->idle_ms = session_idle_s(request) * 1000;
	session->mode = request->mode;
	session->until_ms = request->until_ms;
	if (!admit_server(my, request, answer, err))
		outcome = session_register(my, request, err);
	if (outcome == OUTCOME_BUSY)
		return stay_behind(my, request, grant, err);
	if (outcome == OUTCOME_HELD && prove_again(my, request, err))
		outcome = OUTCOME_ERROR;
	if (outcome != OUTCOME_HELD) {
		why = *err;
		/* A connection that is left tells that nothing of ours has started. */
		if (session->registered)
			session_end(my, request, false);
		session_drop(my);
		*err = why;
		return OUTCOME_ERROR;
	}
	session->nap_ms = 0;
	session->generation = my->conn.generation;
	grant->hold_fd = mysql_conn_fd(&my->conn);
	grant->sent_ms = sent_ms;
	grant->ttl_ms = session->idle_ms;
	grant->fence = session->fence;
	return OUTCOME_HELD;
}

/* One statement that takes it or not. The row may have to be made first. */
static enum outcome try_once(struct mysql_backend *my, const struct request *request,
			     struct grant *grant, struct error *err)
{
	const struct session_kind *kind = session_of(my)->kind;
	struct session_answer answer;
	int64_t sent_ms;

	/* What the texts say depends on the server. */
	if (mysql_connect(my, err))
		return OUTCOME_ERROR;
	for (int attempts = 0; attempts < 3; attempts++) {
		sent_ms = clock_boot_ms();
		if (run(my, kind->try_sql, request, &answer, err)) {
			if (my->conn.mysql && mysql_code_is_contention(my->conn.code))
				return OUTCOME_BUSY;
			if (my->conn.mysql && my->conn.code == MYSQL_NO_SUCH_TABLE &&
			    !kind->make_sql)
				error_set(err, ERROR_REFUSED, 0, "%s: there is no table of "
					  "this name to "
					  "lock; ?strategy=lease needs none", my->address.label);
			return OUTCOME_ERROR;
		}
		if (answer.there && answer.yes)
			return settle(my, request, &answer, sent_ms, grant, err);
		if (answer.there || !kind->make_sql)
			return OUTCOME_BUSY;
		if (run(my, kind->make_sql, request, &answer, err) &&
		    !(my->conn.mysql && mysql_code_is_contention(my->conn.code)))
			return OUTCOME_ERROR;
	}
	return OUTCOME_BUSY;
}

/* The statement that waits has come to an end, and we are awake. */
static enum outcome confirm(struct mysql_backend *my, const struct request *request,
			    struct grant *grant, struct error *err)
{
	const struct session_kind *kind = session_of(my)->kind;
	const int64_t sent_ms = clock_boot_ms();
	struct session_answer answer;

	if (run(my, kind->confirm_sql, request, &answer, err)) {
		session_drop(my);
		return OUTCOME_ERROR;
	}
	if (!answer.yes || (kind->transaction && !answer.in_transaction))
		return contention(my, grant);
	return settle(my, request, &answer, sent_ms, grant, err);
}

/* In line, or behind an earlier holder. */
static enum outcome go_on_waiting(struct mysql_backend *my, const struct request *request,
				  struct grant *grant, struct error *err)
{
	enum outcome outcome = hear(my, request, grant, err);

	return outcome == OUTCOME_HELD ? confirm(my, request, grant, err) : outcome;
}

enum outcome session_acquire(struct mysql_backend *my, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);
	enum outcome outcome;

	if (refuse(session, request, err))
		return OUTCOME_ERROR;
	session->tried = true;
	if (session->waiting)
		return go_on_waiting(my, request, grant, err);
	if (session->generation) {
		grant->fence = session->fence;
		return session_renew(my, request, grant, err);
	}
	session->nap_ms = 0;
	outcome = try_once(my, request, grant, err);
	if (outcome != OUTCOME_BUSY || session->waiting)
		return outcome;
	if (session_look(my, request, false, err)) {
		session_drop(my);
		return OUTCOME_ERROR;
	}
	if (!request->queue)
		return busy(session, grant, CLOCK_NEVER);
	if (fall_asleep(my, request, session->kind->wait_sql, err))
		return OUTCOME_ERROR;
	return go_on_waiting(my, request, grant, err);
}
