/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: taking, waiting, keeping. See mysql_session.h. */
#include "mysql_session.h"

#include "mysql_api.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "mysql_waiters.h"
#include "net.h"
#include "uri.h"
#include "view.h"

/* The longest that MySQL takes for wait_timeout, a year, is for ever. */
#define YEAR_S 31536000
/* A waiter that hangs keeps what it was given so long: less than 5 s (SPEC, 2.7). */
#define HUNG_S 4
/* A waiter looks so often at who holds it, to be able to say so. */
#define LOOK_MS 15000
/* Statements got in each other's way: again after this. */
#define CONTENTION_MS 20

#define NO_SUCH_TABLE 1146

const char *const session_params[] = { "wsrep", NULL };

int session_open(struct mysql_backend *my, const struct session_kind *kind,
		 const struct uri *uri, struct error *err)
{
	const char *wsrep = uri_param(uri, "wsrep");
	struct mysql_session *session;

	if (wsrep && strcmp(wsrep, "unsafe") != 0) {
		error_set(err, ERROR_USAGE, 0, "parameter \"wsrep\" for %.32s: wants \"unsafe\"",
			  uri->scheme);
		return -1;
	}
	session = calloc(1, sizeof(*session));
	if (!session) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	session->kind = kind;
	session->unsafe = wsrep;
	session->since_ms = -1;
	my->state = session;
	return 0;
}

void session_close(struct mysql_backend *my)
{
	free(my->state);
	my->state = NULL;
}

/* ---- texts ---- */

static const char *lock_clause(const struct session_kind *kind, const struct request *request)
{
	return request->mode == HOLD_SHARED ? kind->shared : kind->exclusive;
}

/* Older ones wait for a second, which session.sql sets. */
static const char *nowait_clause(MYSQL *mysql, const struct session_kind *kind,
				 const struct request *request)
{
	const bool maria = mysql && strstr(mysql_get_server_info(mysql), "MariaDB");

	/* Two checks at once may have to wait for each other. */
	if (request->forget)
		return "";
	if (maria)
		return "NOWAIT";
	return mysql && kind->transaction && request->mode != HOLD_SHARED &&
		mysql_get_server_version(mysql) >= 80001 ? "NOWAIT" : "";
}

int64_t session_idle_s(const struct request *request)
{
	const int64_t idle = request->ttl_ms / 1000;

	return idle < 1 ? 1 : idle > YEAR_S ? YEAR_S : idle;
}

/*
 * What a lock of the server is called: names there have at most 64 characters, and
 * capital and small letters, or characters with and without accents, may be the same to
 * it. A name that is free of all that is used as it is.
 */
static void make_key(const char *name, char key[static SESSION_KEY_SIZE])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.:/+=@,#";
	unsigned char digest[SHA256_SIZE];
	const size_t length = strlen(name);

	if (length < SESSION_KEY_SIZE && strspn(name, plain) == length) {
		memcpy(key, name, length + 1);
		return;
	}
	sha256(name, length, digest);
	memcpy(key, "dlock:", 6);
	for (int i = 0; i < 24; i++)
		snprintf(key + 6 + 2 * i, 3, "%02x", digest[i]);
}

/* Until a hold that has an end of its own ends, for people; 0: it has none. */
static int64_t rest_us(const struct request *request)
{
	const int64_t rest_ms = request->until_ms - clock_wall_ms();

	return request->until_ms && rest_ms > 0 ? rest_ms * 1000 : 0;
}

void session_words(struct mysql_backend *my, const struct request *request, int delta,
		   struct session_words *words)
{
	const struct mysql_session *session = session_of(my);
	const struct session_kind *kind = session->kind;
	const int64_t idle = session_idle_s(request);
	const bool maria = my->conn.mysql &&
			   strstr(mysql_get_server_info(my->conn.mysql), "MariaDB");

	make_key(request->name, words->key);
	waiters_mark(kind->name, request->name, words->mark);
	sha256(request->token ? request->token : "",
		     request->token ? strlen(request->token) : 0, words->digest);
	holder_encode(&request->self, words->holder);
	waiters_comment(words->mark, request, words->waiter);
	/* Nothing of it may be longer than words->values. */
	memcpy(words->values, (struct sql_value[]){
		SQL_TEXT("name", request->name),
		/* A check's probe has a name that no table has. */
		SQL_NAME("table", request->forget ? "dlock_probe" : request->name),
		SQL_TEXT("key", words->key),
		SQL_TEXT("mark", words->mark),
		SQL_TEXT("strategy", kind->name),
		SQL_TEXT("holder", words->holder),
		SQL_BLOB("digest", words->digest, sizeof(words->digest)),
		SQL_INT("idle", idle),
		SQL_INT("hung", idle < HUNG_S ? idle : HUNG_S),
		SQL_INT("limit", YEAR_S),
		SQL_INT("connection", session->connection),
		SQL_INT("delta", delta),
		SQL_INT("rest", rest_us(request)),
		SQL_PART("lock", lock_clause(kind, request) ? lock_clause(kind, request) : ""),
		SQL_PART("nowait", nowait_clause(my->conn.mysql, kind, request)),
		SQL_PART("waiter", words->waiter),
		SQL_PART("wsrep", maria ? "@@GLOBAL.wsrep_on" : "0"),
		SQL_LAST
	}, 18 * sizeof(struct sql_value));
}

/* ---- answers ---- */

void session_read_answer(struct mysql_backend *my, MYSQL_RES *rows,
			 struct session_answer *answer)
{
	int64_t numbers[5] = { 0 };

	*answer = (struct session_answer){ .there = mysql_numbers(rows, numbers, 5) == 5 };
	answer->yes = numbers[0];
	answer->connection = numbers[1];
	answer->read_only = numbers[2];
	answer->wsrep = numbers[3];
	answer->idle_s = numbers[4];
	if (my->conn.mysql)
		answer->in_transaction = my->conn.mysql->server_status & SERVER_STATUS_IN_TRANS;
}

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

/* Gives up all that my->conn has, and what the server would keep for it. */
void session_drop(struct mysql_backend *my)
{
	struct mysql_session *session = session_of(my);

	mysql_conn_close(&my->conn);
	session->waiting = session->asking = false;
	session->generation = 0;
	my->base.hold_fd = -1;
}

/* ---- taking ---- */

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

/* It is ours: notes that, and what the engine wants to know. */
static enum outcome settle(struct mysql_backend *my, const struct request *request,
			   const struct session_answer *answer, int64_t sent_ms,
			   struct grant *grant,
			   struct error *err)
{
	struct mysql_session *session = session_of(my);

	session->waiting = false;
	session->connection = answer->connection;
	session->idle_ms = session_idle_s(request) * 1000;
	session->mode = request->mode;
	session->until_ms = request->until_ms;
	if (admit_server(my, request, answer, err) || session_register(my, request, err)) {
		session_drop(my);
		return OUTCOME_ERROR;
	}
	session->generation = my->conn.generation;
	my->base.hold_fd = mysql_conn_fd(&my->conn);
	grant->sent_ms = sent_ms;
	grant->ttl_ms = session->idle_ms;
	grant->fence = session->fence;
	return OUTCOME_HELD;
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
	session_of(my)->waiting = false;
	return busy(session_of(my), grant, clock_boot_ms() + CONTENTION_MS);
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
			if (my->conn.mysql && my->conn.code == NO_SUCH_TABLE && !kind->make_sql)
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

/* Has the server said anything to a waiter? */
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
				return confirm(my, request, grant, err);
			return contention(my, grant);
		case MYSQL_STEP_FAILED:
			if (my->conn.mysql && mysql_code_is_contention(my->conn.code))
				return contention(my, grant);
			session_drop(my);
			return OUTCOME_ERROR;
		}
	}
}

static enum outcome begin_to_wait(struct mysql_backend *my, const struct request *request,
				  struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);
	struct session_words words;
	char *text;

	session_words(my, request, 0, &words);
	text = sql_format(session->kind->wait_sql, words.values);
	if (!text) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return OUTCOME_ERROR;
	}
	mysql_conn_send(&my->conn, text);
	session->waiting = true;
	session->look_ms = clock_boot_ms() + LOOK_MS;
	return hear(my, request, grant, err);
}

enum outcome session_acquire(struct mysql_backend *my, const struct request *request,
			     struct grant *grant, struct error *err)
{
	struct mysql_session *session = session_of(my);
	enum outcome outcome;

	if (refuse(session, request, err))
		return OUTCOME_ERROR;
	if (session->waiting)
		return hear(my, request, grant, err);
	if (session->generation) {
		grant->fence = session->fence;
		return session_renew(my, request, grant, err);
	}
	outcome = try_once(my, request, grant, err);
	if (outcome != OUTCOME_BUSY)
		return outcome;
	if (session_look(my, request, false, err)) {
		session_drop(my);
		return OUTCOME_ERROR;
	}
	if (request->queue)
		return begin_to_wait(my, request, grant, err);
	return busy(session, grant, CLOCK_NEVER);
}

/* ---- fit or not ---- */

int session_check(struct mysql_backend *my, struct findings *findings, struct error *err)
{
	static const struct sql_value none[] = { SQL_LAST };
	int64_t idle_s = 0;
	MYSQL_RES *rows;

	if (mysql_run(my, sql_session_check, none, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, &idle_s, 1);
	mysql_free_result(rows);
	if (idle_s == 7654)
		findings_add(findings, FINDING_OK, "session", NULL,
			     "the server ends the connection of a holder that is silent for --ttl");
	else
		findings_add(findings, FINDING_ERROR, "session",
			     "connect to the server itself, or use ?strategy=lease",
			     "wait_timeout does not stay as it was set: something between does not "
			     "keep sessions apart");
	return 0;
}
