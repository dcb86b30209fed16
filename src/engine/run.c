/* SPDX-License-Identifier: MIT */
/* One run: acquire the lock, run the command, release the lock. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/ipc.h"
#include "base/signals.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "environment.h"
#include "supervisor.h"

/* ---- --on-lost-run: a shell command that runs at the end ---- */

/* The limit of the shell's time. */
#define ON_LOST_MS 30000

static void __attribute__((noreturn)) shell_main(const struct supervisor *s)
{
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setenv("DLOCK_REASON", s->lost_reason, 1);
	environment_write_fence(s->fence);
	/* A dlock in the shell must not join the hold that was lost. */
	unsetenv("DLOCK_TOKEN");
	/* The shell's children are killed with it. */
	setpgid(0, 0);
	/* In the background, reading from the terminal would stop the shell. */
	dup2(nothing, STDIN_FILENO);
	signals_restore(s->signals);
	execl("/bin/sh", "sh", "-c", s->run->on_lost_run, (char *)NULL);
	_exit(127);
}

/* Run the command of --on-lost-run, after the loss and the end of all other processes. */
static void run_on_lost(const struct supervisor *s)
{
	const int64_t until_ms = clock_boot_ms() + ON_LOST_MS;
	struct pollfd signal_fd = { .fd = s->signals->fd, .events = POLLIN };
	int status = 0, sig = 0;
	pid_t shell;

	supervisor_log(s, LEVEL_STEP, "running the command of --on-lost-run");
	shell = fork();
	if (shell == 0)
		shell_main(s);
	if (shell < 0)
		supervisor_log(s, LEVEL_ERROR, "--on-lost-run: cannot start a process: %s",
			       strerror(errno));
	while (shell > 0 && sig != SIGKILL && waitpid(shell, &status, WNOHANG) == 0) {
		poll(&signal_fd, 1, clock_poll_timeout(until_ms));
		sig = clock_boot_ms() < until_ms ? signals_next(s->signals, NULL) : SIGKILL;
		if (sig && signals_fatal(s->signals, sig))
			kill(-shell, sig);
	}
	if (sig == SIGKILL)
		supervisor_log(s, LEVEL_WARNING, "the command of --on-lost-run has run for %d s "
			       "and is killed", ON_LOST_MS / 1000);
	else if (status)
		supervisor_log(s, LEVEL_WARNING, WIFSIGNALED(status)
			       ? "the command of --on-lost-run died of signal %d"
			       : "the command of --on-lost-run ended with status %d",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* ---- the release ---- */

/* Does the success of --once-per retain the lock? */
static bool is_done(const struct supervisor *s)
{
	return s->run->once_ms && shared_keep_ms(s->shared, s->run) > 0;
}

/* The option that retains the lock. */
static const char *keeping_option(const struct supervisor *s)
{
	return s->run->once_ms ? "--once-per" : "--min-hold";
}

static void report_released(struct supervisor *s)
{
	const int64_t keep_ms = shared_keep_ms(s->shared, s->run);
	char text[DURATION_TEXT_SIZE];

	if (keep_ms > 0)
		supervisor_report(s, EVENT_RELEASED, LEVEL_STEP,
				  "released; %s keeps the lock for %s more", keeping_option(s),
				  duration_format(keep_ms, text, sizeof(text)));
	else
		supervisor_report(s, EVENT_RELEASED, LEVEL_STEP, "released");
}

/*
 * Handle the keeper's last event: was the lock held until the command was dead? maybe_released: an
 * earlier keeper was ordered to release, and was killed.
 */
static void handle_released(struct supervisor *s, const struct keeper_event *event,
			    bool maybe_released)
{
	int64_t left_ms = s->last_lease.end_ms - clock_boot_ms();
	bool in_lease = s->ended_ms < s->last_lease.end_ms;
	char text[DURATION_TEXT_SIZE];

	if (event->type == KEEPER_RELEASED) {
		if (!s->joined)
			report_released(s);
		return;
	}
	if (event->type == KEEPER_LOST && !(maybe_released && in_lease)) {
		supervisor_lose(s, event->error.message);
		return;
	}
	/* An outer hold is not this run's to release. */
	if (event->type == KEEPER_LOST || s->lost || (s->joined && in_lease))
		return;
	/* Unknown; but a command that ended within the lease was protected. */
	if (!in_lease)
		supervisor_lose(s, event->error.message);
	else if (s->last_lease.end_ms == CLOCK_NEVER)
		/* A lock without a lease is free when this process ends. */
		supervisor_report(s, EVENT_NOT_RELEASED, LEVEL_WARNING,
				  "the lock is not kept for %s: %s", keeping_option(s),
				  event->error.message);
	else
		supervisor_report(s, EVENT_NOT_RELEASED, LEVEL_WARNING,
				  "could not %s: %s; the lock lapses within %s", is_done(s)
				  ? "store the success of --once-per" : "release the lock",
				  event->error.message,
				  duration_format(left_ms, text, sizeof(text)));
}

/* Wait for the keeper's last event. False: the keeper is dead without one. */
static bool await_release(struct supervisor *s, bool maybe_released)
{
	int64_t until_ms = clock_boot_ms() + 2 * s->timeout_ms + KEEPER_GRACE_MS;
	struct keeper_event event;

	if (s->last_word.last) {
		handle_released(s, &s->last_word, maybe_released);
		return true;
	}
	/* The keeper tries until then. */
	if (is_done(s) && s->last_lease.end_ms != CLOCK_NEVER)
		until_ms += s->last_lease.end_ms - clock_boot_ms();
	/* After the end of a lost lease there is nothing to release. */
	if (s->lost)
		until_ms = clock_earlier(until_ms, s->last_lease.end_ms);
	if (supervisor_await_last(s, until_ms, &event)) {
		handle_released(s, &event, maybe_released);
		return true;
	}
	if (!s->keeper.child.pid)
		return false;
	event = (struct keeper_event){ .type = KEEPER_FAILED };
	error_set(&event.error, ERROR_UNAVAILABLE, 0, "no answer in time");
	handle_released(s, &event, maybe_released);
	return true;
}

/* Leave a process behind that retains the lock. */
static void keep_local(struct supervisor *s)
{
	struct keeper_event event = { .type = KEEPER_FAILED };

	if (keeper_start(s, KEEPER_KEEP, &event.error))
		handle_released(s, &event, false);
	else
		await_release(s, false);
}

static void release_local(struct supervisor *s)
{
	struct keeper_event event = { .type = KEEPER_FAILED };

	if (shared_keep_ms(s->shared, s->run) > 0) {
		keep_local(s);
		return;
	}
	event.type = keeper_event_of(hold_release(s->backend, &s->request, &s->self, 0, 0,
						  &event.error));
	/* The outcome HELD of a release: it was held until then. */
	if (event.type == KEEPER_HELD)
		event.type = KEEPER_RELEASED;
	handle_released(s, &event, false);
}

/*
 * Release a lock that lives with the connection of a dead keeper, by closing our copy of it. First
 * another keeper removes the holder record, so that the next holder does not wait for the end of
 * the lease. Its result does not matter.
 */
static void release_connection(struct supervisor *s)
{
	int64_t until_ms = clock_boot_ms() + 2 * s->timeout_ms + KEEPER_GRACE_MS;
	struct keeper_event event = { .type = KEEPER_RELEASED }, ignored;
	struct keeper died = s->keeper;

	if (!keeper_has_hold(&died)) {
		event.type = KEEPER_LOST;
		error_set(&event.error, ERROR_UNAVAILABLE, 0, "the server ended the connection");
	}
	/* After the lease the record does not matter. */
	until_ms = clock_earlier(until_ms, s->last_lease.end_ms);
	if (!keeper_start(s, KEEPER_RELEASE, &ignored.error))
		supervisor_await_last(s, until_ms, &ignored);
	keeper_drop_hold(&died);
	handle_released(s, &event, false);
}

/* Release, and find out whether the lock was held until now. */
static void release_lock(struct supervisor *s)
{
	/* The event that could not be received may be that of a release. */
	bool ordered = s->keeper.child.pid != 0 || ipc_has_failed(NULL);
	struct error err = { 0 };

	/* The guard has woken the keeper already, unless it was killed. */
	if (s->keeper.child.pid)
		keeper_order(&s->keeper, KEEPER_ORDER_RELEASE);
	if ((s->keeper.child.pid || s->last_word.last) && await_release(s, false)) {
		child_end(&s->keeper.child);
		return;
	}
	if (s->joined && s->ended_ms >= s->last_lease.end_ms)
		supervisor_expire(s);
	else if (s->joined)
		return;
	else if (s->run->driver->local)
		release_local(s);
	else if (s->keeper.hold_fd >= 0)
		release_connection(s);
	else if (keeper_start(s, KEEPER_RELEASE, &err))
		supervisor_report(s, EVENT_NOT_RELEASED, LEVEL_WARNING,
				  "could not release the lock: %s", err.message);
	else
		await_release(s, ordered);
	child_end(&s->keeper.child);
}

/* ---- the run ---- */

/* Join an outer hold, or acquire; run the command; release. */
static void run_protected(struct supervisor *s)
{
	struct keeper_event event;
	struct error err = { 0 };
	enum acquired acquired = supervisor_join(s, KEEPER_JOIN, &event);

	if (s->joined) {
		s->protected = true;
		s->result->facts.acquired_ms = clock_boot_ms();
		supervisor_report(s, EVENT_JOINED, LEVEL_STEP,
				  "already held, with the token in DLOCK_TOKEN");
	}
	if (acquired == ACQUIRED_NOT_YET) {
		if (token_make(s->token, s->run->name, s->identity, true, &err))
			acquired = supervisor_fail(s, &err);
		else
			acquired = supervisor_acquire(s);
	}
	if (acquired != ACQUIRED_YES) {
		child_end(&s->guard);
		return;
	}
	supervisor_check_guard(s);
	if (!s->guard.pid && supervisor_start_guard(s, &err)) {
		atomic_store(&s->shared->held_ms, 0);
		supervisor_fail(s, &err);
	} else {
		s->result->end = RUN_EXITED;
		supervisor_run_command(s);
	}
	if (s->protected)
		release_lock(s);
	/* The guard ends without an order, and must be reaped. */
	child_end(&s->guard);
	if (s->lost && s->result->end == RUN_EXITED)
		s->result->end = RUN_LOST;
}

void supervise_run(const struct run_request *run, const struct run_hooks *hooks,
		   const struct signals *signals, struct run_result *result)
{
	struct supervisor s;
	struct error err = { 0 };

	if (supervisor_init(&s, run, hooks, signals, result, run->argv[0], &err)) {
		supervisor_fail(&s, &err);
		return;
	}
	/* This process inherits the tree of a guard that is killed. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		supervisor_log(&s, LEVEL_WARNING,
			       "the kernel does not give orphans to dlock (%s): a daemon that the "
			       "command starts may outlive the lock", strerror(errno));
	/* Children from before the exec of this program do not belong to the command. */
	s.knows_excluded = !tree_exclude_present(&s.excluded);
	if (!s.knows_excluded)
		supervisor_log(&s, LEVEL_WARNING,
			       "cannot tell which processes belong to the command");
	run_protected(&s);
	if (!s.reaped && result->end == RUN_EXITED && ipc_has_failed(&result->error))
		result->end = RUN_FAILED;
	if (s.overdue && result->end == RUN_EXITED)
		result->end = RUN_OVERDUE;
	result->facts.over_ms = clock_boot_ms();
	/* This process may have been stopped before the guard took the offer. */
	if (result->facts.acquired_ms && atomic_load(&s.shared->held_ms))
		result->facts.acquired_ms = atomic_load(&s.shared->held_ms);
	tree_finish(&s.excluded);
	backend_close(s.backend);
	if (s.lost && result->end == RUN_LOST && run->on_lost_run)
		run_on_lost(&s);
}
