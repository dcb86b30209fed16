/* SPDX-License-Identifier: MIT */
/* Releases the lock of a run, or reports that it was lost. */
#include "release.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/signals.h"
#include "lock/hold.h"
#include "environment.h"

/* Does the success of --once-per retain the lock? */
static bool is_done(const struct supervisor *s)
{
	return s->job.run->once_ms && shared_keep_ms(s->job.shared, s->job.run) > 0;
}

/* The option that retains the lock. */
static const char *keeping_option(const struct supervisor *s)
{
	return s->job.run->once_ms ? "--once-per" : "--min-hold";
}

static void report_released(struct supervisor *s)
{
	const int64_t keep_ms = shared_keep_ms(s->job.shared, s->job.run);
	const int64_t ran_ms = s->ended_ms - atomic_load(&s->job.shared->held_ms);
	char text[DURATION_TEXT_SIZE];

	if (keep_ms > 0)
		supervisor_report(s, EVENT_RELEASED, LEVEL_STEP,
				  "released; %s%s keeps the lock for %s more", is_done(s) &&
				  ran_ms > s->job.run->once_ms
				  ? "the command took longer than the time of --once-per; " : "",
				  keeping_option(s), duration_format(keep_ms, text, sizeof(text)));
	else
		supervisor_report(s, EVENT_RELEASED, LEVEL_STEP, "released");
}

/* Handle the result of the release: was the lock held until the command was dead? */
static void handle_released(struct supervisor *s, const struct keeper_event *event)
{
	int64_t left_ms = s->last_lease.end_ms - clock_boot_ms();
	bool in_lease = s->ended_ms < s->last_lease.end_ms;
	char text[DURATION_TEXT_SIZE];

	/* HELD: until a release by this process. */
	if (event->type == KEEPER_RELEASED || event->type == KEEPER_HELD) {
		if (!s->job.joined && event->error.kind == ERROR_REFUSED)
			supervisor_report(s, EVENT_NOT_RELEASED, LEVEL_WARNING, "released, but %s",
					  event->error.message);
		else if (!s->job.joined)
			report_released(s);
		return;
	}
	if (event->type == KEEPER_LOST) {
		supervisor_lose(s, event->error.message);
		return;
	}
	/* An outer hold is not this run's to release. */
	if (s->lost || (s->job.joined && in_lease))
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

/* Return the keeper's last event. The lock of a keeper that was killed ends with its lease. */
static struct keeper_event await_release(struct supervisor *s)
{
	int64_t until_ms = supervisor_patience_end(s);
	struct keeper_event event = s->last_word;

	/* The keeper tries until then. */
	if (is_done(s) && s->last_lease.end_ms != CLOCK_NEVER)
		until_ms += s->last_lease.end_ms - clock_boot_ms();
	/* After the end of a lost lease there is nothing to release. */
	if (s->lost)
		until_ms = clock_earlier(until_ms, s->last_lease.end_ms);
	if (!event.last && !supervisor_await_last(s, until_ms, &event)) {
		event = (struct keeper_event){ .type = KEEPER_FAILED };
		error_set(&event.error, ERROR_UNAVAILABLE, 0, "no answer in time");
	}
	return event;
}

void supervisor_release(struct supervisor *s)
{
	const bool local = s->job.run->driver->local && !s->job.joined;
	struct keeper_event event = { .type = KEEPER_FAILED };

	if (local && shared_keep_ms(s->job.shared, s->job.run) <= 0) {
		event.type = keeper_event_of(hold_release(s->job.backend, &s->job.request,
							  &s->job.self, 0, 0, &event.error));
	} else if (!local || !supervisor_start_keeper(s, KEEPER_KEEP, &event.error)) {
		/* The guard has woken a keeper already, unless the guard was killed. */
		keeper_order(&s->keeper, KEEPER_ORDER_RELEASE);
		event = await_release(s);
	}
	handle_released(s, &event);
	child_end(&s->keeper.child);
	keeper_drop_hold(&s->keeper);
}

/* ---- --on-lost-run: a shell command that runs at the end ---- */

/* The limit of the shell's time. */
#define ON_LOST_MS 30000

static void __attribute__((noreturn)) shell_main(const struct supervisor *s)
{
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setenv("DLOCK_REASON", s->lost_reason, 1);
	environment_write_fence(s->result->facts.fence);
	/* A dlock in the shell must not join the hold that was lost. */
	environment_drop_hold(false);
	/* The shell's children are killed with it. */
	setpgid(0, 0);
	/* In the background, reading from the terminal would stop the shell. */
	dup2(nothing, STDIN_FILENO);
	signals_restore(s->job.signals);
	execl("/bin/sh", "sh", "-c", s->job.run->on_lost_run, (char *)NULL);
	_exit(127);
}

void run_on_lost(const struct supervisor *s)
{
	const int64_t until_ms = clock_boot_ms() + ON_LOST_MS;
	struct pollfd signal_fd = { .fd = s->job.signals->fd, .events = POLLIN };
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
		sig = clock_boot_ms() < until_ms ? signals_next(s->job.signals, NULL) : SIGKILL;
		if (sig && signals_fatal(s->job.signals, sig))
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
