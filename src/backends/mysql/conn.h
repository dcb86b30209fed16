/* SPDX-License-Identifier: MIT */
/*
 * One connection to a MySQL or MariaDB server. The library writes and reads the protocol. All
 * waiting is in conn.c, so that every wait has a deadline and can be cancelled. The library never
 * reconnects by itself: a connection that failed is closed, with all that the server kept for it,
 * and mysql_conn_open() opens another one, with another generation.
 */
#pragma once

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend;
struct error;
struct uri;

enum mysql_tls {
	MYSQL_TLS_DISABLED,
	MYSQL_TLS_REQUIRED,	/* encrypted, without checking the certificate */
	MYSQL_TLS_VERIFIED,	/* the certificate is valid and names the host */
};

/* Where the server is, and the account. NULL: not given. */
struct mysql_address {
	char *host;
	uint16_t port;		/* 0: the default */
	char *socket;		/* path */
	char *user, *password, *database;
	char *defaults_file, *defaults_group;
	char *ca, *cert, *key;
	enum mysql_tls tls;
	char label[128];	/* for messages: "mysql 127.0.0.1:3306" */
};

/* Reads it from uri. 0, or -1 with *err; finish in any case. */
int mysql_address_init(struct mysql_address *address, const struct uri *uri, struct error *err);
void mysql_address_finish(struct mysql_address *address);

struct mysql_conn {
	MYSQL *mysql;	/* NULL: not connected */
	bool session;			/* the lock ends with it: the server must hear of it */
	unsigned int generation;	/* how often it was opened */
	unsigned int code;	/* of the last error, as the server or the library numbers them */
	bool no_cluster;	/* the server does not know the variable wsrep_on */
	bool fresh;		/* nothing was sent yet: the session's settings go first */
	bool sent;		/* the last request was sent: it may have been carried out */
	bool pending;		/* results are still to come */
	short waits;		/* the events that the call under way waits for; 0: none is */
	char *text;		/* of the request under way */
	size_t length;
	int stage;		/* which call is under way */
};

/* What mysql_conn_next() came to. */
enum mysql_step {
	/* *err, conn->code; closed, if the connection has ended or this server cannot serve */
	MYSQL_STEP_FAILED,
	MYSQL_STEP_ROWS,	/* *rows, which the caller frees with mysql_free_result() */
	MYSQL_STEP_END,		/* there are no more */
	MYSQL_STEP_PENDING,	/* only without limits: nothing complete yet */
};

/* Connects, if it is not connected. limits has the timeouts and cancel_fd. 0, or -1. */
int mysql_conn_open(struct mysql_conn *conn, const struct mysql_address *address,
		    const struct backend *limits, struct error *err);
void mysql_conn_close(struct mysql_conn *conn);

/* The descriptor, close-on-exec, or -1. */
int mysql_conn_fd(const struct mysql_conn *conn);

/*
 * Starts a request of one or more statements. text comes from sql_format(), which has found all of
 * its keys, and belongs to the connection from then on. Nothing may be pending.
 */
void mysql_conn_send(struct mysql_conn *conn, char *text);

/*
 * Takes in results up to the next rows, and skips statements without rows. After a statement that
 * fails the server carries out no others. limits NULL: does not wait.
 */
enum mysql_step mysql_conn_next(struct mysql_conn *conn, const struct mysql_address *address,
				const struct backend *limits, MYSQL_RES **rows,
				struct error *err);

/* Fills *err with what an error number means, what to do, and the server's or library's words. */
void mysql_refusal(const struct mysql_address *address, unsigned int code, const char *words,
		   struct error *err);

/* The number by which a server that is read-only refuses a write (--read-only, ER_OPTION_...). */
#define MYSQL_READ_ONLY 1290

/* Does this error mean that the connection is gone? */
bool mysql_code_is_loss(unsigned int code);

/*
 * Does a server refuse everybody with this, as long as it is not the one to ask? A new connection
 * may get to another server, through a balancer that leaves connections where they are.
 */
bool mysql_code_is_elsewhere(unsigned int code);

/* Did statements get in each other's way, or were they interrupted, so that a retry may do? */
bool mysql_code_is_contention(unsigned int code);
