/* SPDX-License-Identifier: MIT */
/*
 * What a command asks of a run or an acquisition, and what it is told: request, messages, state of
 * the wait, facts, result, and the hooks by which the engine calls the command back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/holder.h"
#include "lock/token.h"
#include "backends/registry.h"

struct pidfd;

enum level {
	LEVEL_STEP,		/* for -v */
	LEVEL_WARNING,		/* a fault; the run goes on */
	LEVEL_ERROR,		/* a fault that changes the outcome */
};

/* The subject of a message: a word of --log json, which dlock-output(5) explains. */
#define EVENT_OTHER "other"
#define EVENT_WAITING "waiting"		/* another has the lock; sent when the holder changes */
#define EVENT_UNREACHABLE "unreachable"	/* the server cannot be reached while dlock waits */
#define EVENT_REACHABLE "reachable"	/* the server can be reached again */
#define EVENT_ACQUIRED "acquired"
#define EVENT_JOINED "joined"		/* an outer hold has the lock already */
#define EVENT_UNPROTECTED "unprotected"	/* the command runs without the lock: --if-down run */
#define EVENT_STARTED "started"		/* the command is about to be executed */
#define EVENT_ENDED "ended"		/* the command has ended */
#define EVENT_OVERDUE "overdue"		/* --max-run or --until ends the command */
#define EVENT_LEFTOVERS "leftovers"	/* the command has left processes behind */
#define EVENT_NOT_RENEWED "not-renewed"
#define EVENT_RENEWED "renewed"		/* after a renewal that failed */
#define EVENT_LOST "lost"
#define EVENT_RELEASED "released"
#define EVENT_NOT_RELEASED "not-released"
#define EVENT_NOT_OBTAINED "not-obtained"
#define EVENT_FAILED "failed"		/* dlock ends for this reason */

/* The facts of a run. Times are on CLOCK_BOOTTIME; 0: this has not happened. */
struct run_facts {
	int64_t began_ms;	/* dlock began to try */
	int64_t acquired_ms;	/* the lock was acquired, or an outer hold was joined */
	int64_t over_ms;	/* the lock was released, or its loss was handled */
	uint64_t fence;		/* 0: there is none */
	pid_t command;		/* 0: not executed, as far as is known */
	bool has_status;
	int status;		/* the wait status of the command */
};

/* The state of a wait. Times are on CLOCK_BOOTTIME. */
struct wait_state {
	int64_t began_ms;
	bool holder_known;	/* the backend has named the holder, if only as "somebody" */
	struct holder holder;
	int64_t since_ms;	/* when the hold began; 0: unknown */
	int64_t ahead;		/* number of waiters before this one; -1: unknown */
	int64_t poll_ms;	/* how often it checks, because no release wakes it; 0: one does */
	int64_t down_since_ms;	/* the backend cannot be reached; 0: it can */
};

struct run_message {
	enum level level;
	const char *event;
	bool nameless;			/* the name of the lock does not belong before the text */
	const char *text;
	const struct run_facts *facts;	/* NULL: there is no run */
	const struct wait_state *wait;	/* its holder is reported; NULL: none is */
};

/* How long something has lasted that began at since_ms; -1: that is 0, not known. */
static inline int64_t run_elapsed(int64_t since_ms)
{
	return since_ms ? clock_boot_ms() - since_ms : -1;
}

/* Set the holder, the time of its hold, and the number of waiters ahead to what view has. */
static inline void run_view(struct wait_state *state, const struct rows *view)
{
	const struct row *hold = view->holds;

	state->ahead = rows_ahead(view);
	state->holder_known = view->hold_count > 0;
	if (!state->holder_known)
		return;
	state->holder = hold->holder;
	state->since_ms = hold->age_ms < 0 ? 0 : clock_boot_ms() - hold->age_ms;
}

/* The caller prints: the engine calls these hooks. */
struct run_hooks {
	void (*report)(const struct run_message *message);
	/*
	 * Called while waiting, at each change and every tick_ms; with NULL when the wait is over.
	 */
	void (*waiting)(const struct wait_state *state);
	int64_t tick_ms;	/* CLOCK_NEVER: only at changes */
	enum level least;	/* messages below this level are not reported */
};

/*
 * What to do when the backend is down (ERROR_UNAVAILABLE) and has not answered yet. A waiter that
 * had an answer goes on waiting; with RUN, it runs the command after one TTL or PATIENCE_MS.
 */
enum if_down {
	IF_DOWN_FAIL,
	IF_DOWN_RUN,		/* the command, without the lock */
	IF_DOWN_WAIT,		/* try again until the wait ends */
};

/*
 * After the limit of the wait: until when a request may take, until when the supervisor waits for
 * its result if the backend has not answered yet, and for how long the keeper cleans up then.
 */
#define LATE_REQUEST_MS 50
#define LATE_RESULT_MS 100
#define LATE_CLEANUP_MS 300

/* What happens to the processes that the command leaves running when it ends. */
enum leftovers {
	LEFTOVERS_KILL,		/* they are ended */
	LEFTOVERS_WAIT,		/* the lock is kept until they end */
	LEFTOVERS_LEAVE,	/* they go on, and the lock is released */
};

struct run_request {
	const struct backend_driver *driver;
	const struct uri *uri;
	const char *uri_text;		/* for DLOCK_BACKEND: a URI, or a name for one */
	const char *name;
	const char *note;		/* shown to others; NULL: none */
	const char *command;		/* of the holder, for status */
	char *const *argv;		/* NULL: an acquisition */
	const struct pidfd *process;	/* acquire while it lives; NULL: for one lease */
	enum hold_mode mode;
	int slots;
	int64_t ttl_ms;
	int64_t asked_ttl_ms;		/* by -t; 0: an outer hold keeps its own TTL */
	int64_t wait_ms;		/* CLOCK_NEVER: no limit; 0: do not wait */
	int64_t kill_after_ms;
	int64_t min_hold_ms;
	int64_t once_ms;		/* --once-per; 0: none, and with it min_hold_ms is 0 */
	int64_t max_run_ms;		/* limit of the command's time; 0: none */
	int64_t until_ms;		/* the command must end then, wall clock; 0: no limit */
	bool no_renew;
	bool closes;			/* the command inherits no descriptor of the lock */
	bool contain;			/* the command runs in a PID namespace of its own */
	bool kill_on_lost;		/* the command, or by TERM the process */
	const char *on_lost_run;	/* for sh -c, when the lock was lost; NULL: none */
	unsigned char if_down;		/* enum if_down */
	unsigned char leftovers;	/* enum leftovers */
};

enum run_end {
	RUN_EXITED,		/* status: the wait status of the command */
	RUN_EXEC_FAILED,	/* error.errnum; the lock was released */
	RUN_NOT_OBTAINED,	/* wait, done */
	RUN_LOST,		/* error: how, unless it was reported already */
	RUN_OVERDUE,		/* max_run_ms or until_ms has ended the command, as reported */
	RUN_FAILED,		/* error: no command was run */
	RUN_INTERRUPTED,	/* status: the signal, before a command was run */
};

struct run_result {
	enum run_end end;
	int status;
	bool from_terminal;	/* RUN_EXITED by a signal typed at our terminal */
	struct wait_state wait;
	bool done;		/* wait.holder has done this run's work: --once-per */
	struct run_facts facts;
	struct error error;
};

struct acquire_result {
	struct run_result run;	/* RUN_EXITED: acquired */
	char token[TOKEN_TEXT_SIZE];	/* with its level */
	bool nested;		/* inside an outer hold: there is nothing to release */
	int64_t lease_ms;	/* from now; 0: until released */
	pid_t keeper;		/* the daemon; 0: none */
};
