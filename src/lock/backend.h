/* SPDX-License-Identifier: MIT */
/*
 * What a backend is to the engine: a table of functions over an object of its
 * own, in which struct backend is embedded as the first member. The engine
 * (keeper.c) owns the loop: try, sleep until something happens, try again; hold,
 * renew, release. A backend does one bounded step at a time and keeps no thread
 * of control. One process uses one object; none of this is thread-safe.
 */
#ifndef DLOCK_BACKEND_H
#define DLOCK_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holder.h"

struct error;
struct findings;
struct lock_view;
struct name_list;
struct uri;

/* Bounds of one request and of one connection, unless the URI says otherwise. */
#define BACKEND_TIMEOUT_MS 2000
#define BACKEND_CONNECT_TIMEOUT_MS 5000
/* The lease, unless a user asks for another one. */
#define BACKEND_TTL_MS INT64_C(30000)

/* What became of a lock operation. */
enum outcome {
	OUTCOME_HELD,		/* this token holds the lock */
	OUTCOME_BUSY,		/* somebody else holds it, or is first in line */
	OUTCOME_LOST,		/* this token is not the holder, whoever is */
	OUTCOME_ERROR,		/* not known: struct error says why */
};

enum hold_mode {
	HOLD_EXCLUSIVE,
	HOLD_SHARED,		/* with other shared holds, excludes exclusive ones */
	HOLD_SLOT,		/* one of request->slots at once */
	HOLD_ANY,		/* only to verify: whatever the mode is */
};

/* A wish to hold. The caller owns all of it, for as long as the hold lasts. */
struct request {
	const char *name;
	const char *token;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT: how many; all users of the name agree on it */
	int64_t ttl_ms;		/* lease asked for; renew, again: 0 for that of the hold itself */
	int64_t until_ms;	/* a keeper frees it then, wall clock; 0: not by itself. To show */
	int64_t min_hold_ms;	/* stored: nobody frees it before it was held for so long */
	bool forget;		/* release leaves nothing, not even the fence: for a probe */
	bool borrow;		/* a short lease will do at first; see struct grant, lent */
	bool queue;		/* when busy, stay in line until released or cancelled */
	struct holder self;
};

/*
 * What a backend tells of a request. Before acquire() the engine sets all of it to 0
 * and the two descriptors to -1; a backend fills in what applies to it.
 */
struct grant {
	/* after OUTCOME_HELD */
	int64_t sent_ms;	/* CLOCK_BOOTTIME before the request left; lease counts from here */
	int64_t ttl_ms;		/* lease granted; 0: no lease, held until released or process end */
	uint64_t fence;
	bool lent;		/* a short lease: renew soon, for a whole one */
	int64_t event_ms;	/* CLOCK_BOOTTIME: call event() then, whatever comes; 0: no need */
	/*
	 * After acquire(): the descriptor that the hold lives with, a connection that is a session
	 * or a file that is locked. The lock is free when the last copy is closed. The processes
	 * that watch the command keep copies, so that the death of the keeper does not let the next
	 * holder in while the command runs. The backend keeps and closes its own copy, which stays
	 * the same until the hold ends. -1: none, as for every hold that is a lease alone.
	 */
	int hold_fd;
	int slot_fd;		/* a second one, for a hold that needs both; -1: none */
	/* after OUTCOME_BUSY */
	struct holder holder;	/* who holds it, as far as known */
	int64_t age_ms;		/* for how long; -1: not known */
	int64_t ahead;		/* waiters in line before this one; -1: not known */
	int64_t retry_ms;	/* CLOCK_BOOTTIME: acquire again then, if no event comes first */
};

/* What a release gives back of a hold that was acquired more than once. */
enum release {
	RELEASE_ALL,		/* its holder is gone */
	RELEASE_ONE,		/* one acquisition; the last one frees */
	RELEASE_COUNTED,	/* one acquisition, but never the last: a run has that one */
};

struct backend {
	const struct backend_ops *ops;
	/*
	 * Set by the engine: when this descriptor becomes readable, a wait inside
	 * acquire() ends with ERROR_CANCELLED. -1: not interruptible.
	 */
	int cancel_fd;
	/*
	 * Set by the engine, or NULL: takes a line that a client library logs, for -vv. May be
	 * called by any thread.
	 */
	void (*log)(const char *line);
	int64_t timeout_ms;		/* bound of one request */
	int64_t connect_timeout_ms;	/* bound of a connection, name resolution not included */
};

/*
 * Every slot is filled, but where it says NULL. Functions that return an outcome fill *err only for
 * OUTCOME_ERROR; after it, the same call may be made again, and connects anew if
 * that is what it takes.
 */
struct backend_ops {
	/*
	 * Makes an object for uri, or returns NULL with *err: a wrong parameter, host
	 * or path. Talks to no server. The object keeps what it needs of uri.
	 */
	struct backend *(*open)(const struct uri *uri, struct error *err);
	/* Frees the object and its connections. Releases no lock. Accepts NULL. */
	void (*close)(struct backend *backend);
	/*
	 * Reaches the server for the first acquire() of the same request: looks up its name,
	 * connects, and logs in if the login does not travel with the first request. Leaves
	 * nothing at the server that a hold or a place in line is made of, so that a process can
	 * be killed in it without a trace. acquire() connects by itself where this was not called,
	 * or the connection was lost since. 0 or -1. NULL: there is nothing to connect to.
	 */
	int (*connect)(struct backend *backend, const struct request *request, struct error *err);
	/*
	 * One atomic try, safe to repeat with the same token: if an earlier one was
	 * granted and its reply lost, this one finds that hold and extends it. With
	 * queue set, BUSY means that a place in line is taken and kept. Local backends
	 * (see backends/registry.h) sleep in it instead, until they hold or a signal is
	 * caught (BUSY); nobody else may.
	 */
	enum outcome (*acquire)(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err);
	/* A descriptor to poll for input between calls: waiting or holding; -1: none. */
	int (*event_fd)(struct backend *backend);
	/*
	 * event_fd() is readable: takes in what came. Returns the CLOCK_BOOTTIME ms
	 * at which acquire() (waiting) or renew() (holding) is to be called: 0 for at
	 * once, which a lost connection also means, CLOCK_NEVER for no change.
	 */
	int64_t (*event)(struct backend *backend);
	/*
	 * Extends the lease to ttl_ms from now if token still holds (HELD, with
	 * sent_ms and ttl_ms of *grant), never takes it anew (LOST, *err says what is
	 * there instead, for people). That TTL is then the hold's own. With ttl_ms 0 it is
	 * extended by the hold's own TTL, which the backend has stored; where nobody has, by
	 * BACKEND_TTL_MS, and not to less than is left.
	 */
	enum outcome (*renew)(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err);
	/*
	 * Does token hold the lock at this moment, so that the hold covers the mode and slots
	 * asked for? HELD; LOST; BUSY: it holds, but differently, and *err says how: the rule
	 * is that of hold_mode_covers() for every backend. Changes nothing.
	 */
	enum outcome (*verify)(struct backend *backend, const struct request *request,
			       struct error *err);
	/*
	 * Gives the lock back, or the place in line, and wakes the next waiter. HELD:
	 * it was held until this call. BUSY: it still is, for it was acquired more than
	 * once, and how is not RELEASE_ALL. LOST: it was not (no error when cancelling). With
	 * keep_ms > 0 it stays taken for that long, then frees itself. With RELEASE_COUNTED
	 * HELD says that only the last acquisition is there, and nothing was changed.
	 */
	enum outcome (*release)(struct backend *backend, const struct request *request,
				enum release how, int64_t keep_ms, struct error *err);
	/*
	 * Counts one more acquisition of the hold that token has, and extends it, by the
	 * longer of ttl_ms and the hold's own TTL, which that is then: each needs a release
	 * of its own. HELD, with *grant as after renew() and the fence; LOST, or BUSY: see
	 * verify().
	 */
	enum outcome (*again)(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err);
	/*
	 * Shows who holds name and who waits, into *view, zeroed by the caller, who ends
	 * with lock_view_finish(). With listen, event_fd() tells of a change from then on,
	 * if the backend can. 0 or -1.
	 */
	int (*inspect)(struct backend *backend, const char *name, bool listen,
		       struct lock_view *view, struct error *err);
	/* The names of all locks that are held or waited for. 0 or -1. */
	int (*list)(struct backend *backend, struct name_list *names, struct error *err);
	/*
	 * Takes name away from whoever holds it, and wakes the next waiter; *view shows
	 * what was broken. A holder finds out at its next renewal. 0 or -1.
	 */
	int (*break_hold)(struct backend *backend, const char *name, struct lock_view *view,
			  struct error *err);
	/* Makes what locks need there, if anything: a directory, tables. 0 or -1. */
	int (*setup)(struct backend *backend, struct error *err);
	/*
	 * What setup() does, for an administrator to read or to run, and the permissions that
	 * an account needs: *text, which the caller frees; "" for nothing. Talks to no
	 * server. 0 or -1.
	 */
	int (*plan)(struct backend *backend, char **text, struct error *err);
	/* Says how fit the backend is to hold locks; -1: it cannot be asked. */
	int (*check)(struct backend *backend, struct findings *findings, struct error *err);
};

/* The symbol that a module exports; version guards against a mix of builds. */
#define BACKEND_MODULE_SYMBOL "dlock_backend_module"
struct backend_module {
	const char *version;		/* DLOCK_VERSION it was built from */
	const struct backend_ops *ops;
};

#endif
