/* SPDX-License-Identifier: MIT */
/*
 * One connection to a MySQL or MariaDB server. The library writes and reads the protocol, in calls
 * that block; conn.c bounds them in time. The library never reconnects by itself: a connection that
 * failed is closed, with all that the server kept for it, and mysql_conn_open() opens another one.
 */
#pragma once

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/uri.h"

struct backend;
struct error;

enum mysql_tls {
	MYSQL_TLS_DISABLED,
	MYSQL_TLS_REQUIRED,	/* encrypted, without checking the certificate */
	MYSQL_TLS_VERIFIED,	/* the certificate is valid and names the host */
};

/* Where the server is, and the account. NULL: not given. */
struct mysql_address {
	struct uri_host *hosts;	/* at least one; name NULL: a socket, or an option file says */
	size_t host_count;
	size_t at;		/* the one of the last connection */
	int64_t stale;		/* a connection that was closed while a request ran; 0: none */
	char *socket;		/* path */
	char *user, *password, *database;
	char *defaults_file, *defaults_group;
	char *ca, *cert, *key;
	enum mysql_tls tls;
	char label[128];	/* for messages, the one of the hosts: "mysql 127.0.0.1:3306" */
};

/* Reads it from uri. 0, or -1 with *err; finish in any case. */
int mysql_address_init(struct mysql_address *address, const struct uri *uri, struct error *err);
void mysql_address_finish(struct mysql_address *address);
/* Goes to the next one of the hosts. */
void mysql_address_next(struct mysql_address *address);

struct mysql_conn {
	MYSQL *mysql;		/* NULL: not connected */
	struct mysql_address *address;
	const struct backend *limits;	/* the timeouts and cancel_fd */
	/*
	 * A lock ends with it: a late answer does not close it, and the server receives what was
	 * sent even after it is closed.
	 */
	bool session;
	int64_t number;		/* the server's number of it, or of the last one */
	unsigned int code;	/* of the last error, as the server or the library numbers them */
	bool fresh;		/* nothing was sent yet: the session's settings go first */
	bool sent;		/* the last request was sent: it may have been carried out */
	bool pending;		/* its answer is still to come */
};

/*
 * Connects, if it is not connected. Of several hosts, takes the first one from where the last
 * connection was that takes writes. 0, or -1.
 */
int mysql_conn_open(struct mysql_conn *conn, struct error *err);
/* Notes in address->stale that a request was pending. */
void mysql_conn_close(struct mysql_conn *conn);

/* The descriptor, close-on-exec, or -1. */
int mysql_conn_fd(const struct mysql_conn *conn);

/* Sends a request of one or more statements, and frees text. Nothing may be pending. 0 or -1. */
int mysql_conn_send(struct mysql_conn *conn, char *text, struct error *err);

/*
 * Receives all results of the pending request. *rows: the last rows, also after an error; NULL:
 * there were none. The caller frees them with mysql_free_result(). After a statement that fails the
 * server executes no others. 0; or -1: conn->code has the number, and the connection is closed if
 * it has ended or if this server cannot serve.
 */
int mysql_conn_receive(struct mysql_conn *conn, MYSQL_RES **rows, struct error *err);

/* Fills *err with what an error number means, what to do, and the server's or library's words. */
void mysql_refusal(const struct mysql_address *address, unsigned int code, const char *words,
		   struct error *err);

/* The error by which {writable} of sql/common.sql refuses a server (ER_DATA_OUT_OF_RANGE). */
#define MYSQL_READ_ONLY 1690

enum mysql_class {
	MYSQL_OTHER,
	MYSQL_LOSS,		/* the connection is gone */
	/*
	 * The server refuses everybody with this, as long as it is not the one to ask. A new
	 * connection may get to another one, through a balancer that leaves connections alone.
	 */
	MYSQL_ELSEWHERE,
	MYSQL_CONTENTION,	/* statements got in each other's way, or were interrupted */
};

enum mysql_class mysql_classify(unsigned int code);
