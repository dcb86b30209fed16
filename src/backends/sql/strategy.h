/* SPDX-License-Identifier: MIT */
/* The ways to store a lock in an SQL server, and the rows that they show. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/hold.h"
#include "sql.h"

struct uri;
struct door_kind;

/* The statements of a strategy. The backend says what their keys and columns are. */
struct sql_statements {
	const char *try_sql;		/* takes a free lock; NULL: only take_sql does */
	const char *take_sql, *renew_sql, *release_sql, *show_sql, *list_sql, *break_sql;
	const char *leave_sql;		/* NULL: no queue: waiters poll, a release retains a hold */
	const char *check_sql;		/* facts for `dlock check` */
};

/* One way to store a lock and to wait for it. */
struct sql_strategy {
	const char *name;		/* as in ?strategy=NAME, or ?dialect=NAME */
	bool dialect;
	unsigned int can;		/* of enum backend_can */
	size_t name_characters;		/* the most in a lock's name; 0: no limit */
	const char *param;		/* of the URI, beside those of all strategies; or NULL */
	/* Makes missing tables: for `dlock setup`, and on first use. */
	const char *tables;
	/* GRANTs for `dlock setup --dry-run`, with "{user}" in them. */
	const char *grants;
	const struct sql_statements *statements;
	const struct door_kind *door;	/* of a lock that lives with a connection; else NULL */
};

/*
 * Find the strategy or dialect that uri names in a table that ends with a NULL name. Without one in
 * the URI it is the first. Returns NULL and sets *err if there is none.
 */
const struct sql_strategy *sql_find_strategy(const struct sql_strategy strategies[],
					     const struct uri *uri, struct error *err);

/* Can the strategy lock a name of this length? Returns 0, or -1 and sets *err. */
int sql_check_name(const struct sql_strategy *strategy, const char *name, struct error *err);

/*
 * Returns the plan of `dlock setup --dry-run`, which begins with head. user: the account that holds
 * locks; NULL: dlock. The caller frees it.
 */
char *sql_make_plan(const struct sql_strategy *strategy, const struct sql_dialect *dialect,
		    const char *head, const char *database, const char *user);

/* Can the tables be read? To show a lock reads each of them. A missing one is not reported. */
bool sql_can_show(struct backend *backend);

/* Returns the mode of a request as tables have it: 0 exclusive, -1 shared, N one of N slots. */
int64_t sql_mode(const struct request *request);

/* Returns the number in a column; 0 for NULL. */
int64_t sql_number(const char *column);

/* The columns of a statement that shows a lock. NULL as the id: there is no row. */
enum sql_shown {
	SHOWN_LAST,		/* the last fence */
	SHOWN_FENCE,		/* 0: the row waits; -1: it holds, without a fence */
	SHOWN_MODE,		/* as sql_mode() */
	SHOWN_ID, SHOWN_LEFT, SHOWN_AGE, SHOWN_OWNER,
	SHOWN_MINE,
	SHOWN_THERE,		/* whether its connection is there, if it lives with one */
	SHOWN
};

/*
 * Add a row. A hold that lives with a connection has no end while that exists, and is nobody's
 * afterwards.
 */
void sql_show_row(const struct sql_strategy *strategy, const char *const columns[static SHOWN],
		  struct rows *rows);

/* Set *err to what LOST means. Returns OUTCOME_LOST. */
enum outcome sql_lost(const char *label, struct error *err);

/* Set *err to the warning of a release after which the lock stays taken for left_ms. */
void sql_warn_taken(const char *label, int64_t left_ms, struct error *err);
