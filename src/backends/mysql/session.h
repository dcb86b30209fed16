/* SPDX-License-Identifier: MIT */
/*
 * What the strategies row, advisory and table have in common: the server frees such a
 * lock the moment the connection that took it ends. So one connection (my->conn) takes it,
 * waits for it and keeps it, and is never opened anew while it does.
 *
 * The lease. A partition: the server cannot see that the holder is gone, and the holder
 * cannot see that the server has let somebody else in. Therefore the session's
 * wait_timeout is set to the TTL in whole seconds, W. The server ends the connection when
 * it has been idle for W, counted from the end of the last statement, which is later than
 * the moment it was sent. So the lock cannot pass to anybody before (sent + W), and that is
 * the lease that the engine gets and that the guard ends the command before; each proof
 * that the session still holds is a statement, and begins it anew. Holders whose host
 * died are gone after W, too. A server that ends a connection for another reason (KILL,
 * restart) is noticed at the connection itself.
 *
 * A waiter sleeps in the statement that takes the lock. Until it has said that it is
 * awake, its connection may be idle for a few seconds only, so that one that hangs does
 * not keep the lock that it was given.
 *
 * Who holds, since when, and the fence stand in the table dlock_sessions, written through
 * another connection (session->side) where the first one cannot without giving up the lock.
 *
 * The end of a hold. When the connection breaks, the lock is free at once, but the command takes
 * its time to die. So each registration says, by the server's clock, until when its command
 * may be alive (dead_by): one lease after it was written, and it is written again at each
 * renewal. The lease that the engine gets is counted from before the first of the two requests
 * of a renewal, the proof and the registration, was sent, and the guard has ended the command
 * when it is over; so dead_by is later. A hold that ends in good order sets dead_by to 0 as it
 * frees the lock. One whose connection broke does so over a new connection, once nothing of its
 * command is left: release(). If it cannot, because its host or all its processes are dead,
 * dead_by passes.
 *
 * Whoever takes the lock and finds a registration that is not its own, excludes its own, and
 * whose dead_by is to come, leaves it as it is and waits, with the lock, until it is over; only
 * then does it register itself, so that one that is cut off while it waits for the end of
 * another one's command leaves nothing of its own behind, and that other one's registration to
 * the next. It is a waiter like any other meanwhile: it sleeps in a statement that says for
 * what, and the same few seconds are the limit for one that hangs.
 *
 * A registration that is written after the lock was lost would be seen by nobody who has taken
 * the lock before. So the connection proves once more after that that it has the lock: who takes
 * it later will find the registration. (Where the same connection writes both, it had it.)
 */
#ifndef DLOCK_MYSQL_SESSION_H
#define DLOCK_MYSQL_SESSION_H

#include "lock.h"
#include "waiters.h"

/*
 * How one strategy does it. Each text but make, forget, owner gives one row: 1 for yes,
 * the connection's number, whether the server is read-only, whether it is a Galera node.
 */
struct session_kind {
	const char *name;
	const char *try_sql, *wait_sql, *confirm_sql, *prove_sql;
	/* frees it, and ends the registration of an exclusive and of a shared hold */
	const char *release_sql, *release_shared_sql;
	/* proves, and renews the registration; NULL: a second connection does */
	const char *renew_sql;
	const char *make_sql;		/* what is to be locked is not there: makes it; or NULL */
	const char *forget_sql;		/* takes that away again; or NULL */
	/* the number of the connection that holds; NULL: not to know */
	const char *owner_sql;
	/* fails with contention when it is taken; NULL: not to know */
	const char *probe_sql;
	const char *exclusive, *shared;	/* {lock}; shared NULL: there are no shared holds */
	bool transaction;		/* it lives with a transaction, too */
	bool own_registry;		/* the same connection can write to dlock_sessions */
	/* Can name be locked at all? 0, or -1 with *err. */
	int (*admit)(const char *name, struct error *err);
};

#define SESSION_KEY_SIZE 65

struct mysql_session {
	const struct session_kind *kind;
	bool unsafe;			/* ?wsrep=unsafe */
	bool waiting;			/* asleep in a statement: */
	/* in line for the lock, or with the lock, for the end of an earlier holder's command */
	enum { IN_LINE, BEHIND } asleep;
	int64_t nap_ms;			/* BEHIND: how long this time */
	bool asking;			/* a proof was sent, and its answer is to come */
	const char *asked_sql;		/* as this text, */
	int64_t asked_ms;		/* then */
	struct mysql_conn side;		/* see own_registry; open while it holds or is BEHIND */
	bool tried;			/* to acquire: what is registered is known */
	bool registered;		/* dlock_sessions may say that we hold */
	unsigned int generation;	/* of my->conn, which holds; 0: it does not */
	int64_t connection;		/* its number */
	int64_t idle_ms;		/* W */
	int64_t look_ms;		/* a waiter looks at who holds it */
	struct holder holder;		/* as it was last seen while waiting, */
	int64_t since_ms;		/* and since when, CLOCK_BOOTTIME; -1: not known */
	enum hold_mode mode;
	int64_t until_ms;		/* request->until_ms as others see it */
	uint64_t fence;
};

static inline struct mysql_session *session_of(const struct mysql_backend *my)
{
	return my->state;
}

/* All that the texts may want. The pointers are good as long as request and words are. */
struct session_words {
	struct sql_value values[24];
	char key[SESSION_KEY_SIZE];
	unsigned char digest[SHA256_SIZE];
	char holder[HOLDER_TEXT_SIZE];
	char mark[WAITERS_MARK_SIZE];
	char waiter[WAITERS_COMMENT_SIZE];
};
void session_words(struct mysql_backend *my, const struct request *request, int delta,
		   struct session_words *words);

/* ---- session.c: for the others ---- */

/* The one row of each text; see struct session_kind. */
struct session_answer {
	bool there;		/* a row came */
	int64_t yes, connection, read_only, wsrep, idle_s;
	bool in_transaction;
};
void session_read_answer(struct mysql_backend *my, MYSQL_RES *rows,
			 struct session_answer *answer);
/* The session's wait_timeout. */
int64_t session_idle_s(const struct request *request);
/* Gives up all that my->conn has, and what the server would keep for it. */
void session_drop(struct mysql_backend *my);

/* ---- register.c: writing to the table dlock_sessions ---- */

/*
 * Notes that we hold: session->fence. BUSY: a command of an earlier holder, whose connection
 * broke, may still be alive.
 */
enum outcome session_register(struct mysql_backend *my, const struct request *request,
			      struct error *err);
/* The lease has begun anew. 0 or -1. */
int session_extend(struct mysql_backend *my, const struct request *request, struct error *err);
/* Nothing of the command is left: the next holder need not wait. shown: but show it yet. */
void session_end(struct mysql_backend *my, const struct request *request, bool shown);
/* Sees to it that a clock that was set back keeps nobody waiting for longer than a lease. */
void session_bound(struct mysql_backend *my, const struct request *request);
/* request->until_ms has changed. */
void session_note_end(struct mysql_backend *my, const struct request *request);
/*
 * One acquisition more, or less, for any process that has the token: HELD. LOST: there is
 * no such hold, or it was the last one.
 */
enum outcome session_count(struct mysql_backend *my, const struct request *request, int delta,
			   uint64_t *fence, struct error *err);

/* ---- registry.c: reading it ---- */

/* Who seems to hold it now, into session->holder. aside: my->conn is busy. 0 or -1. */
int session_look(struct mysql_backend *my, const struct request *request, bool aside,
		 struct error *err);

/* The slots of struct mysql_strategy that only look, or take away. */
enum outcome session_verify_other(struct mysql_backend *my, const struct request *request,
				  struct error *err);
int session_inspect(struct mysql_backend *my, const char *name, bool listen,
		    struct lock_view *view, struct error *err);
int session_list(struct mysql_backend *my, struct name_list *names, struct error *err);
int session_break(struct mysql_backend *my, const char *name, struct lock_view *view,
		  struct error *err);
int session_check(struct mysql_backend *my, struct findings *findings, struct error *err);

/* ---- session.c, session_take.c, session_hold.c; slots too ---- */

int session_open(struct mysql_backend *my, const struct session_kind *kind,
		 const struct uri *uri, struct error *err);
void session_close(struct mysql_backend *my);
enum outcome session_acquire(struct mysql_backend *my, const struct request *request,
			     struct grant *grant, struct error *err);
int64_t session_event(struct mysql_backend *my);
enum outcome session_renew(struct mysql_backend *my, const struct request *request,
			   struct grant *grant, struct error *err);
enum outcome session_verify(struct mysql_backend *my, const struct request *request,
			    struct error *err);
enum outcome session_release(struct mysql_backend *my, const struct request *request,
			     enum release how, int64_t keep_ms, struct error *err);
enum outcome session_again(struct mysql_backend *my, const struct request *request,
			   struct grant *grant, struct error *err);

/* Parameters of the URI that all three have. */
extern const char *const session_params[];

/* The slots that are the same for all three. */
#define SESSION_SLOTS \
	.columns = sql_session_columns, .upgrade = sql_session_upgrade, \
	.params = session_params, .close = session_close, .acquire = session_acquire, \
	.event = session_event, .renew = session_renew, .verify = session_verify, \
	.release = session_release, .again = session_again, .inspect = session_inspect, \
	.list = session_list, .break_hold = session_break, .check = session_check

#endif
