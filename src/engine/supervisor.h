/* SPDX-License-Identifier: MIT */
/*
 * The supervisor's state, and the functions that its files offer to each other. A run, from its
 * start to its end:
 *
 *	supervise_run()			run.c
 *	  supervisor_init()		shared memory, request: supervisor.c
 *	  supervisor_join()		inside a hold of the same lock: acquiring.c; else
 *	  supervisor_acquire()		waits for the lock: acquiring.c
 *	  supervisor_run_command()	until the command's tree is dead: running.c
 *	  release_lock()			run.c
 *	  run_on_lost()			when the lock was lost, and with --on-lost-run: run.c
 *
 * supervise_acquire() in acquire.c obtains the lock, and then leaves a daemon behind or no process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/terminal.h"
#include "base/tree.h"
#include "lock/token.h"
#include "guard.h"
#include "keeper.h"
#include "shared.h"
#include "run.h"

struct signals;

/* How much longer than the bounds of its requests a keeper may take for its last event. */
#define KEEPER_GRACE_MS 500
/*
 * The time that the keeper gets for it once the user wants dlock to end. Further signals do not
 * shorten this time: timeout(1) sends two, and a lock that is not released is held for a TTL.
 */
#define INTERRUPTED_GRACE_MS 1000

struct supervisor {
	const struct run_request *run;
	const struct run_hooks *hooks;
	const struct signals *signals;
	struct run_result *result;
	struct terminal terminal;
	struct shared *shared;
	int lost_fd;			/* where there is a keeper: see keeper.h */
	int guard_pipe[2];
	uint64_t identity;		/* uri_identity() */
	char token[TOKEN_SIZE];
	int level;			/* of a nested run's token; 0: it is plain */
	struct request request;
	struct holder self;
	char text[HOLDER_TEXT_SIZE];	/* self, encoded, for the request */
	struct backend *backend;	/* local drivers only; they need no keeper */
	struct grant local_grant;	/* theirs */
	const struct pidfd *process;	/* acquire: the one to hold for; NULL: none */
	bool term_on_lost;
	bool check_now;			/* at whether a local lock is still ours */
	struct keeper keeper;
	struct child guard;
	struct guard_plan guard_plan;
	int64_t continued_ms;		/* when the command was continued last, after a stop */
	int64_t continue_ms;		/* when it is to be continued; CLOCK_NEVER */
	struct tree_excluded excluded;	/* children from before this program */
	bool knows_excluded;
	bool without_proc;		/* no usable /proc: only the command's group is found */
	bool stuck_reported;		/* that a process cannot be ended */

	bool protected;			/* the lock is, or was, held */
	bool joined;			/* by somebody else, with a token that we were given */
	uint64_t fence;
	int64_t started_ms;
	int64_t down_since_ms;		/* the backend cannot be reached while waiting; 0: it can */
	bool has_exited;		/* the guard said that the command has ended */
	bool reaped;			/* result->status is valid */
	bool awaits_leftovers;		/* the command has ended; what it has left holds the lock */
	bool ended;			/* the command's whole tree is dead */
	bool lost;
	char lost_reason[sizeof(((struct error *)0)->message)];
	bool overdue;			/* the command was stopped by its limit of time */
	bool failed;			/* the command was stopped: see ipc_has_failed() */
	bool has_last_word;		/* last_word is what the keeper ended with */
	struct keeper_event last_word;
	int64_t force_ms;		/* a stop was begun: kill the guard then */
	int64_t timeout_ms;		/* bound of the keeper's last request */
	int64_t ended_ms;		/* when the tree was dead */
	struct lease_span last_lease;	/* as it was then */
};

enum acquired { ACQUIRED_NO, ACQUIRED_YES, ACQUIRED_NOT_YET };

/* Hands a line to the caller's hook. event: what the line is about. */
void supervisor_report(const struct supervisor *s, enum run_event event, enum level level,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same for a line about nothing that programs would want to tell from others. */
#define supervisor_log(s, level, ...) supervisor_report(s, EVENT_OTHER, level, __VA_ARGS__)

/* Says that the lock is held, after what time, and with which fence. */
void supervisor_report_acquired(const struct supervisor *s);

/* After KEEPER_GONE: *err says how the keeper has ended, or what has failed. Returns -1. */
int supervisor_keeper_died(const struct supervisor *s, struct error *err);

/* Has the keeper leave the queue, or release, and end. Another one does so if it is dead. */
void supervisor_give_up(struct supervisor *s);

/* The lock is lost; how says in what way. Reports this, and begins to stop the command. */
void supervisor_lose(struct supervisor *s, const char *how);

/* The same: the lease has ended, or is about to, as with --no-renew it must. */
void supervisor_expire(struct supervisor *s);

/* The command has run into --max-run or --until, and the guard stops it. Says so once. */
void supervisor_overdue(struct supervisor *s, bool max_run);

/* The guard stops the command: when it takes too long, this process ends the command itself. */
void supervisor_begin_stop(struct supervisor *s);

/*
 * Waits until until_ms at the latest for the event that the keeper ends with. A signal that ends
 * dlock shortens the wait to INTERRUPTED_GRACE_MS. False: it did not come; then there is no keeper
 * any more, or it has not answered in time.
 */
bool supervisor_await_last(struct supervisor *s, int64_t until_ms, struct keeper_event *event);

/*
 * Polls all that can happen, until until_ms at the latest. Reaps children, and continues a guard
 * that was stopped.
 */
void supervisor_sleep(struct supervisor *s, int64_t until_ms);

/* The same, for a caller that reads neither the keeper's events nor the guard's, nor signals. */
void supervisor_pause(struct supervisor *s, int64_t until_ms);

/* Forks the keeper or the guard. 0, or -1 with *err. */
int supervisor_start_keeper(struct supervisor *s, enum keeper_mode mode,
			    struct error *err);
int supervisor_start_guard(struct supervisor *s, struct error *err);

/* Before the command runs: forgets a guard that was killed, so that another one is started. */
void supervisor_check_guard(struct supervisor *s);

/* The descriptor that the hold lives with, here or in the keeper; -1: none. */
int supervisor_hold_fd(const struct supervisor *s);

/* No lock for this reason: fills the result; YES if the command runs all the same. */
enum acquired supervisor_fail(struct supervisor *s, const struct error *err);

/* Reads signals; true when one came that ends a wait: the result is filled. */
bool supervisor_interrupted(struct supervisor *s);

/* Acquires: YES with s->protected, or NO with the result filled. */
enum acquired supervisor_acquire(struct supervisor *s);

/* Runs the command until its whole tree is dead. The guard must be there. */
void supervisor_run_command(struct supervisor *s);

/* Fills *s for either purpose: shared memory, request. 0 or -1 with *err. */
int supervisor_init(struct supervisor *s, const struct run_request *run,
		    const struct run_hooks *hooks, const struct signals *signals,
		    struct run_result *result, const char *command, struct error *err);

/*
 * Sets s->terminal and s->guard_plan; bare_envp: for a command that runs without our own hold.
 */
void supervisor_plan_guard(struct supervisor *s, char **bare_envp);

/*
 * Finds the hold that the environment has a token of, and has a keeper join it (KEEPER_JOIN) or
 * renew it once (KEEPER_NEST): YES, with s->joined and *event. YES without that: the hold cannot be
 * asked for, and the command runs without the lock (--if-down run). NOT_YET: there is no such hold,
 * and the caller acquires.
 */
enum acquired supervisor_join(struct supervisor *s, enum keeper_mode mode,
			      struct keeper_event *event);
