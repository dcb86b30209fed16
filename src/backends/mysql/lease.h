/* SPDX-License-Identifier: MIT */
/* The parts of the strategy lease share this; see lease.c for how it works. */
#ifndef DLOCK_MYSQL_LEASE_H
#define DLOCK_MYSQL_LEASE_H

#include "lock.h"

/* "dlock-" and 40 hex digits of the token's digest: names of GET_LOCK have at most 64. */
#define TICKET_SIZE 47

/* A part of a wait without a ticket to sleep on: lease_doze.sql. */
#define LEASE_SLICE_US 1000000
#define LEASE_SHORT_SLICE_US 300000	/* where there are no tickets at all */

/*
 * What is needed in a hurry, to hand the lock over: the server reads it ahead of time (PREPARE),
 * and keeps it as long as the connection.
 */
enum lease_statement { LEASE_TURN, LEASE_LET_GO, LEASE_STATEMENTS };

/* The strategy's own part of a backend: one wish to hold. */
struct lease {
	bool no_tickets;	/* GET_LOCK is refused here, or is a node's alone */
	bool in_line;
	bool waits;		/* it was told that others have the lock */
	bool behind;		/* others, of whom some may live; as it was told last */
	bool unsettled;		/* it holds: see lease_settle.sql */
	bool napping;		/* what is pending is the end of a sleep in the server */
	bool dozes;		/* there was no ticket to sleep on */
	bool unsure;		/* an answer was lost: what was asked may be done yet */
	bool woken;		/* the ticket that it slept on was let go */
	bool unprepared;	/* PREPARE is refused here */
	unsigned int prepared[LEASE_STATEMENTS];	/* on which connection; 0: none */
	const struct request *request;	/* what it holds for; NULL: it does not */
	unsigned int ticket;	/* the connection (generation) that has our ticket; 0: none */
	int64_t connection;	/* what the server calls it */
	bool unbroken;		/* it is the one that acquired: whoever waits, sleeps on it */
	int64_t lease_end_ms;	/* of the last grant; 0: none */
};

/* What sql/lease_tell.sql tells. */
struct lease_state {
	bool known;		/* the lock has a row */
	bool mine;
	uint64_t fence;		/* mine */
	int64_t holds;		/* mine */
	int mode;		/* of the lock: see mysql_mode() */
	int64_t rest_us;	/* of its lease; 0 or less: free */
	int64_t age_us;		/* since it is held; -1: not known */
	struct holder owner;	/* one of those who hold it: I, if I do */
	bool in_line;		/* I am */
	bool asleep;		/* I have been passed over */
	int64_t first;		/* before me in line; 0: none */
	int64_t open_us;	/* for how long there is room for that one, -1: there is none */
	int64_t ahead;		/* in line */
	bool has_ticket;
	bool done;		/* what the statements before tried */
	int64_t next;		/* connection of the next in line; 0: none */
	bool dead;		/* there are waiters that died */
	bool cluster;		/* the server is a node of one */
	int64_t old;		/* connection of ours that the server still has; 0: none */
};

/* The most texts of one request: a wait without tickets, in slices. */
#define LEASE_TEXTS 48

/* A request made of texts from sql/, one after the other, with their values. */
struct lease_call {
	const char *texts[LEASE_TEXTS];	/* NULL-terminated */
	const struct request *request;
	int64_t keep_ms;
	bool looks;	/* changes nothing, so that no table is made either */
	bool all;
	bool again;	/* it may have the lock already */
	bool into;	/* the state goes into variables, for sql_lease_tell */
	enum lease_statement statement;	/* see lease_add_prepare() */
	int64_t holds, step, ttl_ms, first, patience;
	const char *after;	/* where a list goes on */
	size_t after_length;
};

static inline struct lease *lease_of(const struct mysql_backend *my)
{
	return my->state;
}

/* Adds a text to those of the call. */
void lease_add(struct lease_call *call, const char *text);

/* Adds what sets the variables that most texts need; NULL, or what else is to be set. */
void lease_add_now(struct lease_call *call, const char *more, const char *yet_more);

/*
 * Adds what prepares the statement, with the values of the call; once in a call. Where that
 * fails the call is made without.
 */
void lease_add_prepare(struct lease_call *call, enum lease_statement statement);
bool lease_is_prepared(const struct mysql_backend *my, enum lease_statement statement);

/*
 * Runs the call, whose last text gives one row of lease_tell.sql. With begin, later
 * results may follow, see mysql_begin(). Tries again when statements got in each other's
 * way. 0; -1: *err; 1: the server would have us wait for a row, nothing was done.
 */
int lease_ask(struct mysql_backend *my, const struct lease_call *call, bool begin,
	      struct lease_state *state, struct error *err);

/*
 * Runs the call and then the statement, an UPDATE, over the connection there is, and not twice.
 * What is prepared has the values of then. *rows: how many it found; *id: what it told
 * LAST_INSERT_ID(). false: it is not known what has become of it.
 */
bool lease_update(struct mysql_backend *my, const struct lease_call *call,
		  enum lease_statement statement, int64_t *rows, int64_t *id);

/* Sends the call; see mysql_post(). */
void lease_post(struct mysql_backend *my, const struct lease_call *call);

/*
 * The same, for texts whose last rows are something else. 0 or -1; *rows is NULL when
 * there are none, as when call->looks and there is no table.
 */
int lease_rows(struct mysql_backend *my, const struct lease_call *call,
	       MYSQL_RES **rows, struct error *err);

/* The same up to the first rows. */
int lease_begin_rows(struct mysql_backend *my, const struct lease_call *call,
		     MYSQL_RES **rows, struct error *err);

/* Wakes a waiter who sleeps in a statement of its own; connection 0: nobody. */
void lease_ring(struct mysql_backend *my, int64_t connection);

/* Has the server end a connection that we have given up. 0: none. */
void lease_end_connection(struct mysql_backend *my, int64_t connection);

/* What the tables call a mode: 0 exclusive, -1 shared, N slots. */
int lease_mode(const struct request *request);
void lease_read_mode(int64_t number, enum hold_mode *mode, int *slots);

/* The slots of struct mysql_strategy. */
enum outcome lease_renew(struct mysql_backend *my, const struct request *request,
			 struct grant *grant, struct error *err);
enum outcome lease_verify(struct mysql_backend *my, const struct request *request,
			  struct error *err);
enum outcome lease_release(struct mysql_backend *my, const struct request *request,
			   enum release how, int64_t keep_ms, struct error *err);
enum outcome lease_again(struct mysql_backend *my, const struct request *request,
			 struct grant *grant, struct error *err);
int lease_inspect(struct mysql_backend *my, const char *name, bool listen,
		  struct lock_view *view, struct error *err);
int lease_list(struct mysql_backend *my, struct name_list *names, struct error *err);
int lease_break(struct mysql_backend *my, const char *name, struct lock_view *view,
		struct error *err);
int lease_check(struct mysql_backend *my, struct findings *findings, struct error *err);

#endif
