/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the strategies row, advisory and table share. In all three, the server frees a
 * lock the moment the connection that took it ends. So one connection (my->conn) takes the lock,
 * waits for it and keeps it, and is never opened again while it waits or holds.
 *
 * The lease. In a partition the server cannot see that the holder is gone, and the holder cannot
 * see that the server has let somebody else in. Therefore the session's wait_timeout is set to the
 * TTL in whole seconds, W. The server ends the connection when it has been idle for W, counted from
 * the end of the last statement, which is later than the moment when the statement was sent. So the
 * lock cannot pass to anybody before (sent + W). The engine gets this time as the end of the lease,
 * and the guard ends the command by then. Each proof that the session still holds is a statement,
 * and starts a new lease. The lock of a holder whose host died is also free after W. If the server
 * ends the connection for another reason (KILL, restart), the connection itself shows it.
 *
 * A waiter sleeps in the statement that takes the lock. Until the waiter has shown that it is
 * awake, its connection may be idle only for a few seconds, so that a waiter that hangs does not
 * keep the lock that it was given.
 *
 * The table dlock_sessions says who holds the lock, since when, and the fence. It is written over a
 * second connection (my->side) where the first one cannot write without giving up the lock.
 *
 * The end of a hold. When the connection breaks, the lock is free at once, but the command takes
 * time to die. So each registration says, by the server's clock, until when its command may be
 * alive (dead_by): one lease after the registration was written, and it is written again at each
 * renewal. The lease that the engine gets is counted from before the first of the two requests of a
 * renewal (proof and registration) was sent, and the guard has ended the command when that lease is
 * over; so dead_by is later. A holder that ends in good order sets dead_by to 0 as it frees the
 * lock. A holder whose connection broke does so over a new connection, when no process of its
 * command is left: see session_release(). If nobody can do so, because the host or all processes of
 * the holder are dead, dead_by passes.
 *
 * When a client has taken the lock, it may find a registration that is not its own, that excludes
 * it, and whose dead_by lies ahead. The client leaves that registration as it is and waits, with
 * the lock, until dead_by has passed. Only then does it register itself. A client that is cut off
 * during this wait leaves nothing of its own behind, and leaves the earlier registration to the
 * next client. During this wait, the client is a waiter like any other: it sleeps in a statement
 * that says what it waits for, and is disconnected after the same few seconds if it hangs.
 *
 * If the lock was lost before the registration was written, a client that has taken the lock
 * meanwhile does not see the registration. So after registering, the connection proves once more
 * that it has the lock; a client that takes the lock later will find the registration. This proof
 * is not needed where one connection does both.
 */
#pragma once

#include "request.h"

/*
 * How one strategy does it. Each text but make, forget, owner and probe gives one row: 1 for yes,
 * and then what session_facts says.
 */
struct session_kind {
	const char *try_sql, *wait_sql, *confirm_sql, *prove_sql;
	const char *release_sql;	/* frees the lock, and ends the registration */
	/* proves, and renews the registration; NULL: a second connection does */
	const char *renew_sql;
	const char *make_sql;		/* makes what is to be locked; NULL: it has to be there */
	const char *forget_sql;		/* deletes that again; or NULL */
	/* gives the number of the connection that holds; NULL: the server does not tell */
	const char *owner_sql;
	/* fails with contention when the lock is taken; NULL: owner_sql tells */
	const char *probe_sql;
	const char *exclusive, *shared;	/* {lock} in the texts above */
	bool transaction;		/* the lock ends with a transaction, too */
	bool own_registry;		/* the same connection can write to dlock_sessions */
};

/* The one row of each text; see struct session_kind. */
struct session_answer {
	bool there;		/* a row came */
	int64_t yes, connection, read_only, wsrep, idle_s;
	bool in_transaction;
};

struct session {
	struct mysql_backend my;	/* my.side is open while my.conn holds or is BEHIND */
	bool unsafe;			/* ?wsrep=unsafe */
	bool waiting;			/* asleep in a statement: */
	/* in line for the lock, or with the lock, for the end of an earlier holder's command */
	enum { IN_LINE, BEHIND } asleep;
	int64_t nap_ms;			/* BEHIND: how long this time */
	bool asking;			/* a proof was sent, and its answer is to come */
	const char *asked_sql;		/* the text of the proof, */
	int64_t asked_ms;		/* and when it was sent; */
	struct session_answer answer;	/* as far as it has come */
	bool tried;			/* to acquire: so what is registered is known */
	bool registered;		/* dlock_sessions may say that we hold */
	unsigned int generation;	/* of my.conn, which holds; 0: it does not */
	int64_t connection;		/* its number */
	int64_t idle_ms;		/* W */
	int64_t look_ms;		/* when a waiter looks again who holds the lock */
	struct holder holder;		/* as it was last seen while waiting, */
	int64_t since_ms;		/* and since when, CLOCK_BOOTTIME; -1: not known */
	enum hold_mode mode;
	int64_t until_ms;		/* request->until_ms as others see it */
	uint64_t fence;
	int64_t keep_ms;		/* what session_keep() notes */
};

static inline struct session *session_of(struct backend *backend)
{
	return (struct session *)backend;
}

static inline const struct session_kind *session_kind_of(const struct session *session)
{
	return session->my.strategy->session;
}

/* ---- session_request.c ---- */

void session_words(const struct session *session, const struct request *request,
		   struct words *words);

enum session_over { OVER_HOLDER, OVER_SIDE, OVER_NEW };

/*
 * Runs sql over the connection that holds or is to hold, over the second one, which stays open
 * until session_drop() and is opened anew when it broke, or over one that is closed afterwards.
 * 0 or -1.
 */
int session_run(struct session *session, enum session_over over, const char *sql,
		const struct request *request, MYSQL_RES **rows, struct error *err);

/* The same, for one row of numbers: see mysql_numbers(). How many, or -1. */
int session_ask(struct session *session, enum session_over over, const char *sql,
		const struct request *request, int64_t numbers[], size_t most, struct error *err);

/* Reads the row, and frees rows. */
void session_read_answer(const struct session *session, MYSQL_RES *rows,
			 struct session_answer *answer);
/* The session's wait_timeout. */
int64_t session_idle_s(const struct request *request);
/* Closes the connections, and so gives up what the server keeps for them. */
void session_drop(struct session *session);

/* Slots of struct mysql_strategy. */
int session_open(struct backend *backend, const struct uri *uri, struct error *err);
int session_check(struct backend *backend, struct findings *findings, struct error *err);

/* ---- session_table.c: the table dlock_sessions ---- */

/*
 * Notes that we hold: session->fence. BUSY: a command of an earlier holder, whose connection
 * broke, may still be alive.
 */
enum outcome session_register(struct session *session, const struct request *request,
			      struct error *err);
/* No process of the command is left: the next holder need not wait. */
void session_end(struct session *session, const struct request *request);
/* The same of a hold that is kept for keep_ms from now, which status shows as that. */
void session_keep(struct session *session, const struct request *request, int64_t keep_ms);
/* Who seems to hold the lock now, into session->holder. 0 or -1. */
int session_look(struct session *session, const struct request *request,
		 enum session_over over, struct error *err);
/* verify() for a process that is not the one with the connection. */
enum outcome session_verify_other(struct session *session, const struct request *request,
				  struct error *err);

/* ---- slots of struct backend_ops ---- */

backend_inspect_fn session_inspect;
int session_list(struct backend *backend, struct name_list *names, struct error *err);
backend_break_fn session_break;
/* session_hold.c */
int64_t session_event(struct backend *backend);
backend_grant_fn session_renew;
backend_verify_fn session_verify;
backend_release_fn session_release;

/* session.c */
extern const struct backend_ops session_ops;
