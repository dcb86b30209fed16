/* SPDX-License-Identifier: MIT */
/* What servers and the client library refuse with, and what helps. */
#include <errmsg.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "conn.h"

/* Numbers that not every header of the two libraries has. */
enum {
	DISK_FULL = 1021,
	NORMAL_SHUTDOWN = 1077,
	WSREP_NOT_READY = 1047,		/* ER_UNKNOWN_COM_ERROR, which Galera borrows */
	CONNECTION_KILLED = 1927,	/* MariaDB */
	STATEMENT_TIMEOUT = 1969,	/* MariaDB: max_statement_time */
	QUERY_TIMEOUT = 3024,		/* MySQL: max_execution_time */
	CLIENT_TIMEOUT = 4031,		/* MySQL: wait_timeout */
	ACCOUNT_LOCKED = 3118,
	ACCOUNT_LOCKED_MARIADB = 4151,
	TLS_REQUIRED = 3159,
	PASSWORD_EXPIRED = 1862,
	INNODB_READ_ONLY = 1874,
	NO_PASSWORD = 1698,
	STATEMENT_LOG = 1665,
	READ_ONLY_MODE = 1836,
	OFFLINE = 3032,
};

static const struct refusal {
	unsigned int code;
	enum error_kind kind;
	const char *advice;	/* the server's own words follow in parentheses */
} refusals[] = {
	{ ER_ACCESS_DENIED_ERROR, ERROR_REFUSED, "wrong user or password" },
	{ NO_PASSWORD, ERROR_REFUSED, "wrong user or password" },
	{ ER_DBACCESS_DENIED_ERROR, ERROR_REFUSED, "this account may not use this database; "
	  "'dlock setup --dry-run' prints the GRANTs needed" },
	{ ER_BAD_DB_ERROR, ERROR_REFUSED, "the server has no such database" },
	{ ER_NO_DB_ERROR, ERROR_REFUSED, "no database given: mysql://HOST/DATABASE" },
	{ ER_TABLEACCESS_DENIED_ERROR, ERROR_REFUSED, "this account lacks a privilege; "
	  "'dlock setup --dry-run' prints the GRANTs needed" },
	{ ER_COLUMNACCESS_DENIED_ERROR, ERROR_REFUSED, "this account lacks a privilege; "
	  "'dlock setup --dry-run' prints the GRANTs needed" },
	{ ER_SPECIFIC_ACCESS_DENIED_ERROR, ERROR_REFUSED, "this account lacks a privilege; "
	  "'dlock setup --dry-run' prints the GRANTs needed" },
	{ ER_HOST_NOT_PRIVILEGED, ERROR_REFUSED, "the server lets no account in from this host" },
	{ ER_HOST_IS_BLOCKED, ERROR_REFUSED, "the server has blocked this host after errors; "
	  "FLUSH HOSTS there helps" },
	{ ACCOUNT_LOCKED, ERROR_REFUSED, "the account is locked" },
	{ ACCOUNT_LOCKED_MARIADB, ERROR_REFUSED, "the account is locked" },
	{ ER_MUST_CHANGE_PASSWORD, ERROR_REFUSED, "the account's password has expired" },
	{ PASSWORD_EXPIRED, ERROR_REFUSED, "the account's password has expired" },
	{ TLS_REQUIRED, ERROR_REFUSED, "the server wants TLS: ?ssl-mode=required, or ?ssl-ca=" },
	{ ER_NO_SUCH_TABLE, ERROR_REFUSED, "a table is missing: 'dlock setup' makes it" },
	{ ER_BAD_FIELD_ERROR, ERROR_REFUSED, "a table is not as dlock makes it" },
	{ ER_OPTION_PREVENTS_STATEMENT, ERROR_REFUSED,
	  "the server is read-only: name the primary" },
	{ ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ERROR_REFUSED,
	  "the server is read-only: name the primary" },
	{ READ_ONLY_MODE, ERROR_REFUSED, "the server is read-only: name the primary" },
	{ INNODB_READ_ONLY, ERROR_REFUSED, "the server is read-only: name the primary" },
	{ STATEMENT_LOG, ERROR_REFUSED, "binlog_format=STATEMENT cannot log what locks do: "
	  "set MIXED or ROW" },
	{ ER_RECORD_FILE_FULL, ERROR_REFUSED, "the server's disk or table space is full" },
	{ DISK_FULL, ERROR_REFUSED, "the server's disk is full" },
	{ ER_OUT_OF_RESOURCES, ERROR_REFUSED, "the server is out of memory" },
	{ ER_OUTOFMEMORY, ERROR_REFUSED, "the server is out of memory" },
	{ ER_CON_COUNT_ERROR, ERROR_UNAVAILABLE, "the server has too many connections; each waiter "
	  "needs one, see max_connections" },
	{ ER_TOO_MANY_USER_CONNECTIONS, ERROR_UNAVAILABLE, "the account has too many connections; "
	  "each waiter needs one" },
	{ ER_USER_LIMIT_REACHED, ERROR_UNAVAILABLE, "a limit of the account is reached" },
	{ ER_SERVER_SHUTDOWN, ERROR_UNAVAILABLE, "the server is shutting down" },
	{ NORMAL_SHUTDOWN, ERROR_UNAVAILABLE, "the server is shutting down" },
	{ OFFLINE, ERROR_UNAVAILABLE, "the server is in offline mode" },
	{ WSREP_NOT_READY, ERROR_UNAVAILABLE, "the node is not part of a cluster with a quorum" },
	{ ER_LOCK_WAIT_TIMEOUT, ERROR_UNAVAILABLE, "another session keeps our row locked" },
	{ ER_LOCK_DEADLOCK, ERROR_UNAVAILABLE, "deadlock with another session" },
	{ ER_QUERY_INTERRUPTED, ERROR_UNAVAILABLE, "the statement was killed" },
	{ STATEMENT_TIMEOUT, ERROR_UNAVAILABLE, "the statement was ended by a time limit" },
	{ QUERY_TIMEOUT, ERROR_UNAVAILABLE, "the statement was ended by a time limit" },
	{ CONNECTION_KILLED, ERROR_UNAVAILABLE, "the connection was killed" },
	{ CLIENT_TIMEOUT, ERROR_UNAVAILABLE, "the server closed the connection for being idle" },
	{ CR_SERVER_GONE_ERROR, ERROR_UNAVAILABLE, "closed the connection" },
	{ CR_SERVER_LOST, ERROR_UNAVAILABLE, "closed the connection" },
	{ CR_CONNECTION_ERROR, ERROR_UNAVAILABLE, "cannot connect" },
	{ CR_CONN_HOST_ERROR, ERROR_UNAVAILABLE, "cannot connect" },
	{ CR_UNKNOWN_HOST, ERROR_UNAVAILABLE, "cannot resolve" },
	{ CR_VERSION_ERROR, ERROR_UNAVAILABLE, "does not speak the MySQL protocol" },
	{ CR_MALFORMED_PACKET, ERROR_UNAVAILABLE, "does not speak the MySQL protocol" },
	{ CR_SSL_CONNECTION_ERROR, ERROR_REFUSED, "TLS failed" },
	{ CR_AUTH_PLUGIN_CANNOT_LOAD, ERROR_REFUSED,
	  "the client library cannot log in the way that this account wants" },
};

bool mysql_code_is_loss(unsigned int code)
{
	switch (code) {
	case ER_SERVER_SHUTDOWN:
	case NORMAL_SHUTDOWN:
	case CONNECTION_KILLED:
	case CLIENT_TIMEOUT:
	case OFFLINE:
		return true;
	default:
		/* The library's own: whatever it was, it is out of step with the server. */
		return (code >= 2000 && code < 3000) || (code >= 5000 && code < 6000);
	}
}

bool mysql_code_is_contention(unsigned int code)
{
	return code == ER_LOCK_WAIT_TIMEOUT || code == ER_LOCK_DEADLOCK ||
	       code == ER_QUERY_INTERRUPTED;
}

void mysql_refusal(const struct mysql_address *address, unsigned int code, const char *words,
		   struct error *err)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (refusals[i].code != code)
			continue;
		error_set(err, refusals[i].kind, 0, "%s: %s (%.200s)", address->label,
			  refusals[i].advice, words);
		break;
	}
	if (err->kind == ERROR_NONE)
		error_set(err, mysql_code_is_loss(code) ? ERROR_UNAVAILABLE : ERROR_REFUSED, 0,
			  "%s: %.240s (%u)", address->label, words, code);
	/* The server's words go to a terminal. */
	for (char *c = err->message; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
}
