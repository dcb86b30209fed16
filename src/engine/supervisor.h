/* SPDX-License-Identifier: MIT */
/*
 * The supervisor's state, and the functions that its files share. A run, from its start to its end:
 *
 *	supervise_run()			run.c
 *	  supervisor_init()		shared memory, request: supervisor.c
 *	  obtain_joined()		joins an outer hold: obtain.c
 *	  obtain_lock()			or waits for the lock: obtain.c
 *	  run_command()			until the command's tree is dead
 *	  supervisor_release()		release.c
 *	  run_on_lost()			after a loss, with --on-lost-run
 *
 * supervise_acquire() in acquire.c acquires the lock, and leaves a daemon or no process behind.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/tree.h"
#include "lock/token.h"
#include "guard.h"
#include "job.h"
#include "keeper.h"

/*
 * The time for the keeper's last event after a signal. Further signals do not shorten it, because
 * timeout(1) sends two, and a lock that is not released is held for a TTL.
 */
#define INTERRUPTED_GRACE_MS 1000

struct supervisor {
	struct job job;
	struct run_result *result;
	char token[TOKEN_SIZE];
	int level;			/* of a nested run's token; 0: it is plain */
	char text[HOLDER_TEXT_SIZE];	/* job.self, encoded, for the request */
	int64_t check_ms;		/* when to verify a local lock; 0: now */
	struct keeper keeper;
	struct child guard;
	int64_t continued_ms;		/* when the command was last continued after a stop */
	int64_t continue_ms;		/* when to continue it; CLOCK_NEVER */
	struct tree_excluded excluded;	/* children from before this program */
	bool knows_excluded;
	bool without_proc;		/* supervisor_check_proc() has warned */
	bool stuck_reported;		/* a process cannot be signalled */

	bool protected;			/* the lock is, or was, held */
	int64_t started_ms;
	/* How long after job.limit_ms the wait ends; 0: the backend has said that it is taken. */
	int64_t late_ms;
	struct error down;		/* why the backend cannot be used; kind NONE: not known */
	bool awaits_leftovers;		/* the command has ended; its leftovers keep the lock */
	bool ended;			/* the command's whole tree is dead */
	bool lost;
	char lost_reason[sizeof(((struct error *)0)->message)];
	bool overdue;			/* the command was stopped by its limit of time */
	struct keeper_event last_word;	/* the keeper's last event, once it has come */
	int64_t force_ms;		/* after the begin of a stop: when to kill the guard */
	int64_t timeout_ms;		/* of the keeper's requests */
	int64_t ended_ms;		/* when the tree was dead */
	struct lease_span last_lease;	/* at ended_ms */
};

enum acquired { ACQUIRED_NO, ACQUIRED_YES, ACQUIRED_NOT_YET };

/* Pass a message to the caller's hook. */
void supervisor_report(const struct supervisor *s, const char *event, enum level level,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Pass a message that is none of the events. */
#define supervisor_log(s, level, ...) supervisor_report(s, EVENT_OTHER, level, __VA_ARGS__)

/* Report the loss of the lock and how it was lost, and begin to stop the command. */
void supervisor_lose(struct supervisor *s, const char *how);

/* As supervisor_lose(), when the lease has ended, or is about to with --no-renew. */
void supervisor_expire(struct supervisor *s);

/* Report once that --max-run or --until is over, and begin to stop the command. */
void supervisor_overdue(struct supervisor *s, bool max_run);

/*
 * Can /proc be used? Otherwise only processes of the command's group are found; warn of this once.
 * With --contain it is not needed. Call this only when a tree is ended, because it takes 0.1 ms.
 */
bool supervisor_check_proc(struct supervisor *s);

/* Limit the time that the guard has to stop the command; then this process ends it. */
void supervisor_begin_stop(struct supervisor *s);

/* Return when the supervisor waits no longer for the keeper's last event (CLOCK_BOOTTIME). */
int64_t supervisor_patience_end(const struct supervisor *s);

/*
 * Wait for the keeper's last event, until until_ms at the latest, and after a signal that ends
 * dlock for INTERRUPTED_GRACE_MS. False: it did not come, because the keeper is dead or too slow.
 */
bool supervisor_await_last(struct supervisor *s, int64_t until_ms, struct keeper_event *event);

/*
 * Poll signals, keeper and guard, until until_ms at the latest. Reaps children, and continues a
 * stopped guard.
 */
void supervisor_sleep(struct supervisor *s, int64_t until_ms);

/* As supervisor_sleep(), but drop signals, and poll neither keeper nor guard. */
void supervisor_pause(struct supervisor *s, int64_t until_ms);

/* Fork the keeper, which is no process of the command. */
int supervisor_start_keeper(struct supervisor *s, enum keeper_mode mode, struct error *err);

/* Fork the guard. */
int supervisor_start_guard(struct supervisor *s, struct error *err);

/* Before the command runs: clean up after a guard that was killed, so that another is started. */
void supervisor_check_guard(struct supervisor *s);

/* Fill the result with an error. Returns NO, or YES with --if-down run: run without the lock. */
enum acquired supervisor_fail(struct supervisor *s, const struct error *err);

/* Read signals. True: one ends the wait, and the result is filled. */
bool supervisor_interrupted(struct supervisor *s);

/* Fill *s with the request, and make what the processes share. */
int supervisor_init(struct supervisor *s, const struct run_request *run,
		    const struct run_hooks *hooks, const struct signals *signals,
		    struct run_result *result, struct error *err);
