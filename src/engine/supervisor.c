/* SPDX-License-Identifier: MIT */
/*
 * What the supervisors of a run and of an acquisition share: messages, stops, sleep, and the start
 * of processes.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/text.h"
#include "lock/uri.h"
#include "environment.h"

void supervisor_report(const struct supervisor *s, const char *event, enum level level,
		       const char *format, ...)
{
	char text[sizeof(((struct error *)0)->message) + 128];
	const struct run_message message = {
		.level = level, .event = event, .text = text, .facts = &s->result->facts,
	};
	va_list args;

	if (!job_reports(&s->job, level))
		return;
	/* A process that could not become the command is none. */
	s->result->facts.command = atomic_load(&s->job.shared->exec_failure)
				   ? 0 : atomic_load(&s->job.shared->command);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	s->job.hooks->report(&message);
}

bool supervisor_check_proc(struct supervisor *s)
{
	if (!s->without_proc && !s->job.run->contain && !tree_usable()) {
		s->without_proc = true;
		supervisor_log(s, LEVEL_WARNING,
			       "/proc is missing or not that of this PID namespace: processes "
			       "that leave the command's process group are not found");
	}
	return !s->without_proc;
}

void supervisor_begin_stop(struct supervisor *s)
{
	int64_t grace_ms = lease_kill_after(shared_lease(s->job.shared).ttl_ms,
					    s->job.run->kill_after_ms);

	/* Without /proc this process finds the same processes as the guard. */
	if (!supervisor_check_proc(s))
		return;
	s->force_ms = clock_earlier(s->force_ms, clock_boot_ms() + grace_ms + GUARD_GRACE_MS);
}

/* What happens to the command that stops, or with --on-lost warn goes on. */
static const char *describe_next(const struct supervisor *s, bool stops)
{
	if (s->ended)
		return "that was before the command ended";
	if (!atomic_load(&s->job.shared->command))
		return "the command is not started";
	if (s->awaits_leftovers)
		return stops ? "stopping what the command has left running"
			     : "what the command has left running goes on (--on-lost warn)";
	return stops ? "stopping the command" : "the command goes on (--on-lost warn)";
}

static void report_loss(struct supervisor *s, const char *what, const char *how)
{
	if (s->lost)
		return;
	s->lost = true;
	/* The shell of --on-lost-run may print it. */
	text_clean(how, strlen(how), s->lost_reason, sizeof(s->lost_reason));
	supervisor_report(s, EVENT_LOST, LEVEL_ERROR, "%s%s; %s", what, how,
			  describe_next(s, s->job.run->kill_on_lost));
	if (s->job.run->kill_on_lost)
		supervisor_begin_stop(s);
}

void supervisor_lose(struct supervisor *s, const char *how)
{
	report_loss(s, "lock lost: ", how);
}

void supervisor_expire(struct supervisor *s)
{
	if (atomic_load(&s->job.shared->offer) == OFFER_WITHDRAWN)
		supervisor_lose(s, "dlock was stopped for too long, and gave the lock back");
	else if (s->job.run->no_renew && !s->ended)
		report_loss(s, "", "the lease is about to end, and --no-renew forbids to renew it");
	else
		supervisor_lose(s, "it was not renewed before its lease ran out");
}

void supervisor_overdue(struct supervisor *s, bool max_run)
{
	char time[DURATION_TEXT_SIZE], why[64] = "the time of --until has come";

	if (s->overdue)
		return;
	s->overdue = true;
	if (max_run)
		snprintf(why, sizeof(why), "the %s of --max-run are over",
			 duration_format(s->job.run->max_run_ms, time, sizeof(time)));
	supervisor_report(s, EVENT_OVERDUE, LEVEL_ERROR, "%s; %s", why, describe_next(s, true));
	supervisor_begin_stop(s);
}

enum acquired supervisor_fail(struct supervisor *s, const struct error *err)
{
	if (err->kind == ERROR_UNAVAILABLE && s->job.run->if_down == IF_DOWN_RUN) {
		supervisor_report(s, EVENT_UNPROTECTED, LEVEL_ERROR, "%s; running without the lock",
				  err->message);
		s->protected = false;
		/* The keeper has sent the reason, and has cleaned up if the server has let it. */
		child_end(&s->keeper.child);
		keeper_drop_hold(&s->keeper);
		return ACQUIRED_YES;
	}
	s->result->end = RUN_FAILED;
	s->result->error = *err;
	return ACQUIRED_NO;
}

bool supervisor_interrupted(struct supervisor *s)
{
	int sig;

	while ((sig = signals_next(s->job.signals, NULL))) {
		if (sig == SIGTSTP)
			signals_stop_self(sig, false);
		if (!signals_fatal(s->job.signals, sig))
			continue;
		s->result->end = RUN_INTERRUPTED;
		s->result->status = sig;
		return true;
	}
	return false;
}

/*
 * Reap the guard, the keeper, and orphans. A stopped guard is continued after the loop, which
 * otherwise would not end if the guard were stopped again and again.
 */
static void reap_processes(struct supervisor *s)
{
	bool stopped = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid == s->guard.pid) {
			stopped = WIFSTOPPED(status);
			s->guard.reaped = !stopped;
		} else if (pid == s->keeper.child.pid && !WIFSTOPPED(status)) {
			s->keeper.child.reaped = true;
			s->keeper.child.status = status;
		}
		if (!WIFSTOPPED(status))
			tree_remove_reaped(&s->excluded, pid);
	}
	if (stopped)
		kill(s->guard.pid, SIGCONT);
}

void supervisor_check_guard(struct supervisor *s)
{
	reap_processes(s);
	if (s->guard.reaped)
		child_end(&s->guard);
}

/* Poll only the sockets that the caller reads: an unread one would end every poll(). */
static void poll_until(struct supervisor *s, int64_t until_ms, bool keeper, bool guard)
{
	struct pollfd fds[] = {
		{ .fd = s->job.signals->fd, .events = POLLIN },
		{ .fd = keeper ? s->keeper.child.fd : -1, .events = POLLIN },
		{ .fd = guard ? s->guard.fd : -1, .events = POLLIN },
	};

	/* The caller may have read the signal of a child that changed after the last call. */
	reap_processes(s);
	poll(fds, sizeof(fds) / sizeof(fds[0]), clock_poll_timeout(until_ms));
	reap_processes(s);
}

void supervisor_sleep(struct supervisor *s, int64_t until_ms)
{
	/* After the keeper's last event there is only the end of file. */
	poll_until(s, until_ms, !s->last_word.last, true);
}

void supervisor_pause(struct supervisor *s, int64_t until_ms)
{
	poll_until(s, until_ms, false, false);
	signals_drain(s->job.signals);
}

/* The time for the keeper's last event, beyond the timeouts of a release and one more try. */
#define KEEPER_GRACE_MS 500

int64_t supervisor_patience_end(const struct supervisor *s)
{
	return clock_boot_ms() + 2 * s->timeout_ms + KEEPER_GRACE_MS;
}

bool supervisor_await_last(struct supervisor *s, int64_t until_ms, struct keeper_event *event)
{
	int sig;

	*event = (struct keeper_event){ .last = false };
	while (s->keeper.child.pid && !event->last && clock_boot_ms() < until_ms) {
		poll_until(s, until_ms, true, false);
		/*
		 * The keeper wakes the guard before it sends the loss, so the command's end may
		 * come first. The caller handles the last event.
		 */
		while (!event->last && keeper_event(&s->keeper, event))
			if (event->type == KEEPER_LOST && !event->last)
				supervisor_lose(s, event->error.message);
		while ((sig = signals_next(s->job.signals, NULL)))
			if (signals_fatal(s->job.signals, sig))
				until_ms = clock_earlier(until_ms, clock_boot_ms() +
							 INTERRUPTED_GRACE_MS);
	}
	return event->last;
}

/* Make what this process shares with guard and keeper: a page, an eventfd and a pipe. */
static int make_shared(struct supervisor *s, struct error *err)
{
	void *page = mmap(NULL, sizeof(*s->job.shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return error_set(err, ERROR_INTERNAL, errno, "mmap");
	s->job.shared = page;
	ipc_share_failure(&s->job.shared->failure);
	shared_set_lease(s->job.shared, (struct lease_span){ .end_ms = CLOCK_NEVER });
	atomic_store(&s->job.shared->guard_dies_ms, CLOCK_NEVER);
	s->job.lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->job.lost_fd < 0 || pipe2(s->job.guard_pipe, O_CLOEXEC))
		return error_set(err, ERROR_INTERNAL, errno, "eventfd or pipe");
	return 0;
}

int supervisor_start_keeper(struct supervisor *s, enum keeper_mode mode, struct error *err)
{
	const int failed = keeper_start(&s->keeper, &s->job, mode, err);

	s->excluded.helper = s->keeper.child.pid;
	return failed;
}

int supervisor_start_guard(struct supervisor *s, struct error *err)
{
	/* Once, also when another guard follows one that was killed. */
	if (!s->job.terminal.group) {
		environment_set_hold(s->job.run->name, s->job.run->uri_text, s->token, s->level);
		terminal_open(&s->job.terminal);
	}
	return guard_start(&s->guard, &s->job, err);
}

int supervisor_init(struct supervisor *s, const struct run_request *run,
		    const struct run_hooks *hooks, const struct signals *signals,
		    struct run_result *result, struct error *err)
{
	int64_t connect_ms;

	*s = (struct supervisor){
		.job = {
			.run = run, .hooks = hooks, .signals = signals,
			.terminal = { .fd = -1 },
			.identity = uri_identity(run->uri),
			.request = { .name = run->name, .ttl_ms = run->ttl_ms,
				     .mode = run->mode, .slots = run->slots,
				     .queue = run->wait_ms > 0 },
			.local_grant = { .hold_fd = -1 },
			.limit_ms = CLOCK_NEVER,
		},
		.result = result,
		.keeper = { .child = { .fd = -1 }, .hold_fd = -1 },
		.guard = { .fd = -1 },
		.continue_ms = CLOCK_NEVER, .force_ms = CLOCK_NEVER,
		.started_ms = clock_boot_ms(), .late_ms = LATE_RESULT_MS,
	};
	*result = (struct run_result){ .wait = { .began_ms = s->started_ms, .ahead = -1 },
				       .facts = { .began_ms = s->started_ms } };
	if (run->wait_ms)
		s->job.limit_ms = clock_after(s->started_ms, run->wait_ms);
	s->job.request.token = s->token;
	s->job.request.text = s->text;
	holder_self(&s->job.self, run->command);
	s->job.self.ttl_ms = run->ttl_ms;
	if (!run->argv) {
		/* A run retains the lock itself, if its command was executed. */
		s->job.self.min_ms = run->min_hold_ms;
		/* status shows the process that the lock is held for: this one ends soon. */
		s->job.self.pid = run->process ? run->process->pid : getppid();
	}
	if (run->note)
		text_clean(run->note, strlen(run->note), s->job.self.note,
			   sizeof(s->job.self.note));
	holder_encode(&s->job.self, s->text);
	if (uri_timeouts(run->uri, &s->timeout_ms, &connect_ms, err))
		return -1;
	return make_shared(s, err);
}
