/* SPDX-License-Identifier: MIT */
/*
 * A run or an acquisition: what it is asked for, what it tells meanwhile, and what came of it. The
 * process that calls it becomes the supervisor, which README.md shows from its start to its end.
 *
 * Calling sequence, in a command: signals_init(), then supervise_run() or supervise_acquire(), once
 * in a process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "lock/holder.h"
#include "lock/token.h"
#include "backends/registry.h"

struct pidfd;
struct signals;

enum level {
	LEVEL_STEP,		/* for -v */
	LEVEL_WARNING,		/* something is wrong; goes on */
	LEVEL_ERROR,		/* something is wrong that changes the outcome */
};

/* What a message is about. */
enum run_event {
	EVENT_OTHER,		/* none of these */
	EVENT_WAITING,		/* somebody else has the lock; said when that somebody changes */
	EVENT_UNREACHABLE,	/* while waiting the server cannot be reached, */
	EVENT_REACHABLE,	/* and can be reached again */
	EVENT_ACQUIRED,
	EVENT_JOINED,		/* an outer hold has the lock already */
	EVENT_UNPROTECTED,	/* the command runs without the lock: --if-down run */
	EVENT_STARTED,		/* the command was executed */
	EVENT_ENDED,		/* the command has ended */
	EVENT_OVERDUE,		/* --max-run or --until ends the command */
	EVENT_LEFTOVERS,	/* the command has left processes behind */
	EVENT_NOT_RENEWED,
	EVENT_RENEWED,		/* after a renewal that failed */
	EVENT_LOST,
	EVENT_RELEASED,
	EVENT_NOT_RELEASED,
	EVENT_NOT_OBTAINED,
	EVENT_REPLACED,		/* not acquired either: a newer waiter has sent this one away */
	EVENT_FAILED,		/* dlock ends for this reason */
	RUN_EVENTS,
};

/* What is known of a run. Instants are on CLOCK_BOOTTIME; 0: this has not happened. */
struct run_facts {
	int64_t began_ms;	/* dlock began to try */
	int64_t acquired_ms;	/* the lock was acquired, or an outer hold was joined */
	int64_t over_ms;	/* the lock was given back, or its loss was dealt with */
	uint64_t fence;		/* 0: there is none */
	pid_t command;		/* 0: it was not executed, as far as is known */
	bool has_status;
	int status;		/* the wait status of the command */
};

struct run_message {
	enum level level;
	enum run_event event;
	const char *text;
	const struct run_facts *facts;
};

/* What is known while waiting. */
struct wait_state {
	int64_t elapsed_ms;
	int64_t ahead;		/* waiters before us; -1: not known */
	int64_t age_ms;		/* how long the holder has held it; -1: not known */
	const struct holder *holder;
	int64_t down_ms;	/* for how long the backend cannot be reached; 0: it can */
};

/* How the caller hears of things; the engine itself prints nothing. */
struct run_hooks {
	void (*report)(const struct run_message *message);
	/*
	 * Called while waiting, at each change and every tick_ms; with NULL when the wait is over.
	 */
	void (*waiting)(const struct wait_state *state);
	int64_t tick_ms;	/* CLOCK_NEVER: only at changes */
	enum level least;		/* messages below this level are not wanted */
};

struct run_request {
	const struct backend_driver *driver;
	const struct uri *uri;
	const char *uri_text;		/* for DLOCK_BACKEND: a URI, or a name for one */
	const char *name;
	const char *note;		/* shown to others; NULL: none */
	bool replaces;			/* --replace-waiters */
	char *const *argv;
	enum hold_mode mode;
	int slots;
	int64_t ttl_ms;
	int64_t wait_ms;		/* CLOCK_NEVER: no limit; 0: do not wait */
	int64_t kill_after_ms;
	int64_t min_hold_ms;
	int64_t max_run_ms;		/* the command may run for so long; 0: no limit */
	int64_t until_ms;		/* it may run until then, wall clock; 0: no limit */
	bool no_renew;
	bool closes;			/* the command inherits no descriptor of the lock */
	bool contain;			/* the command runs in a PID namespace of its own */
	bool kill_on_lost;
	const char *on_lost_run;	/* for sh -c, when the lock was lost; NULL: nothing */
	bool wait_for_leftovers;	/* keep the lock until what the command has left ends */
	bool run_if_down;
};

enum run_end {
	RUN_EXITED,		/* status: the wait status of the command */
	RUN_EXEC_FAILED,	/* error.errnum; the lock was released */
	RUN_NOT_OBTAINED,	/* holder, age_ms, replaced */
	RUN_LOST,		/* error says how, unless it was said already */
	RUN_OVERDUE,		/* max_run_ms or until_ms has ended the command; it was said */
	RUN_FAILED,		/* error: no command was run */
	RUN_INTERRUPTED,	/* status: the signal, before a command was run */
};

struct run_result {
	enum run_end end;
	int status;
	bool from_terminal;	/* RUN_EXITED by a signal typed at our terminal */
	int64_t down_ms;	/* RUN_NOT_OBTAINED: as in struct wait_state */
	bool holder_known;	/* the backend said who has it, if only "somebody" */
	struct holder holder;
	int64_t age_ms;
	bool replaced;		/* holder is a newer waiter, which has sent this one away */
	struct run_facts facts;
	struct error error;
};

/* Acquiring without a command; argv of the run_request is NULL. */
struct acquire_request {
	struct run_request run;
	const char *command;	/* what status shows as the holder's command */
	const struct pidfd *process;	/* hold and renew while it lives; NULL: one lease */
	bool term_on_lost;	/* TERM to that process when the lock is lost */
	int64_t nested_ttl_ms;	/* for a hold that is there already; 0: it keeps its own */
};

struct acquire_result {
	struct run_result run;	/* RUN_EXITED: acquired */
	char token[TOKEN_TEXT_SIZE];	/* with its level */
	bool nested;		/* the hold was there already: nothing is to be released */
	uint64_t fence;		/* 0: not known */
	int64_t lease_ms;	/* from now; 0: until released */
	pid_t keeper;		/* 0: none was left behind */
};

/*
 * Returns when nothing is left: the command's tree is dead, the lock released, keeper and guard
 * gone. Inside a hold of the same lock, it runs the command under that.
 */
void supervise_run(const struct run_request *run, const struct run_hooks *hooks,
		   const struct signals *signals, struct run_result *result);

/*
 * Acquires, or acquires inside a hold that the environment tells of, which stays as it is.
 * A keeper stays behind as a daemon if there is a process to hold for, or the
 * backend's locks need one.
 */
void supervise_acquire(const struct acquire_request *acquire, const struct run_hooks *hooks,
		       const struct signals *signals, struct acquire_result *result);
