/* SPDX-License-Identifier: MIT */
/* Locks that live with a connection: what their statements say, and what is answered. */
#include "session_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/uri.h"
#include "lock/view.h"

/* MySQL takes no more for wait_timeout: a year. */
#define YEAR_S 31536000
/* A waiter that hangs keeps the lock that it was given for so long. */
#define HUNG_S 4
/* A value of wait_timeout that nobody else sets. */
#define ODD_IDLE_S 7654

int session_open(struct backend *backend, const struct uri *uri, struct error *err)
{
	const char *wsrep = uri_param(uri, "wsrep");

	if (wsrep && strcmp(wsrep, "unsafe") != 0)
		return error_set(err, ERROR_USAGE, 0,
				 "parameter 'wsrep' for %.32s must be 'unsafe'", uri->scheme);
	session_of(backend)->unsafe = wsrep;
	session_of(backend)->since_ms = -1;
	return 0;
}

/* ---- values ---- */

static bool is_maria(MYSQL *mysql)
{
	return mysql && strstr(mysql_get_server_info(mysql), "MariaDB");
}

/* Servers without NOWAIT wait for a second, which the text "session" sets. */
static const char *nowait_clause(const struct session *session, const struct request *request)
{
	MYSQL *mysql = session->my.conn.mysql;

	/* Two checks at once may have to wait for each other. */
	if (request->forget)
		return "";
	if (is_maria(mysql))
		return "NOWAIT";
	return mysql && session_kind_of(session)->transaction && request->mode != HOLD_SHARED &&
		mysql_get_server_version(mysql) >= 80001 ? "NOWAIT" : "";
}

int64_t session_idle_s(const struct request *request)
{
	const int64_t idle = request->ttl_ms / 1000;

	return idle < 1 ? 1 : idle > YEAR_S ? YEAR_S : idle;
}

/*
 * The name of a lock of the server. Names there have at most 64 characters, and the server may
 * not tell capital from small letters, or characters with and without accents. A name that is free
 * of all that is used as it is, any other one by its digest.
 */
static void make_key(const char *name, struct words *words)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.:/+=@,#";
	unsigned char digest[SHA256_SIZE];
	const size_t length = strlen(name);
	char *key = words->key;

	if (length < sizeof(words->key) && strspn(name, plain) == length) {
		memcpy(key, name, length + 1);
		return;
	}
	sha256(name, length, digest);
	memcpy(key, "dlock:", 6);
	for (int i = 0; i < 24; i++)
		snprintf(key + 6 + 2 * i, 3, "%02x", digest[i]);
}

/* Microseconds until a hold ends by itself, to show; 0: it does not. */
static int64_t rest_us(const struct request *request)
{
	const int64_t rest_ms = request->until_ms - clock_wall_ms();

	return request->until_ms && rest_ms > 0 ? rest_ms * 1000 : 0;
}

void session_words(const struct session *session, const struct request *request,
		   struct words *words)
{
	const struct session_kind *kind = session_kind_of(session);
	const char *lock = request->mode == HOLD_SHARED && kind->shared ? kind->shared
									: kind->exclusive;
	const int64_t idle = session_idle_s(request);

	words_begin(words, request, 0);
	words_add_waiter(words, session->my.strategy, request);
	make_key(request->name, words);
	words_add(words, (const struct sql_value[]){
		/* A check's probe has a name that no table has. */
		SQL_NAME("table", request->forget ? "dlock_probe" : request->name),
		SQL_TEXT("key", words->key),
		SQL_TEXT("strategy", session->my.strategy->name),
		SQL_INT("idle", idle),
		SQL_INT("hung", idle < HUNG_S ? idle : HUNG_S),
		SQL_INT("limit", YEAR_S),
		SQL_INT("connection", session->connection),
		SQL_INT("rest", rest_us(request)),
		SQL_INT("kept_for", session->keep_ms * 1000),
		SQL_INT("acquired", request->min_hold_ms > 0),
		SQL_INT("lease", session->idle_ms * 1000),
		SQL_INT("fence", (int64_t)session->fence),
		SQL_INT("nap", session->nap_ms),
		SQL_PART("lock", lock),
		SQL_PART("nowait", nowait_clause(session, request)),
		SQL_PART("wsrep", is_maria(session->my.conn.mysql) ? "@@GLOBAL.wsrep_on" : "0"),
		SQL_LAST
	});
}

/* ---- requests ---- */

int session_run(struct session *session, enum session_over over, const char *sql,
		const struct request *request, MYSQL_RES **rows, struct error *err)
{
	struct mysql_backend *my = &session->my;
	struct words words;

	session_words(session, request, &words);
	return over == OVER_HOLDER
		? mysql_run(my, sql, words.values, MYSQL_ONCE, rows, err)
		: mysql_run_over(my, over == OVER_SIDE ? &my->side : NULL, sql, words.values, rows,
				 err);
}

int session_ask(struct session *session, enum session_over over, const char *sql,
		const struct request *request, int64_t numbers[], size_t most, struct error *err)
{
	MYSQL_RES *rows;

	return session_run(session, over, sql, request, &rows, err)
		? -1 : (int)mysql_numbers(rows, numbers, most);
}

void session_read_answer(const struct session *session, MYSQL_RES *rows,
			 struct session_answer *answer)
{
	MYSQL *mysql = session->my.conn.mysql;
	int64_t numbers[5];

	*answer = (struct session_answer){ .there = mysql_numbers(rows, numbers, 5) == 5 };
	answer->yes = numbers[0];
	answer->connection = numbers[1];
	answer->read_only = numbers[2];
	answer->wsrep = numbers[3];
	answer->idle_s = numbers[4];
	if (mysql)
		answer->in_transaction = mysql->server_status & SERVER_STATUS_IN_TRANS;
}

void session_drop(struct session *session)
{
	mysql_conn_close(&session->my.conn);
	mysql_conn_close(&session->my.side);
	session->waiting = session->asking = false;
	session->generation = 0;
}

/* ---- fit or not ---- */

int session_check(struct backend *backend, struct findings *findings, struct error *err)
{
	int64_t idle_s;

	if (mysql_ask(mysql_from_backend(backend), sql_session_check, NULL, &idle_s, err))
		return -1;
	if (idle_s == ODD_IDLE_S)
		findings_add(findings, FINDING_OK, "session", NULL,
			     "the server ends the connection of a holder that is silent for --ttl");
	else
		findings_add(findings, FINDING_ERROR, "session",
			     "connect to the server itself, or use ?strategy=lease",
			     "wait_timeout does not stay as it was set: something between does not "
			     "keep sessions apart");
	return 0;
}
