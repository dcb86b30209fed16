/* SPDX-License-Identifier: MIT */
/* Parts of the supervisor that its other files use: messages, stops, sleep, start of processes. */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/ipc.h"
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

	if (!supervisor_reports(s, level))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	s->hooks->report(&message);
}

void supervisor_report_acquired(const struct supervisor *s)
{
	int64_t waited_ms = clock_boot_ms() - s->started_ms;
	int64_t session_ms = atomic_load(&s->shared->session_ms);
	char text[DURATION_TEXT_SIZE], granted[DURATION_TEXT_SIZE], location[URI_LOCATION_SIZE];

	if (!supervisor_reports(s, LEVEL_STEP) || s->joined)
		return;
	supervisor_report(s, EVENT_ACQUIRED, LEVEL_STEP,
			  "acquired after %s, fence %llu, %s%s%son %s",
			  duration_format(waited_ms, text, sizeof(text)),
			  (unsigned long long)s->fence, session_ms ? "session timeout " : "",
			  session_ms ? duration_format(session_ms, granted, sizeof(granted)) : "",
			  session_ms ? ", " : "",
			  uri_location(s->run->uri, s->run->driver->port, location));
}

int supervisor_keeper_died(const struct supervisor *s, struct error *err)
{
	const int status = s->keeper.child.status;

	if (ipc_has_failed(err))
		return -1;
	return error_set(err, ERROR_INTERNAL, 0, WIFSIGNALED(status)
			 ? "the keeper process was killed by signal %d"
			 : "the keeper process ended with status %d",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* The guard's time beyond kill-after before the supervisor acts. */
#define GUARD_GRACE_MS 500

void supervisor_begin_stop(struct supervisor *s)
{
	int64_t grace_ms = lease_kill_after(shared_lease(s->shared).ttl_ms, s->run->kill_after_ms);

	/* Without /proc this process finds the same processes as the guard. */
	if (s->without_proc)
		return;
	s->force_ms = clock_earlier(s->force_ms, clock_boot_ms() + grace_ms + GUARD_GRACE_MS);
}

/* What happens to the command that stops, or with --on-lost warn goes on. */
static const char *describe_next(const struct supervisor *s, bool stops)
{
	if (s->ended)
		return "that was before the command ended";
	if (!atomic_load(&s->shared->command))
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
			  describe_next(s, s->run->kill_on_lost));
	if (s->run->kill_on_lost)
		supervisor_begin_stop(s);
}

void supervisor_lose(struct supervisor *s, const char *how)
{
	report_loss(s, "lock lost: ", how);
}

void supervisor_expire(struct supervisor *s)
{
	if (atomic_load(&s->shared->offer) == OFFER_WITHDRAWN)
		supervisor_lose(s, "dlock was stopped for so long that it released the lock");
	else if (s->run->no_renew && !s->ended)
		report_loss(s, "", "the lease is about to end, and --no-renew forbids to renew it");
	else
		supervisor_lose(s, "it was not renewed before its lease ran out");
}

void supervisor_overdue(struct supervisor *s, bool max_run)
{
	char text[DURATION_TEXT_SIZE];

	if (s->overdue)
		return;
	s->overdue = true;
	if (max_run)
		supervisor_report(s, EVENT_OVERDUE, LEVEL_ERROR, "the %s of --max-run are over; %s",
				  duration_format(s->run->max_run_ms, text, sizeof(text)),
				  describe_next(s, true));
	else
		supervisor_report(s, EVENT_OVERDUE, LEVEL_ERROR, "the time of --until has come; %s",
				  describe_next(s, true));
	supervisor_begin_stop(s);
}

enum acquired supervisor_fail(struct supervisor *s, const struct error *err)
{
	bool down = err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_REFUSED;

	if (down && s->run->run_if_down) {
		supervisor_report(s, EVENT_UNPROTECTED, LEVEL_ERROR, "%s; running without the lock",
				  err->message);
		s->protected = false;
		/* The keeper has sent the reason, and ends. */
		child_end(&s->keeper.child);
		return ACQUIRED_YES;
	}
	s->result->end = RUN_FAILED;
	s->result->error = *err;
	return ACQUIRED_NO;
}

bool supervisor_interrupted(struct supervisor *s)
{
	int sig;

	while ((sig = signals_next(s->signals, NULL))) {
		if (sig == SIGTSTP)
			signals_stop_self(sig, false);
		if (!signals_fatal(s->signals, sig))
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
		} else if (!WIFSTOPPED(status))
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
		{ .fd = s->signals->fd, .events = POLLIN },
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
	signals_drain(s->signals);
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
		while ((sig = signals_next(s->signals, NULL)))
			if (signals_fatal(s->signals, sig))
				until_ms = clock_earlier(until_ms, clock_boot_ms() +
							 INTERRUPTED_GRACE_MS);
	}
	return event->last;
}

/* Make what this process shares with guard and keeper: a page, an eventfd and a pipe. */
static int make_shared(struct supervisor *s, struct error *err)
{
	void *page = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return error_set(err, ERROR_INTERNAL, errno, "mmap");
	s->shared = page;
	ipc_share_failure(&s->shared->failure);
	shared_set_lease(s->shared, (struct lease_span){ .end_ms = CLOCK_NEVER });
	atomic_store(&s->shared->guard_dies_ms, CLOCK_NEVER);
	s->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->lost_fd < 0 || pipe2(s->guard_pipe, O_CLOEXEC))
		return error_set(err, ERROR_INTERNAL, errno, "eventfd or pipe");
	return 0;
}

int supervisor_hold_fd(const struct supervisor *s)
{
	if (!s->protected)
		return -1;
	return s->backend ? s->local_grant.hold_fd : s->keeper.hold_fd;
}

int supervisor_start_guard(struct supervisor *s, struct error *err)
{
	/* Once, also when another guard follows one that was killed. */
	if (!s->terminal.group) {
		environment_set_hold(s->run->name, s->run->uri_text, s->token, s->level);
		terminal_open(&s->terminal);
		if (supervisor_reports(s, LEVEL_STEP))
			s->printed_fd = eventfd(0, EFD_CLOEXEC);
	}
	return guard_start(&s->guard, s, err);
}

int supervisor_init(struct supervisor *s, const struct run_request *run,
		    const struct run_hooks *hooks, const struct signals *signals,
		    struct run_result *result, const char *command, struct error *err)
{
	int64_t connect_ms;

	*s = (struct supervisor){
		.run = run, .hooks = hooks, .signals = signals, .result = result,
		.printed_fd = -1,
		.keeper = { .child = { .fd = -1 }, .hold_fd = -1 },
		.local_grant = { .hold_fd = -1 },
		.guard = { .fd = -1 },
		.continue_ms = CLOCK_NEVER, .force_ms = CLOCK_NEVER,
		.identity = uri_identity(run->uri),
		.started_ms = clock_boot_ms(), .terminal = { .fd = -1 },
		.request = { .name = run->name, .ttl_ms = run->ttl_ms,
			     .mode = run->mode, .slots = run->slots,
			     .queue = run->wait_ms > 0, .replaces = run->replaces },
	};
	*result = (struct run_result){ .wait = { .began_ms = s->started_ms, .ahead = -1 },
				       .facts = { .began_ms = s->started_ms } };
	s->request.token = s->token;
	s->request.text = s->text;
	holder_self(&s->self, command);
	s->self.ttl_ms = run->ttl_ms;
	s->self.replaces = run->replaces;
	/* A run retains the lock itself, if its command was executed. */
	s->self.min_ms = run->argv ? 0 : run->min_hold_ms;
	if (run->note)
		text_clean(run->note, strlen(run->note), s->self.note, sizeof(s->self.note));
	holder_encode(&s->self, s->text);
	if (uri_timeouts(run->uri, &s->timeout_ms, &connect_ms, err))
		return -1;
	return make_shared(s, err);
}
