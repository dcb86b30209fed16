/* SPDX-License-Identifier: MIT */
/* Messages for the errors of servers, poolers and libpq. */
#include <stdio.h>
#include <string.h>

#include "conn.h"

/* A class of SQLSTATEs has all those that begin with its two characters. */
#define STATE POSTGRES_STATE
#define CLASS(A, B) POSTGRES_STATE(A, B, '0', '0', '0')

/* PostgreSQL manual, appendix A. */
static const struct sql_refusal refusals[] = {
	{ ERROR_REFUSED, SQL_OTHER, "wrong user or password", { STATE('2', '8', 'P', '0', '1') } },
	{ ERROR_REFUSED, SQL_OTHER, "the server's pg_hba.conf refuses this user, database or "
	  "address, or wants TLS (?sslmode=)", { STATE('2', '8', '0', '0', '0') } },
	{ ERROR_REFUSED, SQL_OTHER, "the server has no such database",
	  { STATE('3', 'D', '0', '0', '0') } },
	{ ERROR_REFUSED, SQL_OTHER, "this account lacks a privilege; 'dlock setup --dry-run' "
	  "prints the GRANTs needed", { STATE('4', '2', '5', '0', '1') } },
	{ ERROR_REFUSED, SQL_OTHER, "a table is missing: 'dlock setup' makes it",
	  { POSTGRES_NO_TABLE, STATE('3', 'F', '0', '0', '0') } },
	{ ERROR_REFUSED, SQL_OTHER, "a table is not as dlock makes it",
	  { STATE('4', '2', '7', '0', '3'), STATE('4', '2', '8', '0', '4'),
	    STATE('4', '2', 'P', '1', '0'), STATE('2', '3', '5', '0', '2'),
	    STATE('2', '2', '0', '0', '1') } },
	{ ERROR_REFUSED, SQL_OTHER, "a pooler is between, which ?strategy=advisory cannot use: "
	  "name the server itself", { STATE('2', '2', 'P', '0', '2') } },
	{ ERROR_REFUSED, SQL_OTHER, "the encoding of the database has not all characters of the "
	  "name", { STATE('2', '2', 'P', '0', '5'), STATE('2', '2', '0', '2', '1') } },
	{ ERROR_REFUSED, SQL_OTHER, "this server lacks what locks need, such as LISTEN: use "
	  "PostgreSQL 12 or newer, and 14 for ?strategy=advisory",
	  { STATE('0', 'A', '0', '0', '0'), STATE('4', '2', '8', '8', '3'),
	    STATE('4', '2', '7', '0', '4'), STATE('4', '2', '6', '0', '1') } },
	{ ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server is read-only: name the primary",
	  { STATE('2', '5', '0', '0', '6') } },
	{ ERROR_UNAVAILABLE, SQL_OTHER, "too many connections; each waiter needs one, see "
	  "max_connections", { POSTGRES_FULL } },
	{ ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server is out of memory or disk space",
	  { CLASS('5', '3'), CLASS('5', '8') } },
	{ ERROR_UNAVAILABLE, SQL_CONTENTION, "other sessions get in the way, or a limit of time",
	  { CLASS('4', '0'), STATE('5', '5', 'P', '0', '3'), STATE('5', '7', '0', '1', '4') } },
	{ ERROR_UNAVAILABLE, SQL_LOSS, "the server or the pooler is starting, shutting down or "
	  "out of reach", { CLASS('5', '7'), CLASS('0', '8') } },
	{ ERROR_UNAVAILABLE, SQL_LOSS, "the server has failed", { CLASS('X', 'X') } },
};

static const struct sql_refusal *find_refusal(unsigned int code)
{
	static const struct sql_refusal other = { ERROR_REFUSED, SQL_OTHER, NULL, { 0 } };
	const size_t count = sizeof(refusals) / sizeof(refusals[0]);
	const struct sql_refusal *found = sql_find_refusal(refusals, count, code);

	if (!found)
		found = sql_find_refusal(refusals, count, code & POSTGRES_CLASS);
	return found ? found : &other;
}

enum sql_class postgres_classify(unsigned int code)
{
	return find_refusal(code)->class;
}

/* Find the SQLSTATE in a verbose message: "FATAL:  28P01: ..." in any language. NULL: none. */
static const char *find_state(const char *text)
{
	for (const char *at = text; (at = strstr(at, ":  ")); at++)
		if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && at[8] == ':')
			return at + 3;
	return NULL;
}

/* Set *err for an error of the library itself: it cannot connect, unless TLS has failed. */
static int refuse_local(const struct sql_hosts *hosts, const char *text, struct error *err)
{
	const char *reason = strstr(text, "failed: ");
	const bool tls = strcasestr(text, "SSL") || strcasestr(text, "certificate");

	/* Its text repeats the host before the reason. */
	if (reason && !tls)
		text = reason + strlen("failed: ");
	return error_set(err, tls ? ERROR_REFUSED : ERROR_UNAVAILABLE, 0, "%s: %.*s", hosts->label,
			 (int)strcspn(text, "\n"), text);
}

int postgres_refuse(struct postgres_conn *conn, const char *state, const char *text,
		    struct error *err)
{
	const char *found = find_state(text);
	char code[6], line[256];

	if (!state)
		state = found;
	conn->code = 0;
	if (!state || strlen(state) < 5)
		return refuse_local(&conn->hosts, text, err);
	conn->code = STATE(state[0], state[1], state[2], state[3], state[4]);
	text = found ? found + strlen("28P01:") : text;
	text += strspn(text, " ");
	snprintf(code, sizeof(code), "%.5s", state);
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	return sql_refuse(&conn->hosts, find_refusal(conn->code), code, line, err);
}
