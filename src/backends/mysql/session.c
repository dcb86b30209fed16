/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: what their statements say. See session.h. */
#include "session.h"

#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/uri.h"
#include "lock/view.h"
#include "waiters.h"

/* The longest that MySQL takes for wait_timeout, a year, is for ever. */
#define YEAR_S 31536000
/* A waiter that hangs keeps what it was given so long: less than 5 s (SPEC, 2.7). */
#define HUNG_S 4

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
	if (my->state)
		mysql_conn_close(&session_of(my)->side);
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
		SQL_INT("lease", session->idle_ms * 1000),
		SQL_INT("fence", (int64_t)session->fence),
		SQL_INT("nap", session->nap_ms),
		SQL_PART("lock", lock_clause(kind, request) ? lock_clause(kind, request) : ""),
		SQL_PART("nowait", nowait_clause(my->conn.mysql, kind, request)),
		SQL_PART("waiter", words->waiter),
		SQL_PART("wsrep", maria ? "@@GLOBAL.wsrep_on" : "0"),
		SQL_LAST
	}, 21 * sizeof(struct sql_value));
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

/* Gives up all that my->conn has, and what the server would keep for it. */
void session_drop(struct mysql_backend *my)
{
	struct mysql_session *session = session_of(my);

	mysql_conn_close(&my->conn);
	mysql_conn_close(&session->side);
	session->waiting = session->asking = false;
	session->generation = 0;
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
