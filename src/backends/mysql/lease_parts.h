/* SPDX-License-Identifier: MIT */
/* What the parts of the strategy lease share; lease.c says how it works. */
#pragma once

#include "request.h"

/* The length of one part of a wait without a ticket to sleep on (lease_doze), in us. */
#define LEASE_SLICE_US 1000000
#define LEASE_SHORT_SLICE_US 300000	/* where there are no tickets at all */

/* The row of a waiter in dlock_queue, by which it stands in line. */
struct lease_place {
	int64_t id;		/* 0: not in line */
	int64_t number;		/* the column place */
	int64_t turn, since;
};

/* One wish to hold. Connections are named by their generation: see struct mysql_conn. */
struct lease {
	struct mysql_backend my;
	bool no_tickets;	/* GET_LOCK is refused here, or works on one node alone */
	bool in_line;
	struct lease_place place;	/* the last one it had: see lease_line_back */
	int64_t arrived;	/* with --replace-waiters: server's clock, in us; 0: not yet */
	bool waits;		/* it was told that others have the lock */
	bool napping;		/* what is pending is the end of a sleep in the server */
	bool dozes;		/* there was no ticket to sleep on */
	bool behind;		/* somebody stood in line before it when it looked */
	bool woken;		/* the ticket that it slept on was let go */
	bool unsure;		/* an answer was lost: the request may still be carried out */
	bool unsettled;		/* it holds, and lease_settle was not sent yet */
	unsigned int ticket;	/* the connection that has our ticket; 0: none */
	int64_t connection;	/* the number that the server gave to that connection */
	bool unbroken;		/* that connection acquired the lock, so all waiters sleep on it */
};

/* The answer of lease_state; lease_tell gives the same. What is yes or no is 1 or 0. */
struct lease_state {
	bool known;		/* the lock has a row */
	int64_t mine;		/* this token holds it: */
	int64_t fence;
	int64_t mode;		/* of the lock: see lease_mode() */
	int64_t rest_us;	/* of its lease; 0 or less: free */
	int64_t age_us;		/* since it is held; -1: not known */
	struct holder owner;	/* one of the holders: this token, if it holds */
	struct lease_place place;	/* of this token in line */
	int64_t asleep;		/* others have passed over this token */
	bool replaced;		/* this token was sent away by */
	struct holder newer;
	int64_t arrived;	/* counts as the time of arrival of one that has just come */
	int64_t first;		/* id of the first waiter before this token; 0: none */
	int64_t open_us;	/* how long there has been room for that waiter; -1: none */
	int64_t ahead;		/* waiters in line before this token */
	int64_t has_ticket;
	int64_t done;		/* the statements before did what they tried */
	int64_t next;		/* connection of the next waiter in line; 0: none */
	int64_t dead;		/* there are waiters that died */
	int64_t old;		/* connection of ours that the server still has; 0: none */
	int64_t cluster;	/* the server is a node of one */
	int64_t read_only;	/* the server is; what this request changed does not count */
};

/* The most texts of one request: a wait without tickets, in slices. */
#define LEASE_TEXTS 48

/* A request made of texts, one after the other, with their values. */
struct lease_call {
	const char *texts[LEASE_TEXTS];	/* NULL-terminated */
	const struct request *request;
	bool looks;	/* changes nothing, so that no table is made either */
	bool brief;	/* a try with lease_brief */
	bool into;	/* the state goes into variables, for lease_tell */
	/* The values of the same name in the texts. */
	int64_t ttl_ms, keep_ms, first, patience;
	bool again;
	const char *after;	/* where a list goes on */
	size_t after_length;
};

static inline struct lease *lease_of(struct backend *backend)
{
	return (struct lease *)backend;
}

/*
 * Adds texts to those of the call. Most calls begin with sql_lease_now, what else is to be set
 * ("": nothing), and ";\n".
 */
#define lease_add(CALL, ...) lease_add_texts((CALL), (const char *const[]){ __VA_ARGS__, NULL })
void lease_add_texts(struct lease_call *call, const char *const *texts);

/*
 * Runs the call, whose last text gives one row of lease_tell. Tries again when statements of
 * several clients got in each other's way. 0; -1: *err; 1: the server would have us wait for a row,
 * and nothing was done.
 */
int lease_ask(struct lease *lease, const struct lease_call *call, enum mysql_how how,
	      struct lease_state *state, struct error *err);

/*
 * Runs the call, whose last text is an UPDATE, over the open connection, and not twice. *rows: how
 * many rows the UPDATE found; *id: its LAST_INSERT_ID(). false: it is not known what has become of
 * it.
 */
bool lease_update(struct lease *lease, const struct lease_call *call, int64_t *rows, int64_t *id);

/* The same for a call whose last text gives a row of count numbers. */
bool lease_numbers(struct lease *lease, const struct lease_call *call, int64_t numbers[],
		   size_t count);

/* Sends the call; see MYSQL_POST. */
void lease_post(struct lease *lease, const struct lease_call *call);

/*
 * As lease_ask(), for texts whose last rows are something else. 0 or -1; *rows is NULL when
 * there are none, as when call->looks and there is no table.
 */
int lease_rows(struct lease *lease, const struct lease_call *call, enum mysql_how how,
	       MYSQL_RES **rows, struct error *err);

/* Wakes a waiter who sleeps in a statement of its own; connection 0: nobody. */
void lease_ring(struct lease *lease, int64_t connection);

/* What the tables call a mode: 0 exclusive, -1 shared, N slots. */
int lease_mode(const struct request *request);
void lease_read_mode(int64_t number, enum hold_mode *mode, int *slots);

/* ---- lease_line.c ---- */

/* The text that takes our ticket, if this connection does not have it; else "". */
const char *lease_missing_ticket(const struct lease *lease);
/* Notes what state says of our ticket. */
void lease_note_ticket(struct lease *lease, const struct lease_state *state,
		       const struct request *request);
/* The text that gets in line, or back to the place that lease had there. */
const char *lease_line_text(const struct lease *lease);
/* Notes the place in line that state shows. A place that is gone meanwhile stays noted. */
void lease_note_place(struct lease *lease, const struct lease_state *state);
/*
 * With --replace-waiters: gets in line, and wakes those that it sends away. Else it does nothing,
 * and leaves that to the request that waits. 0; -1 with *err; 1: rows that others keep locked are
 * in the way.
 */
int lease_line_up(struct lease *lease, const struct request *request, struct error *err);

/* Slots of struct backend_ops: lease_hold.c, lease_show.c. */
backend_grant_fn lease_renew;
backend_verify_fn lease_verify;
backend_release_fn lease_release;
backend_inspect_fn lease_inspect;
int lease_list(struct backend *backend, struct name_list *names, struct error *err);
backend_break_fn lease_break;
/* The slot of struct mysql_strategy. */
int lease_check(struct backend *backend, struct findings *findings, struct error *err);

extern const struct backend_ops lease_ops;
