/* SPDX-License-Identifier: MIT */
/*
 * The guard: the command's parent, and the subreaper of all that the command
 * starts. It does no I/O but on its sockets, and never blocks in a send, so that nothing can
 * hold it up:
 *
 *	supervisor ──┬── keeper
 *	             └── guard ── COMMAND ── …
 *
 * The guard stands in a process group of its own, so that a signal to dlock's job (a shell's
 * "kill -9 %1") does not take supervisor and guard away together. The command's tree dies
 * whichever of the three is killed. Without the supervisor the guard ends the tree, which it can
 * see whole; without the guard the supervisor, the next subreaper up, inherits and ends it;
 * without both the keeper does (keeper_end.c); without the keeper both enforce the end of the
 * lease. When all are stopped a timer of the kernel's continues the guard in time to end the tree;
 * should that not help, another kills it at the end of the lease (kernel_timer.h), and the command
 * dies with it (PR_SET_PDEATHSIG).
 *
 * Calling sequence, in the supervisor: guard_start(); guard_run(), unless the guard took the
 * lock by itself; then guard_event() whenever the descriptor is readable and guard_flush()
 * whenever it is writable and guard_has_pending(); guard_finish() in the end.
 */
#ifndef DLOCK_GUARD_H
#define DLOCK_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "child.h"

struct error;
struct shared;
struct signals;
struct terminal;

/* What the guard is to run. All of it is copied by the fork. */
struct guard_plan {
	char *const *argv;
	char *const *envp;		/* when the lock is held */
	char *const *bare_envp;		/* when running unprotected */
	char *fence_text;		/* where in envp the fence's digits go */
	const struct signals *signals;
	const struct terminal *terminal;
	struct shared *shared;
	int lost_fd;			/* eventfd: readable once the lock is lost; -1: none */
	int gate_fd;			/* the keeper's words, see keeper_word; -1: none come */
	bool may_start;			/* by such a word alone, without the supervisor's order */
	int keeper_pipe_fd;		/* tells the keeper when the tree is dead; -1: none */
	/*
	 * The hold is that of flock(2) on guard_run()'s descriptor: free it as soon as the tree
	 * is dead, not only when the supervisor has heard of that.
	 */
	bool unlocks;
	bool contain;			/* run the command in a PID namespace: see contain.h */
	int64_t kill_after_ms;
	bool kill_on_lost;		/* false: --on-lost warn */
};

/*
 * While the supervisor does not read, the guard keeps the newest event of each type, and sends
 * them in this order.
 */
enum guard_event_type {
	GUARD_PONG,		/* the answer to guard_ping() */
	GUARD_UNTIMED,		/* value: errno; the kernel refuses timers, see kernel_timer.h */
	GUARD_BLIND,		/* no usable /proc: what leaves the command's group is not found */
	GUARD_STOPPED,		/* value: the signal that stopped the command */
	GUARD_EXPIRING,		/* the lease was not renewed in time: stopping the command */
	GUARD_EXEC_FAILED,	/* value: errno */
	GUARD_NOT_CONTAINED,	/* value: errno; the namespace of --contain cannot be had */
	GUARD_EXITED,		/* value: wait status of the command; last: its tree is dead */
	GUARD_LEFTOVERS,	/* value: how many processes it left behind; ending them */
	GUARD_STUCK,		/* value: pid of a process of user uid that it may not signal */
	GUARD_EMPTY,		/* the tree is dead */
	GUARD_GONE,		/* the guard died; after GUARD_EMPTY nothing else is left */
	GUARD_EVENT_TYPES,
};

struct guard_event {
	enum guard_event_type type;
	int value;
	uid_t uid;
	bool last;		/* nothing is left of the tree */
};

/* What the supervisor wants to tell a guard that does not read for now. */
struct guard_pending {
	uint64_t signals;	/* bit n: signal n + 1 for the command alone */
	uint64_t group_signals;	/* bit n: signal n + 1 for its process group */
	bool stop;
	bool ping;
};

struct guard {
	struct child child;	/* events; end of file when the guard died */
	struct guard_pending pending;
};

/* Forks the guard, which waits for guard_run(). 0, or -1 with ERROR_INTERNAL. */
int guard_start(struct guard *guard, const struct guard_plan *plan, struct error *err);

/*
 * Starts the command; fence 0: unprotected, no lock is held. hold_fd, unless -1, is a
 * descriptor that the guard keeps open until the tree is dead.
 */
void guard_run(const struct guard *guard, uint64_t fence, int hold_fd);

/* Passes sig on to the command, or with group to its process group. Does not wait. */
void guard_signal(struct guard *guard, int sig, bool group);

/* Ends the command and all it started: TERM, then KILL after kill-after. Does not wait. */
void guard_stop(struct guard *guard);

/* Asks for GUARD_PONG. Does not wait. */
void guard_ping(struct guard *guard);

/* Sends what guard_signal(), guard_stop() and guard_ping() could not send at once. */
void guard_flush(struct guard *guard);
bool guard_has_pending(const struct guard *guard);

/* Does it live? Of no use once the command has been started. */
bool guard_is_there(const struct guard *guard);

/* Next event; false when there is none. */
bool guard_event(struct guard *guard, struct guard_event *event);

/* Ends a guard that has no command, or none any more. Accepts one that is not there. */
void guard_finish(struct guard *guard);

#endif
