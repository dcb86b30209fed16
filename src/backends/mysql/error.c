/* SPDX-License-Identifier: MIT */
/* Messages for the errors of servers and of the client library. */
#include "conn.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"

/* Numbers that not every header of the two libraries has. */
enum {
	DISK_FULL = 1021,		/* MariaDB */
	NORMAL_SHUTDOWN = 1077,
	STATEMENT_LOG = 1665,
	FORCED_RECOVERY = 1881,
	CONNECTION_KILLED = 1927,	/* MariaDB */
	OFFLINE = 3032,
	HOOK_FAILED = 3100,		/* MySQL: group replication */
	ROLLED_BACK = 3101,
	HOLD_TIMEOUT = 3796, HOLD_STATE = 3797,
	TLS_REQUIRED = 3159,
	CLIENT_TIMEOUT = 4031,		/* MySQL: wait_timeout */
	PROXY_REACHES_NONE = 9001,	/* ProxySQL */
	PLUGIN_NOT_ALLOWED = 5010,	/* Connector/C: see api_allow_clear() */
};

/* The errors of servers and the library. */
static const struct {
	struct sql_refusal meaning;
	unsigned int codes[9];	/* 0: no more */
} refusals[] = {
	{ { ERROR_REFUSED, SQL_OTHER, "wrong user or password" },
	  { ER_ACCESS_DENIED_ERROR, ER_ACCESS_DENIED_NO_PASSWORD_ERROR } },
	{ { ERROR_REFUSED, SQL_OTHER, "the server has no such database" }, { ER_BAD_DB_ERROR } },
	{ { ERROR_REFUSED, SQL_OTHER, "this account lacks a privilege on the database; "
	  "'dlock setup --dry-run' prints the GRANTs needed" },
	  { ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR,
	    ER_SPECIFIC_ACCESS_DENIED_ERROR } },
	{ { ERROR_USAGE, SQL_OTHER, "?time-zone= must be one that this server knows, such as "
	  "+02:00 or Europe/Berlin" }, { ER_UNKNOWN_TIME_ZONE } },
	{ { ERROR_REFUSED, SQL_OTHER, "the server wants TLS: ?ssl-mode=required, or ?ssl-ca=" },
	  { TLS_REQUIRED } },
	{ { ERROR_REFUSED, SQL_OTHER, "a table is missing: 'dlock setup' makes it" },
	  { ER_NO_SUCH_TABLE } },
	{ { ERROR_REFUSED, SQL_OTHER, "a table is not as dlock makes it" },
	  { ER_BAD_FIELD_ERROR } },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server is read-only: name the primary" },
	  { ER_OPTION_PREVENTS_STATEMENT, ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
	    ER_READ_ONLY_MODE, ER_INNODB_READ_ONLY, MYSQL_READ_ONLY, ER_OPEN_AS_READONLY,
	    FORCED_RECOVERY } },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server cannot write, its disk may be full" },
	  { DISK_FULL, ER_RECORD_FILE_FULL, ER_ERROR_ON_WRITE, ER_GET_ERRNO,
	    ER_ERROR_DURING_COMMIT, ER_BINLOG_LOGGING_IMPOSSIBLE } },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the server is out of memory" },
	  { ER_OUTOFMEMORY, ER_OUT_OF_RESOURCES, ER_CANT_CREATE_THREAD } },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "this account has reached a limit that the server "
	  "sets for it" }, { ER_USER_LIMIT_REACHED } },
	{ { ERROR_REFUSED, SQL_OTHER, "binlog_format=STATEMENT cannot log what locks do: set MIXED "
	  "or ROW" }, { STATEMENT_LOG } },
	{ { ERROR_UNAVAILABLE, SQL_OTHER, "too many connections; each waiter needs one, see "
	  "max_connections" }, { ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS } },
	{ { ERROR_UNAVAILABLE, SQL_LOSS, "the server is shutting down, or in offline mode" },
	  { ER_SERVER_SHUTDOWN, NORMAL_SHUTDOWN, OFFLINE } },
	/* Galera borrows this number. */
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the node is not part of a cluster with a quorum" },
	  { ER_UNKNOWN_COM_ERROR } },
	{ { ERROR_UNAVAILABLE, SQL_ELSEWHERE, "the member cannot commit with its group" },
	  { HOOK_FAILED, HOLD_TIMEOUT, HOLD_STATE } },
	{ { ERROR_UNAVAILABLE, SQL_CONTENTION, "other sessions get in the way" },
	  { ER_LOCK_WAIT_TIMEOUT, MYSQL_LOCK_NOWAIT, ER_LOCK_DEADLOCK, ER_QUERY_INTERRUPTED,
	    ROLLED_BACK, ER_CHECKREAD, ER_LOCK_TABLE_FULL, ER_TOO_MANY_CONCURRENT_TRXS } },
	{ { ERROR_UNAVAILABLE, SQL_LOSS, "the server closed the connection" },
	  { CR_SERVER_GONE_ERROR, CR_SERVER_LOST, CONNECTION_KILLED, CLIENT_TIMEOUT } },
	{ { ERROR_UNAVAILABLE, SQL_LOSS, "cannot connect" },
	  { CR_CONNECTION_ERROR, CR_CONN_HOST_ERROR } },
	{ { ERROR_UNAVAILABLE, SQL_OTHER, "the proxy reaches no server" }, { PROXY_REACHES_NONE } },
	{ { ERROR_UNAVAILABLE, SQL_LOSS, "cannot resolve" }, { CR_UNKNOWN_HOST } },
	{ { ERROR_REFUSED, SQL_LOSS, "does not speak the MySQL protocol" },
	  { CR_VERSION_ERROR, CR_MALFORMED_PACKET } },
	{ { ERROR_REFUSED, SQL_LOSS, "TLS failed" }, { CR_SSL_CONNECTION_ERROR } },
	{ { ERROR_REFUSED, SQL_LOSS, "the client library cannot log in the way that this account "
	  "wants" }, { CR_AUTH_PLUGIN_CANNOT_LOAD } },
	{ { ERROR_REFUSED, SQL_LOSS, "the server asks for the password in clear text, which needs "
	  "?ssl-mode=verify-identity" }, { PLUGIN_NOT_ALLOWED } },
};

static const struct sql_refusal *find_refusal(unsigned int code)
{
	static const struct sql_refusal other = { ERROR_REFUSED, SQL_OTHER, NULL };
	static const struct sql_refusal loss = { ERROR_UNAVAILABLE, SQL_LOSS, NULL };

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		for (const unsigned int *c = refusals[i].codes; *c; c++)
			if (*c == code)
				return &refusals[i].meaning;
	/* After an error of the library's own, it is out of step with the server. */
	return (code >= 2000 && code < 3000) || (code >= 5000 && code < 6000) ? &loss : &other;
}

enum sql_class mysql_classify(unsigned int code)
{
	return find_refusal(code)->class;
}

void mysql_refusal(const struct mysql_address *address, unsigned int code, const char *text,
		   struct error *err)
{
	char number[16], unknown[300];

	/* Without the plugin that the account wants, Connector/C tries none, which is refused. */
	if (code == ER_ACCESS_DENIED_ERROR && strstr(text, "could not be loaded"))
		code = CR_AUTH_PLUGIN_CANNOT_LOAD;
	if (code == CR_UNKNOWN_HOST) {
		snprintf(unknown, sizeof(unknown), "%.250s%s", text, module_names);
		text = unknown;
	}
	if (code == MYSQL_READ_ONLY)
		text = "read_only is set";
	/* The library's own text is read from memory that it has freed. */
	if (code == PLUGIN_NOT_ALLOWED)
		text = "mysql_clear_password, dialog or mysql_old_password";
	snprintf(number, sizeof(number), "%u", code);
	sql_refuse(&address->hosts, find_refusal(code), number, text, err);
}
