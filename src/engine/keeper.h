/* SPDX-License-Identifier: MIT */
/*
 * The keeper: the one process that talks to the backend. It acquires, renews and
 * releases; what comes of it goes to the supervisor as events over a socket, and
 * the lease's end into shared memory. It outlives a supervisor that was killed
 * until the guard has ended the command, then releases.
 */
#ifndef DLOCK_KEEPER_H
#define DLOCK_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "backends/registry.h"
#include "child.h"

struct shared;
struct signals;

enum keeper_mode {
	KEEPER_ACQUIRE,		/* acquire, hold, release */
	KEEPER_RELEASE,		/* release what a keeper that died has held */
	KEEPER_VERIFY,		/* does the token hold? */
	KEEPER_JOIN,		/* renew what the token holds: keeper_join.h */
	KEEPER_ADOPT,		/* a daemon that holds what this process acquired */
};

struct keeper_plan {
	enum keeper_mode mode;
	const struct backend_driver *driver;
	const struct uri *uri;
	const struct request *request;
	const struct signals *signals;
	struct backend *backend;	/* KEEPER_ADOPT: through which it is held, */
	const struct grant *grant;	/* and how */
	const struct pidfd *process;	/* daemon: the one it holds for; NULL: none */
	bool term_on_lost;		/* daemon: TERM to that process on loss */
	bool no_renew;
	bool with_log;			/* send KEEPER_NOTE */
	struct shared *shared;
	int lost_fd;			/* eventfd that wakes the guard on loss */
	int gate_fd;			/* see keeper_word; -1: there is no guard */
	int64_t min_hold_ms;		/* the lock is kept so long after it was acquired */
	int64_t kill_after_ms;		/* should the keeper have to end the command's tree */
	/*
	 * The guard writes one of the words below when the command's tree is dead, so that the
	 * release needs not wait for the supervisor. End of file: supervisor and guard are both
	 * gone, and the keeper itself ends what is left of the tree.
	 */
	int guard_pipe[2];
};

#define KEEPER_TOLD_EMPTY 'e'	/* the command has ended, and nothing is left of it */
#define KEEPER_TOLD_UNUSED 'u'	/* the command could not be executed: no --min-hold for that */

enum keeper_event_type {
	KEEPER_WAITING,		/* holder, age_ms, ahead */
	KEEPER_RETRYING,	/* message: cannot reach the backend, goes on trying */
	KEEPER_HELD,		/* see enum offer. Or, on verify: still held */
	KEEPER_WITHDRAWN,	/* nobody took the offer: see keeper_retry() */
	KEEPER_BUSY,		/* not obtained; holder, age_ms. The keeper ends */
	KEEPER_RENEWED,		/* lease extended after trouble */
	KEEPER_TROUBLE,		/* message: a renewal failed, goes on trying */
	KEEPER_LOST,		/* message: the token is not the holder */
	KEEPER_NOTE,		/* message: a line of the client library's log */
	KEEPER_DETACHED,	/* it is a daemon now, keeper_pid; no event follows */
	KEEPER_RELEASED,	/* held until now. The keeper ends */
	KEEPER_FAILED,		/* kind, message. The keeper ends */
	KEEPER_GONE,		/* the keeper's process is gone */
};

struct keeper_event {
	enum keeper_event_type type;
	bool last;		/* the keeper ends with this one */
	int64_t ahead;
	int64_t age_ms;		/* at at_ms; -1: not known */
	int64_t at_ms;		/* CLOCK_BOOTTIME of the event */
	pid_t keeper_pid;
	struct holder holder;
	struct error error;	/* kind and message */
};

/*
 * What the keeper tells the guard, over a SOCK_SEQPACKET socket and past the supervisor: the lock
 * with this fence is offered. A copy of the hold_fd of struct grant comes with it, unless that is -1.
 */
struct keeper_word {
	uint64_t fence;
};

struct keeper {
	struct child child;	/* events */
	int hold_fd;		/* a copy of the grant's, once held; -1: none */
};

/* Forks the keeper. 0, or -1 with ERROR_INTERNAL. */
int keeper_start(struct keeper *keeper, const struct keeper_plan *plan, struct error *err);

/* Next event; false when there is none. After KEEPER_GONE there is none more. */
bool keeper_event(struct keeper *keeper, struct keeper_event *event);

/* Gives up waiting, or releases; unused: at once, whatever the minimum hold is. */
void keeper_release(const struct keeper *keeper, bool unused);

/* After KEEPER_WITHDRAWN: the supervisor is awake again, get back in line. */
void keeper_retry(const struct keeper *keeper);

/* After the offer was taken: stay, as a daemon (KEEPER_DETACHED). */
void keeper_detach(const struct keeper *keeper);

/*
 * For a keeper that is gone and has left its hold_fd: is the server still at the other
 * end, and silent, so that the lock is held? And closes it, which frees the lock.
 */
bool keeper_has_hold(const struct keeper *keeper);
void keeper_drop_hold(struct keeper *keeper);

/*
 * Ends it with KILL and reaps it: a keeper that has said its last event, or that
 * it helps nobody to wait for. Does nothing when there is none.
 */
void keeper_kill(struct keeper *keeper);

#endif
