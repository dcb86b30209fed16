/* SPDX-License-Identifier: MIT */
/*
 * The MySQL backend's object, and how its parts run statements. From the lowest file up: sql.c puts
 * values into a text, conn.c is one connection, run.c runs statements over it, request.c says what
 * every statement needs of a request, and waiters.c shows the waiters that sleep in a statement.
 * Above these are the families of strategies (lease.c, simple.c, session.c), each with a table of
 * functions for the engine. strategies.c lists the strategies, and backend.c opens the one that a
 * URI names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/backend.h"
#include "conn.h"
#include "sql.h"

/* The texts of sql/NAME.sql, made by embed.sh. */
#include "mysql_texts.h"

struct session_kind;
struct simple_kind;

#define MYSQL_NO_SUCH_TABLE 1146

/* One way to store a lock and to wait for it. */
struct mysql_strategy {
	const char *name;		/* as in ?strategy=NAME, or ?dialect=NAME */
	bool dialect;
	bool shared, slots;		/* does it know holds of these modes? */
	bool replaces;			/* has --replace-waiters */
	/* The most characters in a lock's name, 0: no limit; how the message about it begins. */
	size_t name_characters;
	const char *names;
	const char *param;		/* of the URI, beside those of all strategies; or NULL */
	/*
	 * Makes the tables, if they are not there; "" for none. Run by `dlock setup`, and
	 * when a statement finds that one is missing.
	 */
	const char *tables;
	/* GRANTs for `dlock setup --dry-run`, with "{account}" and "{database}" in them. */
	const char *grants;
	const struct backend_ops *ops;	/* of its family */
	size_t size;			/* of the object, which begins with struct mysql_backend */
	const struct session_kind *session;	/* of that family; else NULL */
	const struct simple_kind *simple;	/* of that family; else NULL */
	/* Reads the strategy's parameters; NULL: nothing to do. 0, or -1 with *err. */
	int (*open)(struct backend *backend, const struct uri *uri, struct error *err);
	/* What matters to this strategy, beside what check.c finds for all. 0 or -1. */
	int (*check)(struct backend *backend, struct findings *findings, struct error *err);
};

/* In the order in which they are shown; the first one is the default. Ends with a NULL name. */
extern const struct mysql_strategy mysql_strategies[];

struct mysql_backend {
	struct backend base;
	const struct mysql_strategy *strategy;
	struct mysql_address address;
	struct mysql_conn conn;
	struct mysql_conn side;	/* used while conn has to hold a lock, see session_parts.h */
	bool resent;		/* the last request was sent twice */
	bool only_looks;	/* makes no tables: an error with MYSQL_NO_SUCH_TABLE instead */
	int64_t lease_end_ms;	/* of the last grant with a lease; 0: none */
};

static inline struct mysql_backend *mysql_from_backend(struct backend *backend)
{
	return (struct mysql_backend *)backend;
}

/* Connects, if it is not connected. 0 or -1. */
int mysql_connect(struct mysql_backend *my, struct error *err);

enum mysql_how {
	MYSQL_ONCE,
	/*
	 * When the connection breaks under the request, or is found broken, the request is sent
	 * once more over a new one (my->resent), unless it timed out.
	 */
	MYSQL_REPEAT,
	/*
	 * Repeats, and returns with the first rows that come. mysql_drain() takes in the rest
	 * (my->conn.pending), however long it takes to come, or the strategy's event().
	 */
	MYSQL_FIRST_ROWS,
	/*
	 * Sends what is not urgent over the open connection, if that is idle, and does not wait:
	 * mysql_poll() takes in the answer. Never fails.
	 */
	MYSQL_POST,
};

/*
 * Runs sql with values in it (NULL: none). *rows: the last rows that it gave, NULL when there were
 * none; the caller frees them with mysql_free_result(); rows may be NULL. When a table is missing,
 * it is made, and sql runs again. 0; -1: *err, and my->conn.code has the number.
 */
int mysql_run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	      enum mysql_how how, MYSQL_RES **rows, struct error *err);
int mysql_drain(struct mysql_backend *my, struct error *err);

/* The same with MYSQL_REPEAT, for the number that sql gives, 0 if it gives none. 0 or -1. */
int mysql_ask(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	      int64_t *number, struct error *err);

/*
 * mysql_run() over another connection: other, which stays open and over which the request may be
 * sent twice; or a new one when other is NULL.
 */
int mysql_run_over(struct mysql_backend *my, struct mysql_conn *other, const char *sql,
		   const struct sql_value values[], MYSQL_RES **rows, struct error *err);

/* Starts sql, which sleeps: my->conn.pending tells when its end has come. 0 or -1. */
int mysql_start(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		struct error *err);

/* Takes in results up to the next rows, without waiting; see mysql_conn_next(). */
enum mysql_step mysql_next(struct mysql_backend *my, MYSQL_RES **rows, struct error *err);

/*
 * Takes in what there is, without waiting. True when all has come, and also when the
 * request failed or the connection is gone: conn.code, conn.mysql.
 */
bool mysql_poll(struct mysql_backend *my);

/*
 * When nothing is pending: closes a connection on which the server has said something
 * nevertheless, which can only be a farewell. True when it did, or none was open.
 */
bool mysql_is_gone(struct mysql_backend *my);

/* Did statements of several clients get in each other's way, so that nothing was done? */
bool mysql_contended(const struct mysql_backend *my);

/* Reads the first row's columns, NULL as 0, and frees rows. What is left of most is 0. How many. */
size_t mysql_numbers(MYSQL_RES *rows, int64_t numbers[], size_t most);

/* Reads what holder_encode() wrote; an empty holder when text is NULL or says nothing. */
void mysql_read_holder(struct holder *holder, const char *text, size_t length);

/* Is the table there? Whoever only looks asks this first, and makes none. 1, 0 or -1. */
int mysql_has_table(struct mysql_backend *my, const char *table, struct error *err);

/* Ends a connection of the server's, by its number; nothing for 0. */
void mysql_end_connection(struct mysql_backend *my, int64_t connection);

/*
 * For an answer of a server that is read-only, whose administrators may write nevertheless: refuses
 * it as the server refuses everybody else. Closes the connection, fills *err, and returns -1.
 */
int mysql_read_only(struct mysql_backend *my, struct error *err);

/* For an answer that makes no sense: closes the connection, fills *err, and returns -1. */
int mysql_odd(struct mysql_backend *my, struct error *err);

/* Adds the names in the first column of rows (NULL: there are none), and frees rows. */
void mysql_add_names(MYSQL_RES *rows, struct name_list *names);

/* ---- slots of struct backend_ops that are the same for all strategies ---- */

void mysql_close_backend(struct backend *backend);
int mysql_reach(struct backend *backend, const struct request *request, struct error *err);
int mysql_event_fd(struct backend *backend);
int mysql_setup(struct backend *backend, struct error *err);
int mysql_plan(struct backend *backend, char **text, struct error *err);
/* Checks that are common to all strategies, and then the strategy's own. */
int mysql_check(struct backend *backend, struct findings *findings, struct error *err);

#define MYSQL_COMMON_SLOTS \
	.close = mysql_close_backend, .connect = mysql_reach, .event_fd = mysql_event_fd, \
	.setup = mysql_setup, .plan = mysql_plan, .check = mysql_check
