/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the MySQL backend share. backend.c is the backend: it opens, chooses
 * the strategy, and passes each call on to it; conn.c is the connection; a strategy
 * is how a lock is stored and waited for, in a file of its own, mysql_NAME.c, with its
 * SQL in sql/NAME_*.sql.
 */
#ifndef DLOCK_MYSQL_LOCK_H
#define DLOCK_MYSQL_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "lock/backend.h"
#include "conn.h"
#include "sql.h"

struct mysql_strategy;

#define MYSQL_NO_SUCH_TABLE 1146

struct mysql_backend {
	struct backend base;
	const struct mysql_strategy *strategy;
	struct mysql_address address;
	struct mysql_conn conn;
	bool resent;		/* the last request was sent twice */
	bool only_looks;	/* makes no tables: an error with MYSQL_NO_SUCH_TABLE instead */
	void *state;		/* the strategy's own */
};

static inline struct mysql_backend *mysql_from_backend(struct backend *backend)
{
	return (struct mysql_backend *)backend;
}

/*
 * See struct backend_ops for what the slots of the same name do. All are filled. What the
 * server frees with the connection is held by conn.generation: another generation has
 * lost it.
 */
struct mysql_strategy {
	const char *name;		/* as in ?strategy=NAME, or ?dialect=NAME */
	bool dialect;
	const char *const *params;	/* of the URI, beside those of all; NULL-terminated */
	/*
	 * Makes the tables, if they are not there; "" for none. Run by `dlock setup`, and
	 * when a statement finds that one is missing.
	 */
	const char *tables;
	/*
	 * Names columns that tables of earlier versions lack, and adds them; NULL: there are none.
	 * Run by `dlock setup`; what adds them also when a statement finds that one is missing.
	 */
	const char *columns, *upgrade;
	/* For people, see `dlock setup --dry-run`: GRANTs, "{account}" and "{database}" in it. */
	const char *grants;
	/* Makes my->state, if need be. 0, or -1 with *err; close in any case. */
	int (*open)(struct mysql_backend *my, const struct uri *uri, struct error *err);
	void (*close)(struct mysql_backend *my);
	enum outcome (*acquire)(struct mysql_backend *my, const struct request *request,
				struct grant *grant, struct error *err);
	/* conn's descriptor is readable, and conn.pending tells whether results are to come. */
	int64_t (*event)(struct mysql_backend *my);
	enum outcome (*renew)(struct mysql_backend *my, const struct request *request,
			      struct grant *grant, struct error *err);
	enum outcome (*verify)(struct mysql_backend *my, const struct request *request,
			       struct error *err);
	enum outcome (*release)(struct mysql_backend *my, const struct request *request,
				enum release how, int64_t keep_ms, struct error *err);
	enum outcome (*again)(struct mysql_backend *my, const struct request *request,
			      struct grant *grant, struct error *err);
	int (*inspect)(struct mysql_backend *my, const char *name, bool listen,
		       struct lock_view *view, struct error *err);
	int (*list)(struct mysql_backend *my, struct name_list *names, struct error *err);
	int (*break_hold)(struct mysql_backend *my, const char *name, struct lock_view *view,
			  struct error *err);
	/* What matters to this strategy, beside what check.c finds for all. 0 or -1. */
	int (*check)(struct mysql_backend *my, struct findings *findings, struct error *err);
};

/* In the order in which they are shown; the first one is the default. Ends with NULL. */
extern const struct mysql_strategy *const mysql_strategies[];

/* Connects, if it is not connected. 0 or -1. */
int mysql_connect(struct mysql_backend *my, struct error *err);

/* Bounds of a wait, by the URI. */
struct mysql_limits mysql_limits_of(const struct mysql_backend *my);

/*
 * May a request go over a new connection? When the old one breaks under a request, or is
 * found broken, it is sent once more over a new one (my->resent), unless it timed out:
 * for what can be repeated. Else that is an error, and my->conn is closed.
 */
enum mysql_repeat { MYSQL_ONCE, MYSQL_REPEAT };

/*
 * Runs sql with values in it, all its results included. *rows: the last rows that it
 * gave, NULL when there were none; the caller frees them with mysql_free_result(); rows
 * may be NULL. When a table is missing, it is made, and sql runs again. 0; -1: *err, and
 * my->conn.code has the number.
 */
int mysql_run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	      enum mysql_repeat repeat, MYSQL_RES **rows, struct error *err);

/*
 * The same, but returns with the first rows that come; mysql_drain() takes in what is left
 * (my->conn.pending), however long it takes to come, or the strategy's event().
 */
int mysql_begin(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		enum mysql_repeat repeat, MYSQL_RES **rows, struct error *err);
int mysql_drain(struct mysql_backend *my, struct error *err);

/*
 * Sends what is nobody's hurry over the connection there is, if that is idle, and waits for
 * nothing: mysql_poll() takes in the answer.
 */
void mysql_post(struct mysql_backend *my, const char *sql, const struct sql_value values[]);

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

/* The first row's columns as numbers, NULL as 0; returns how many, at most most. */
size_t mysql_numbers(MYSQL_RES *rows, int64_t numbers[], size_t most);

/* What answered beyond reason: closes, fills *err. */
void mysql_odd(struct mysql_backend *my, struct error *err);

/* The slots setup and plan of struct backend_ops. */
int mysql_setup(struct backend *backend, struct error *err);
int mysql_plan(struct backend *backend, char **text, struct error *err);

/* Checks common to all strategies, and then its own. 0 or -1. */
int mysql_check(struct backend *backend, struct findings *findings, struct error *err);

/* From sql/NAME.sql, made by embed.sh. */
#include "mysql_texts.h"

#endif
