/* SPDX-License-Identifier: MIT */
/*
 * One connection to a MySQL or MariaDB server. The library writes and reads the protocol, in calls
 * that block; conn.c limits their time. The library never reconnects: a connection that failed is
 * closed, with all that the server kept for it, and mysql_conn_open() opens another one.
 */
#pragma once

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sql/server.h"

struct backend;

enum mysql_tls {
	MYSQL_TLS_DISABLED,
	MYSQL_TLS_REQUIRED,	/* encrypted, without checking the certificate */
	MYSQL_TLS_VERIFIED,	/* the certificate is valid and names the host */
};

/* The address of the server, and the account. NULL: not given. The URI owns the strings. */
struct mysql_address {
	struct sql_hosts hosts;	/* none: a socket, or a host from an option file */
	int64_t stale;		/* number of a connection closed during a request; 0: none */
	const char *socket;	/* path */
	const char *user, *password, *database;
	const char *password_file;	/* read for each connection */
	const char *defaults_file, *defaults_group;
	const char *ca, *cert, *key;
	enum mysql_tls tls;
};

/* Read it from uri. Returns 0, or -1 and sets *err. */
int mysql_address_init(struct mysql_address *address, const struct uri *uri, struct error *err);

struct mysql_conn {
	MYSQL *mysql;		/* NULL: not connected */
	struct mysql_address *address;
	struct backend *backend;	/* its timeouts, cancel_fd, and resent */
	/*
	 * A lock lives with it: a late answer does not close it, unsent output is still sent after
	 * a close, and it is not opened again.
	 */
	bool session;
	int64_t number;		/* the server's number of this connection, or of the last one */
	unsigned int code;	/* of the last error, from the server or the library */
	bool fresh;		/* without the session's settings yet */
	bool sent;		/* the last request was sent: it may have been carried out */
	bool pending;		/* its answer was not received yet */
};

/*
 * Connect, if it is not connected. Of several hosts, uses the first one that accepts writes, from
 * the host of the last connection on. Returns 0 or -1.
 */
int mysql_conn_open(struct mysql_conn *conn, struct error *err);
/* Close. Sets address->stale if a request was pending. */
void mysql_conn_close(struct mysql_conn *conn);
/* Close, and choose the next host, because this one does not answer or cannot serve. */
void mysql_conn_leave(struct mysql_conn *conn);

/* Returns the descriptor, close-on-exec, or -1. */
int mysql_conn_fd(const struct mysql_conn *conn);

/* Send one or more statements, and free text. Nothing may be pending. Returns 0 or -1. */
int mysql_conn_send(struct mysql_conn *conn, char *text, struct error *err);

/*
 * Receive all results of the pending request. *rows: the last rows, also after an error; NULL:
 * none. The caller frees them with mysql_free_result(). After a failed statement the server
 * executes no others. Returns 0, or -1 and sets conn->code; the connection is closed if it has
 * ended or if this server cannot serve.
 */
int mysql_conn_receive(struct mysql_conn *conn, MYSQL_RES **rows, struct error *err);

/* Read up to most columns of the first row, NULL as 0, and free rows. Returns how many it had. */
size_t mysql_numbers(MYSQL_RES *rows, int64_t numbers[], size_t most);

/* Set *err and conn->code for an answer that no server gives to this request. Returns -1. */
int mysql_unexpected(struct mysql_conn *conn, struct error *err);

/* Set *err to the meaning of an error number, what to do, and the text of server or library. */
void mysql_refusal(const struct mysql_address *address, unsigned int code, const char *text,
		   struct error *err);

/* The error by which {writable} of sql/common.sql refuses a server (ER_DATA_OUT_OF_RANGE). */
#define MYSQL_READ_ONLY 1690
/* MySQL since 8.0.1: NOWAIT. */
#define MYSQL_LOCK_NOWAIT 3572

enum sql_class mysql_classify(unsigned int code);
