/* SPDX-License-Identifier: MIT */
/*
 * The contract between dlock and a backend: everything that a backend has to do.
 *
 * A backend stores rows and changes them atomically. A row is a hold of a lock, or a waiter for it.
 * lock/hold.h gives rows their meaning, once for all backends: whether a hold covers a request,
 * what a minimum hold is, what `status` shows, when a waiter tries.
 *
 * A backend is a table of functions over an object of its own, whose first member is struct
 * backend. One process uses one object for one lock. Nothing here is thread-safe.
 *
 * Calling sequence in a keeper:
 *
 *	open() connect() acquire()...	until it returns HELD. After BUSY: sleep until fd() is
 *					readable, event() has named a time, or retry_ms has come
 *	renew()...			again and again
 *	event()				whenever fd() is readable, or `woken` is set before a sleep
 *	release() close()
 *
 * show() may be called between any two of these calls. show(), setup(), check() and break_hold()
 * need no acquire() before them, and neither do renew() and release() unless the backend says
 * `session`.
 *
 * Time. Each function but acquire() of a local backend returns within timeout_ms, or within
 * connect_timeout_ms plus timeout_ms if it has to connect first. open(), close(), fd() and event()
 * do not block at all. A function that reads from a server bounds what it reads, in bytes and in
 * time.
 *
 * Repetition. A caller repeats a call whose result it does not know, with the same token. So
 * acquire() finds the hold that an earlier acquire() of this token has made; renew() and release()
 * compare the token in the same atomic step in which they change something.
 *
 * Errors of a server. ERROR_UNAVAILABLE: it is down, and the same request may succeed later. It is
 * not reachable, gives no answer, is loading, has no quorum, fails over (so it is read-only), or is
 * full (memory, disk, connections). --if-down decides what follows. ERROR_REFUSED: it refuses this
 * user or request until somebody changes one of them: credentials, privileges, a wrong database,
 * protocol or parameter. --if-down does not apply. A waiter that had an answer tries again after
 * both kinds. All other kinds end it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/module.h"
#include "holder.h"

struct findings;
struct uri;

/* Bounds of one request and of one connection, unless the URI names others. */
#define BACKEND_TIMEOUT_MS 2000
#define BACKEND_CONNECT_TIMEOUT_MS 5000
/* The lease, unless a user asks for another one. */
#define BACKEND_TTL_MS INT64_C(30000)

/* Every fence is below it, for programs that keep numbers as doubles. The clock is in 2255. */
#define BACKEND_FENCE_END (UINT64_C(1) << 53)

/* The result of a lock operation. */
enum outcome {
	OUTCOME_HELD,		/* this token holds the lock */
	OUTCOME_BUSY,		/* the lock is taken, or others are first in the queue */
	OUTCOME_LOST,		/* this token does not hold the lock */
	OUTCOME_ERROR,		/* not known; struct error has the reason */
};

enum hold_mode {
	HOLD_EXCLUSIVE,
	HOLD_SHARED,		/* with other shared holds, excludes exclusive ones */
	HOLD_SLOT,		/* one of request->slots at once */
	HOLD_ANY,		/* only for hold_verify(): any mode will do */
};

/* A request. The caller owns it and the strings in it, which live as long as the hold. */
struct request {
	const char *name;	/* show(): NULL for the names of all locks */
	const char *token;	/* 32 hex digits, without a level; "" in show() for nobody's */
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT: how many */
	int64_t ttl_ms;		/* acquire(), renew(): the lease to set; > 0 */
	int64_t keep_ms;	/* release(): see there */
	bool queue;		/* acquire(): after BUSY stay in the queue until release() */
	/*
	 * The holder record (holder_encode()) to store with the row; the backend does not read it.
	 * renew(), release(): NULL leaves the stored one as it is.
	 */
	const char *text;
};

/* Room for a row's id: a digest of up to 32 bytes in hex digits. */
#define ROW_ID_SIZE 65

/* A hold or a waiter. The comments on times are about what show() has to set. */
struct row {
	/*
	 * Names this row among those of the lock. The backend derives it from the token, and in
	 * such a way that nobody can derive the token from it. "": the row of another program,
	 * which the backend cannot name, or a row that break_hold() finds by its fence.
	 */
	char id[ROW_ID_SIZE];
	/*
	 * The row of the request's token. With `session`, not a hold whose connection or descriptor
	 * is gone: its row keeps others out until its lease ends, and is nobody's.
	 */
	bool mine;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT */
	uint64_t fence;		/* 0: not known, or a waiter */
	int64_t age_ms;		/* since it holds, or waits; -1: not known */
	/* Until the lease of the hold ends; -1: no end is known, as while a session lives. */
	int64_t left_ms;
	struct holder holder;	/* from the stored holder record */
};

/* The id that suits a backend with no other rule: the SHA-256 of the token in 64 hex digits. */
void row_id(const char *token, char id[static ROW_ID_SIZE]);

struct name_list {
	char **names;
	size_t count;
};

/* What is known of a lock. The caller zeroes it before, and frees it with rows_finish(). */
struct rows {
	struct row *holds;
	size_t hold_count;
	struct row *waiters;	/* in the order of the queue */
	size_t waiter_count;
	uint64_t fence;		/* the last one given for this name; 0: not known */
	struct name_list names;	/* with request->name NULL: the locks that have rows */
	/* Data of other programs beside the lock, which excludes nobody. */
	struct name_list ignored;
};

/*
 * Add a row that holds or waits, with the holder record of length bytes of text, and return it to
 * be filled in: age_ms and left_ms are -1, all else is 0. The pointer is valid until the next call.
 */
struct row *rows_add(struct rows *rows, bool holds, const char *text, size_t length);
void rows_finish(struct rows *rows);

/* Returns how long ago that was, in ms since the epoch, by this host's clock; -1: not known (0). */
int64_t rows_age(int64_t since_ms);

/* Returns how many waiters are before that of the token; -1: it does not wait. */
int64_t rows_ahead(const struct rows *rows);

/* Add a copy of length bytes, unless it is not a valid name. */
void name_list_add(struct name_list *list, const char *name, size_t length);
/* Sort the names, and remove those that are there twice. */
void name_list_sort(struct name_list *list);
void name_list_finish(struct name_list *list);

/* The result of acquire() and renew(), beside the outcome. The caller zeroes it; hold_fd is -1. */
struct grant {
	/* After HELD: */
	/*
	 * CLOCK_BOOTTIME before the request left: the lease's start. The caller sets it to the time
	 * of the call; a backend that has waited or connected before it sent sets a later one.
	 */
	int64_t sent_ms;
	int64_t ttl_ms;		/* granted; 0: as asked, or with `session` no lease at all */
	uint64_t fence;		/* acquire(): > 0. renew(): set if it is known */
	int64_t event_ms;	/* CLOCK_BOOTTIME: call event() then, input or not; 0: no need */
	/*
	 * acquire(): the descriptor that the hold lives with: a connection that is a session, or a
	 * file that is locked. The lock is free when the last copy is closed. The processes that
	 * watch the command keep copies, so that the death of the keeper does not let the next
	 * holder in while the command runs. The backend closes its own copy after the hold. -1:
	 * none.
	 */
	int hold_fd;
	/* After BUSY, and ignored after all else: */
	int64_t retry_ms;	/* CLOCK_BOOTTIME of the next acquire(); see hold_retry_at() */
	int64_t poll_ms;	/* how often it checks, because no release wakes it; 0: one does */
};

/* Abilities beyond exclusive holds. The engine refuses all others before connecting. */
enum backend_can {
	BACKEND_SHARED = 1,
	BACKEND_SLOTS = 2,
};

struct backend {
	/*
	 * open() may set it to the table for the kind of lock that the URI asks for. The engine
	 * then uses that table, in which open is NULL.
	 */
	const struct backend_ops *ops;
	/* Set by open(): */
	unsigned int can;	/* of enum backend_can */
	/*
	 * The locks live with a connection or a descriptor, so that a process has to stay to hold
	 * one. Only the process that acquired can renew() and release(); keep_ms is always 0.
	 */
	bool session;
	/* Set by acquire(): the session timeout that the server granted; 0: there is none. */
	int64_t session_ms;
	/*
	 * Set by release(): its first reply was lost, and its request sent twice. hold_release()
	 * clears it before the call, and release() after other requests that it has sent first.
	 */
	bool resent;
	/*
	 * Set by any function that has read a wake-up of fd() together with an answer, so that fd()
	 * is not readable any more. The caller checks it before it sleeps in fd(), and then calls
	 * event(), which clears it. So show() between acquire() and the sleep loses no wake-up.
	 */
	bool woken;
	/* Set by the caller: */
	int cancel_fd;		/* when readable, acquire() ends with ERROR_CANCELLED; -1: none */
	int64_t timeout_ms;		/* bound of one request */
	int64_t connect_timeout_ms;	/* bound of a connection, name resolution not included */
};

typedef enum outcome backend_grant_fn(struct backend *backend, const struct request *request,
				      struct grant *grant, struct error *err);
typedef enum outcome backend_release_fn(struct backend *backend, const struct request *request,
					struct error *err);
typedef int backend_show_fn(struct backend *backend, const struct request *request,
			    struct rows *rows, struct error *err);
typedef enum outcome backend_break_fn(struct backend *backend, const char *name,
				      const struct row *row, struct error *err);

/*
 * Every slot but connect, fd, event, setup and check is filled. Functions that return int return 0,
 * or -1 and set *err. Functions that return an outcome set *err for ERROR, and may set it for LOST.
 * After an error the same call may be made again; it connects again where the connection was lost.
 */
struct backend_ops {
	/*
	 * Make an object for uri. Returns NULL and sets *err if a parameter, host or path is wrong.
	 * Talks to no server. The object may keep pointers into uri.
	 */
	struct backend *(*open)(const struct uri *uri, struct error *err);

	/* Free the object and close its connections. Releases no lock. */
	void (*close)(struct backend *backend);

	/*
	 * Reach the server for the first acquire() of this request: look up its name, connect, log
	 * in. Leaves no row, so that the process may be killed in it. acquire() connects if
	 * this was not called. NULL: there is no server.
	 */
	int (*connect)(struct backend *backend, const struct request *request, struct error *err);

	/*
	 * Try once, in one atomic step, to make a row that holds. HELD: the row is there. BUSY: the
	 * modes of the rows that hold exclude this one, or a waiter of dlock came before. With
	 * request->queue, a row that waits is then there, and keeps its position through lost
	 * connections; without, no row is left. ERROR: it is not known whether a row is
	 * left; call release(). --slots that differ from those of the rows that hold are an ERROR:
	 * hold_mode_slots_agree(). Never LOST.
	 *
	 * A waiter must not poll: the backend arranges that fd() becomes readable when the waiter
	 * may try again. retry_ms is for what no event announces.
	 *
	 * A local backend (backends/registry.h) sleeps here when request->queue is set, until it
	 * holds or a signal is caught (BUSY). With BUSY and *err nobody holds the lock, but *err
	 * keeps all from acquiring it: a waiter goes on, and others end with *err.
	 */
	backend_grant_fn *acquire;

	/*
	 * Set the end of the lease to ttl_ms from now, and the holder record to text (NULL: leave
	 * it), if a row of this token holds. Never makes a row. LOST: there is no such row. Another
	 * record wakes the first waiter, because the lease may now end before the time it knows.
	 */
	backend_grant_fn *renew;

	/*
	 * Remove the row of this token, holding or waiting, and wake the waiter that is now first.
	 * With keep_ms > 0 the row of a hold stays instead, with text as its record, and expires
	 * after that time. HELD: a row held; ERROR_REFUSED in *err is then a warning, because the
	 * lock stays taken. LOST: none did, though one that waited may have been removed. With
	 * BACKEND_SHARED or SLOTS, wake every waiter that may now hold.
	 */
	backend_release_fn *release;

	/*
	 * List the rows of request->name, or with NULL the names of all locks that have rows. Rows
	 * whose lease has ended are left out. request->token says which row is `mine`. Another
	 * program's hold is a row, too. Changes nothing on the server.
	 */
	backend_show_fn *show;

	/*
	 * The descriptor to poll for input while waiting or holding; -1: none. Owned by backend.
	 * NULL, and event NULL, if there is never one.
	 */
	int (*fd)(struct backend *backend);

	/*
	 * Read the input, and clear `woken`. Returns when to call acquire() (waiting) or renew()
	 * (holding), in ms of CLOCK_BOOTTIME: 0 for at once, as after `woken` or a lost connection;
	 * CLOCK_NEVER for no change.
	 */
	int64_t (*event)(struct backend *backend);

	/*
	 * Make what locks need: a directory, tables. With plan, instead set *plan to a text that
	 * an administrator can read or run, which also names the permissions that an account needs;
	 * the caller frees it; "" for nothing to do. Does not connect then. NULL: there is never
	 * anything to make.
	 */
	int (*setup)(struct backend *backend, char **plan, struct error *err);

	/*
	 * Add findings about the fitness of the backend to *findings (findings.h). NULL: none
	 * beyond the acquisition that `dlock check` tries itself.
	 */
	int (*check)(struct backend *backend, struct findings *findings, struct error *err);

	/*
	 * Remove a row that show() has listed as one that holds, and wake the next waiter. HELD: it
	 * was there. LOST: it is not there any more. Its holder finds out at its next renew().
	 */
	backend_break_fn *break_hold;
};

/* Exported by the module of a backend as dlock_module. */
struct backend_module {
	struct module module;
	const struct backend_ops *ops;
};
