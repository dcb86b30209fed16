/* SPDX-License-Identifier: MIT */
/*
 * The MySQL backend's object, and the functions that run statements. From the lowest file up:
 * conn.c is one connection, and run.c runs statements over it. Above
 * these, lease.c has the queue of a lock and the functions for the engine, and door.c those of some
 * strategies. strategies.c lists the strategies, and backend.c opens the one that a URI names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "lock/hold.h"
#include "conn.h"
#include "../sql/strategy.h"

/* The statements of sql/NAME.sql, made by embed.sh. */
#include "mysql_texts.h"

extern const struct sql_dialect mysql_dialect;

/* In the order of messages; the first one is the default. Ends with a NULL name. */
extern const struct sql_strategy mysql_strategies[];

struct mysql_backend {
	struct backend base;
	const struct sql_strategy *strategy;
	struct mysql_address address;
	struct mysql_conn conn;
	struct mysql_conn side;	/* while conn sleeps, or has to hold a lock */
	unsigned char digest[SHA256_SIZE];	/* of the token of the last request */
	const char *zone;	/* of the dialect shedlock: its time zone; NULL: the server's */
	/* Of lease.c: */
	int64_t position;	/* of our entry that waits; 0: there is none */
	bool checked;		/* the queue was read, and no sleep has begun since */
	int64_t check_ms;	/* when to check the queue */
	uint64_t fence;		/* of the entry that holds */
	int64_t asleep_ms;	/* when the last sleep began */
	int cuts;		/* sleeps in a row that something unknown has cut short */
	int64_t poll_ms;	/* pause behind entries of another home, or after cuts; 0: none */
	bool far;		/* our entry was far back (HOLD_FAR) when the queue was read */
	struct hold_late late;
	/* Of door.c: conn is a session exactly when it has passed the door. */
	bool at_door;		/* conn sleeps at the door */
	int64_t idle_s;		/* wait_timeout of the connection that has passed */
};

static inline struct mysql_backend *mysql_from_backend(struct backend *backend)
{
	return (struct mysql_backend *)backend;
}

/*
 * A request of the engine, and the values for the keys of its statements. They point into the call,
 * the backend and the request, so calls are not copied, and live no longer than the request.
 */
struct call {
	struct mysql_backend *my;
	struct mysql_conn *conn;
	const struct request *request;
	struct sql_value values[SQL_VALUES];
};

/* Begin with the values that the request and the strategy give. */
void call_begin(struct call *call, struct mysql_backend *my, struct mysql_conn *conn,
		const struct request *request);

/*
 * Run sql with values in it (NULL: none) over conn, and open conn if it is closed. If the
 * connection breaks, the request is sent once more over a new one (sets backend->resent), unless it
 * timed out or conn is a session. rows: see mysql_conn_receive(); NULL: rows are dropped. Returns
 * 0, or -1 and sets *err and conn->code.
 */
int mysql_run(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
	      MYSQL_RES **rows, struct error *err);

/*
 * Run as mysql_run(), and repeat this under contention, for at most limit_ms, and then once at each
 * other host. The answer must have this many columns, because one that was interrupted lacks its
 * last rows. Returns 0 or -1.
 */
int mysql_persist(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
		  int64_t limit_ms, unsigned int columns, MYSQL_RES **rows, struct error *err);

/* End a request that still runs on a closed connection: it could take a lock after its release. */
void mysql_end_stale(struct mysql_conn *conn);

/* Did the last request fail because a table is missing? */
bool mysql_is_missing(const struct mysql_conn *conn);
/* Make the strategy's tables. Returns 0 or -1. */
int mysql_make_tables(struct mysql_conn *conn, struct error *err);

/* Send sql over conn, which is open. The answer comes later: conn->pending. Returns 0 or -1. */
int mysql_start(struct mysql_conn *conn, const char *sql, const struct sql_value values[],
		struct error *err);

/* Did the last request fail by contention, so that nothing was done? */
bool mysql_contended(const struct mysql_conn *conn);

/* ---- slots of struct backend_ops ---- */

backend_grant_fn lease_acquire, lease_renew;
backend_release_fn lease_release;
backend_show_fn lease_show;
backend_break_fn lease_break;
int64_t lease_event(struct backend *backend);
int mysql_check(struct backend *backend, struct findings *findings, struct error *err);
