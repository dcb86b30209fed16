/* SPDX-License-Identifier: MIT */
/*
 * One connection to a MySQL or MariaDB server: the library makes and reads the protocol,
 * the waiting is ours, so that every wait has a deadline and can be cancelled. It never
 * reconnects by itself: a connection that failed is closed, with all that the server kept
 * for it, and the next call that needs one opens it anew, as another generation.
 */
#ifndef DLOCK_MYSQL_CONN_H
#define DLOCK_MYSQL_CONN_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct uri;

enum mysql_tls {
	MYSQL_TLS_DISABLED,
	MYSQL_TLS_REQUIRED,	/* encrypted, whoever the server is */
	MYSQL_TLS_VERIFIED,	/* the certificate is valid and the host's */
};

/* Where and as whom. The owner of the connection keeps it. NULL: not given. */
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

/* Bounds of a wait, see net.h. */
struct mysql_limits {
	int64_t connect_ms;	/* time, from the call */
	int64_t request_ms;
	int cancel_fd;
};

struct mysql_conn {
	MYSQL *mysql;	/* NULL: not connected */
	unsigned int generation;	/* how often it was opened */
	unsigned int code;	/* of the last error, as the server or the library numbers them */
	bool no_cluster;	/* the server has not even a name for it */
	bool fresh;		/* nothing was sent yet: the session's settings go first */
	bool sent;		/* the last request left: it may have been carried out */
	bool pending;		/* results are still to come */
	short waits;		/* the events that the call under way waits for; 0: none is */
	char *text;		/* of the request under way */
	size_t length;
	int stage;		/* which call is under way */
};

/* What mysql_conn_next() came to. */
enum mysql_step {
	MYSQL_STEP_FAILED,	/* *err, conn->code; closed, if that was the connection's end */
	MYSQL_STEP_ROWS,	/* *rows, which the caller frees with mysql_free_result() */
	MYSQL_STEP_END,		/* there are no more */
	MYSQL_STEP_PENDING,	/* only without limits: nothing complete yet */
};

/* Connects, if it is not connected. 0, or -1. */
int mysql_conn_open(struct mysql_conn *conn, const struct mysql_address *address,
		    const struct mysql_limits *limits, struct error *err);
void mysql_conn_close(struct mysql_conn *conn);

/* The descriptor, close-on-exec, or -1. */
int mysql_conn_fd(const struct mysql_conn *conn);

/*
 * Starts a request of one or more statements. text: from sql_format(), NULL included; it
 * is the connection's from then on. Nothing may be pending.
 */
void mysql_conn_send(struct mysql_conn *conn, char *text);

/*
 * Takes in results up to the next rows. Statements without rows are passed over; the
 * first one that fails is the last one that is carried out. limits NULL: does not wait.
 */
enum mysql_step mysql_conn_next(struct mysql_conn *conn, const struct mysql_address *address,
				const struct mysql_limits *limits, MYSQL_RES **rows,
				struct error *err);

/*
 * Turns an error's number into *err: what it means and what to do. words: what the
 * server or the library says.
 */
void mysql_refusal(const struct mysql_address *address, unsigned int code, const char *words,
		   struct error *err);

/* Is it one that means that the connection is gone? */
bool mysql_code_is_loss(unsigned int code);

/* Statements got in each other's way, or were interrupted: the same again may do. */
bool mysql_code_is_contention(unsigned int code);

#endif
