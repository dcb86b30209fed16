/* SPDX-License-Identifier: MIT */
/*
 * What a backend is to the engine: a table of functions (slots) over the backend's own object,
 * whose first member is struct backend. The engine owns the loop: try, sleep until something
 * happens, try again; hold, renew, release. A backend does one bounded step at a time. One process
 * uses one object; nothing here is thread-safe.
 *
 * Calling sequence in the keeper of a run: open(); connect(); acquire() until it holds, with
 * event() whenever event_fd() is readable or retry_ms has come; renew(), with event() likewise;
 * release(); close(). All other slots may be called on an object of their own.
 */
#pragma once

#include <stdbool.h>
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

/* Every fence is below it, for programs that keep numbers as doubles. The clock is in 2255. */
#define BACKEND_FENCE_END (UINT64_C(1) << 53)

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

/* What is asked for. The caller owns all of it and keeps it for as long as the hold lasts. */
struct request {
	const char *name;
	const char *token;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT: how many; all users of the name agree on it */
	int64_t ttl_ms;		/* lease asked for; renew: 0 for that of the hold itself */
	int64_t until_ms;	/* wall clock: a daemon frees it then; 0: none does. For status */
	int64_t min_hold_ms;	/* stored with the hold: nobody frees the lock earlier */
	bool forget;		/* release leaves nothing, not even the fence: for a probe */
	bool own;		/* of the one that acquires: it releases when its command is dead */
	bool borrow;		/* a short lease is enough at first: see lent in struct grant */
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
	int64_t event_ms;	/* CLOCK_BOOTTIME: call event() then, input or not; 0: no need */
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
	struct holder holder;	/* the process that holds it, as far as known */
	int64_t age_ms;		/* how long that has held it; -1: not known */
	int64_t ahead;		/* waiters in line before this one; -1: not known */
	int64_t retry_ms;	/* CLOCK_BOOTTIME: acquire again then, if no event comes first */
	/*
	 * After OUTCOME_LOST of acquire(): a newer waiter has sent this one away, and
	 * nothing of this one is left. holder is the newer one.
	 */
	bool replaced;
};

struct backend {
	/*
	 * May be set by open(), to the table for the kind of lock that uri asks for. The engine
	 * then uses that table, in which open is NULL, and no other slot of the table that open()
	 * is in.
	 */
	const struct backend_ops *ops;
	/*
	 * Set by open(): the locks live with a connection or a descriptor, so that a process
	 * has to stay to hold one.
	 */
	bool session;
	/* Set by acquire(): the session timeout that the server granted; 0: there is none. */
	int64_t session_ms;
	bool replaces;		/* set by open(): its queue has --replace-waiters */
	/*
	 * Set by open(), unless there are holds of this mode: what has them, for the message with
	 * which the engine refuses such a request: "redis: and mysql: have".
	 */
	const char *no_shared, *no_slots;
	/*
	 * Set by the engine: when this descriptor becomes readable, a wait inside
	 * acquire() ends with ERROR_CANCELLED. -1: not interruptible.
	 */
	int cancel_fd;
	int64_t timeout_ms;		/* bound of one request */
	int64_t connect_timeout_ms;	/* bound of a connection, name resolution not included */
};

/*
 * The types of those slots of struct backend_ops that a backend fills from several of its files,
 * which declare their functions by them.
 */
typedef enum outcome backend_grant_fn(struct backend *backend, const struct request *request,
				      struct grant *grant, struct error *err);
typedef enum outcome backend_verify_fn(struct backend *backend, const struct request *request,
				       struct error *err);
typedef enum outcome backend_release_fn(struct backend *backend, const struct request *request,
					int64_t keep_ms, struct error *err);
typedef int backend_inspect_fn(struct backend *backend, const char *name, bool listen,
			       struct lock_view *view, struct error *err);
typedef int backend_break_fn(struct backend *backend, const char *name, struct lock_view *view,
			     struct error *err);

/*
 * Every slot is filled, except where NULL is allowed. Functions that return an outcome fill *err
 * for OUTCOME_ERROR, and for other outcomes only where that is said. After OUTCOME_ERROR the same
 * call may be made again, and connects anew where the connection was lost.
 */
struct backend_ops {
	/*
	 * Makes an object for uri, or returns NULL with *err: a wrong parameter, host
	 * or path. Talks to no server. The object keeps what it needs of uri.
	 */
	struct backend *(*open)(const struct uri *uri, struct error *err);
	/*
	 * Where the locks are, for people, if the URI does not say it: "file:/run/dlock". The
	 * object owns the text. NULL: the URI always says it.
	 */
	const char *(*place)(const struct backend *backend);
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
	 * One atomic try, safe to repeat with the same token: if an earlier one was granted and its
	 * reply was lost, this one finds that hold and extends it. With queue set, BUSY means that
	 * a place in line is taken and kept, or left for good with LOST, when a newer waiter has
	 * replaced this one. A local backend (see backends/registry.h) sleeps here instead, until
	 * it holds or a signal is caught (BUSY). No other backend may sleep here.
	 */
	backend_grant_fn *acquire;
	/* The descriptor to poll for input between calls, while waiting or holding; -1: none. */
	int (*event_fd)(struct backend *backend);
	/*
	 * Called when event_fd() is readable: reads what has come. Returns when to call acquire()
	 * (waiting) or renew() (holding), in ms of CLOCK_BOOTTIME: 0 for at once, as after a lost
	 * connection; CLOCK_NEVER for no change.
	 */
	int64_t (*event)(struct backend *backend);
	/*
	 * Extends the lease to ttl_ms from now if token still holds (HELD, with sent_ms and ttl_ms
	 * of *grant, and with the fence if that was 0 and is known). Never takes the lock anew:
	 * LOST, and *err says what is there instead, for people. That TTL is then the hold's own.
	 * With ttl_ms 0 the lease is extended by the hold's own TTL, which the backend has stored;
	 * where none is stored, by BACKEND_TTL_MS, and not to less than is left.
	 */
	backend_grant_fn *renew;
	/*
	 * Does token hold the lock at this moment, in a way that covers the mode and slots asked
	 * for (hold_mode_covers())? HELD. LOST: it does not hold, and *err may say what is there
	 * instead. BUSY: it holds, but does not cover that, and *err says how. Changes nothing.
	 */
	backend_verify_fn *verify;
	/*
	 * Gives the lock back, or the place in line, and wakes the next waiter. HELD: the lock was
	 * held until this call. LOST: it was not held, which is no error for a place in line. With
	 * keep_ms > 0 the lock stays taken for that long and then frees itself.
	 */
	backend_release_fn *release;
	/*
	 * Fills *view with the holders of name and those that wait for it. The caller has zeroed
	 * *view and frees it with lock_view_finish(). With listen, event_fd() tells of changes
	 * from then on, if the backend can. 0 or -1.
	 */
	backend_inspect_fn *inspect;
	/* The names of all locks that are held or waited for. 0 or -1. */
	int (*list)(struct backend *backend, struct name_list *names, struct error *err);
	/*
	 * Takes name away from its holders, and wakes the next waiter; *view shows what was
	 * broken. A holder finds out at its next renewal. 0 or -1.
	 */
	backend_break_fn *break_hold;
	/* Makes what locks need at the backend, if anything: a directory, tables. 0 or -1. */
	int (*setup)(struct backend *backend, struct error *err);
	/*
	 * Says what setup() does, for an administrator to read or to run, and the permissions that
	 * an account needs: *text, which the caller frees; "" for nothing. Talks to no server. 0
	 * or -1.
	 */
	int (*plan)(struct backend *backend, char **text, struct error *err);
	/* Says how fit the backend is to hold locks. 0, or -1: it cannot be asked. */
	int (*check)(struct backend *backend, struct findings *findings, struct error *err);
};

/*
 * Call the slots acquire or renew, or inspect. No time that a server reports is taken for
 * longer than what was asked for, or than what makes sense (lease.h). A hold whose fence is not
 * below BACKEND_FENCE_END is an ERROR, since no later fence would be larger. The caller releases it
 * as after any other error.
 */
enum outcome backend_grant(backend_grant_fn *slot, struct backend *backend,
			   const struct request *request, struct grant *grant, struct error *err);
int backend_inspect(struct backend *backend, const char *name, bool listen,
		    struct lock_view *view, struct error *err);

/* The symbol that a module exports; version guards against a mix of builds. */
#define BACKEND_MODULE_SYMBOL "dlock_backend_module"
struct backend_module {
	const char *version;		/* the DLOCK_VERSION that it was built from */
	const struct backend_ops *ops;
	/*
	 * The name and the version of the client library, for people. The version is that of the
	 * library which is loaded, or of its headers where the library cannot be asked.
	 */
	const char *(*library)(void);
};
