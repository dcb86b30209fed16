/* SPDX-License-Identifier: MIT */
/* Messages for the errors of servers, poolers and libpq. */
#include <stdio.h>
#include <string.h>

#include "conn.h"

/* PostgreSQL manual, appendix A. "***" stands for all of a class that no row before has. */
static const struct {
	struct sql_refusal meaning;
	const char *states;
} refusals[] = {
	{ { ERROR_REFUSED, SQL_OTHER, "wrong user or password" }, "28P01" },
	{ { ERROR_REFUSED, SQL_OTHER, "the server's pg_hba.conf refuses this user, database or "
	    "address, or wants TLS (?sslmode=)" }, "28000" },
	{ { ERROR_REFUSED, SQL_OTHER, "the server has no such database" }, "3D000" },
	{ { ERROR_REFUSED, SQL_OTHER, "this account lacks a privilege; 'dlock setup --dry-run' "
	    "prints the GRANTs needed" }, "42501" },
	{ { ERROR_REFUSED, SQL_OTHER, "a table is missing: 'dlock setup' makes it" },
	  POSTGRES_NO_TABLE " 3F000" },
	{ { ERROR_REFUSED, SQL_OTHER, "a table is not as dlock makes it" },
	  "42703 42804 42P10 23502 22001" },
	{ { ERROR_REFUSED, SQL_OTHER, "a pooler is between, which ?strategy=advisory cannot use: "
	    "name the server itself" }, "22P02" },
	{ { ERROR_REFUSED, SQL_OTHER, "the encoding of the database has not all characters of the "
	    "name" }, "22P05 22021" },
	{ { ERROR_REFUSED, SQL_OTHER, "this server lacks what locks need, such as LISTEN: use "
	    "PostgreSQL 12 or newer, and 14 for ?strategy=advisory" },
	  "0A000 42883 42704 42601" },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server is read-only: name the primary" },
	  "25006" },
	{ { ERROR_UNAVAILABLE, SQL_OTHER, "too many connections; each waiter needs one, see "
	    "max_connections" }, POSTGRES_FULL },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server is out of memory or disk space" },
	  "53*** 58***" },
	{ { ERROR_UNAVAILABLE, SQL_CONTENTION, "other sessions get in the way, or a limit of "
	    "time" }, "40*** 55P03 57014" },
	{ { ERROR_UNAVAILABLE, SQL_LOSS, "the server or the pooler is starting, shutting down or "
	    "out of reach" }, "57*** 08***" },
	{ { ERROR_UNAVAILABLE, SQL_LOSS, "the server has failed" }, "XX***" },
};

const struct sql_refusal *postgres_refusal(const char *state)
{
	static const struct sql_refusal other = { ERROR_REFUSED, SQL_OTHER, NULL };
	char class[6];

	snprintf(class, sizeof(class), "%.2s***", state);
	for (size_t i = 0; state[0] && i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (strstr(refusals[i].states, state) || strstr(refusals[i].states, class))
			return &refusals[i].meaning;
	return &other;
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

int postgres_refuse(struct postgres_conn *conn, const char *text, struct error *err)
{
	const char *state = find_state(text);
	char line[256];

	snprintf(conn->state, sizeof(conn->state), "%.5s", state ? state : "");
	if (!state)
		return refuse_local(&conn->hosts, text, err);
	text = state + strlen("28P01:");
	text += strspn(text, " ");
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	return sql_refuse(&conn->hosts, postgres_refusal(conn->state), conn->state, line, err);
}
