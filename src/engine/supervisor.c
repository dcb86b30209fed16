/* SPDX-License-Identifier: MIT */
/*
 * What the supervisors of a run and of an acquisition share: messages, stops, sleep, the start of
 * processes; and how they acquire: by an outer hold, a lock of `file:` that is taken here, or the
 * keeper.
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
#include "base/signals.h"
#include "base/text.h"
#include "lock/hold.h"
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
	/* A process that could not become the command is none. */
	s->result->facts.command = atomic_load(&s->shared->exec_failure)
				   ? 0 : atomic_load(&s->shared->command);
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
			  (unsigned long long)s->result->facts.fence,
			  session_ms ? "session timeout " : "",
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

bool supervisor_check_proc(struct supervisor *s)
{
	if (!s->without_proc && !s->run->contain && !tree_usable()) {
		s->without_proc = true;
		supervisor_log(s, LEVEL_WARNING,
			       "/proc is missing or not that of this PID namespace: processes "
			       "that leave the command's process group are not found");
	}
	return !s->without_proc;
}

void supervisor_begin_stop(struct supervisor *s)
{
	int64_t grace_ms = lease_kill_after(shared_lease(s->shared).ttl_ms, s->run->kill_after_ms);

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
	if (err->kind == ERROR_UNAVAILABLE && s->run->if_down == IF_DOWN_RUN) {
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

int supervisor_start_guard(struct supervisor *s, struct error *err)
{
	/* Once, also when another guard follows one that was killed. */
	if (!s->terminal.group) {
		environment_set_hold(s->run->name, s->run->uri_text, s->token, s->level);
		terminal_open(&s->terminal);
	}
	return guard_start(&s->guard, s, err);
}

int supervisor_init(struct supervisor *s, const struct run_request *run,
		    const struct run_hooks *hooks, const struct signals *signals,
		    struct run_result *result, struct error *err)
{
	int64_t connect_ms;

	*s = (struct supervisor){
		.run = run, .hooks = hooks, .signals = signals, .result = result,
		.keeper = { .child = { .fd = -1 }, .hold_fd = -1 },
		.local_grant = { .hold_fd = -1 },
		.guard = { .fd = -1 },
		.continue_ms = CLOCK_NEVER, .force_ms = CLOCK_NEVER,
		.identity = uri_identity(run->uri),
		.started_ms = clock_boot_ms(), .terminal = { .fd = -1 },
		.limit_ms = CLOCK_NEVER, .late_ms = LATE_RESULT_MS,
		.request = { .name = run->name, .ttl_ms = run->ttl_ms,
			     .mode = run->mode, .slots = run->slots,
			     .queue = run->wait_ms > 0 },
	};
	*result = (struct run_result){ .wait = { .began_ms = s->started_ms, .ahead = -1 },
				       .facts = { .began_ms = s->started_ms } };
	if (run->wait_ms && run->wait_ms != CLOCK_NEVER)
		s->limit_ms = s->started_ms + run->wait_ms;
	s->request.token = s->token;
	s->request.text = s->text;
	holder_self(&s->self, run->command);
	s->self.ttl_ms = run->ttl_ms;
	/* A run retains the lock itself, if its command was executed. */
	s->self.min_ms = run->argv ? 0 : run->min_hold_ms;
	if (run->note)
		text_clean(run->note, strlen(run->note), s->self.note, sizeof(s->self.note));
	holder_encode(&s->self, s->text);
	if (uri_timeouts(run->uri, &s->timeout_ms, &connect_ms, err))
		return -1;
	return make_shared(s, err);
}

/* ---- acquiring ---- */

/* How often a local waiter checks whether the lock was broken, or the work of --once-per done. */
#define CHECK_LOCAL_MS 5000
#define CHECK_DONE_MS 1000

static int64_t add_duration(int64_t start_ms, int64_t duration_ms)
{
	return duration_ms == CLOCK_NEVER ? CLOCK_NEVER : start_ms + duration_ms;
}

static enum acquired set_acquired(struct supervisor *s, uint64_t fence)
{
	s->protected = true;
	s->result->facts.fence = fence;
	s->result->facts.acquired_ms = atomic_load(&s->shared->held_ms);
	if (!s->result->facts.acquired_ms)
		s->result->facts.acquired_ms = clock_boot_ms();
	return ACQUIRED_YES;
}

/* Check the offer. The guard takes it on the supervisor's order. */
static enum acquired check_offer(struct supervisor *s)
{
	const bool is_valid = !s->run->argv ? shared_take(s->shared)
					    : atomic_load(&s->shared->offer) == OFFER_MADE;

	return is_valid ? set_acquired(s, atomic_load(&s->shared->fence)) : ACQUIRED_NOT_YET;
}

/* A lock that is free for a moment has still the holder that was seen before. */
static void store_wait(struct supervisor *s, const struct wait_state *seen)
{
	struct wait_state *wait = &s->result->wait;

	wait->ahead = seen->ahead;
	wait->poll_ms = seen->poll_ms;
	if (!seen->holder_known && wait->holder_known)
		return;
	wait->holder_known = true;
	wait->holder = seen->holder;
	wait->since_ms = seen->since_ms;
	s->result->done = s->run->once_ms && seen->holder.done_ms;
}

static void view_local(struct supervisor *s)
{
	struct wait_state seen = { .began_ms = 0 };
	struct rows view;
	struct error ignored = { 0 };

	/* Without the token, which no hold has yet. */
	if (hold_show(s->backend, s->run->name, "", &view, &ignored))
		return;
	run_view(&seen, &view);
	store_wait(s, &seen);
	rows_finish(&view);
}

/*
 * Try a local backend once: with until_ms 0 without waiting, otherwise until then or a signal. NO:
 * the result is filled.
 */
static enum acquired try_local(struct supervisor *s, int64_t until_ms)
{
	struct request request = s->request;
	struct grant *grant = &s->local_grant;
	struct error err = { 0 };
	enum outcome outcome;
	int sig = 0;

	request.queue = until_ms > 0;
	if (request.queue && signals_unblock(s->signals, until_ms, &err))
		return supervisor_fail(s, &err);
	outcome = hold_acquire(s->backend, &request, grant, &err);
	if (request.queue)
		sig = signals_block(s->signals);
	if (sig) {
		/* The signal and the lock may have come together. */
		if (outcome == OUTCOME_HELD)
			hold_release(s->backend, &s->request, &s->self, 0, 0, &err);
		s->result->end = RUN_INTERRUPTED;
		s->result->status = sig;
		return ACQUIRED_NO;
	}
	switch (outcome) {
	case OUTCOME_HELD:
		atomic_store(&s->shared->held_ms, clock_boot_ms());
		return set_acquired(s, grant->fence);
	case OUTCOME_BUSY:
		view_local(s);
		return ACQUIRED_NOT_YET;
	case OUTCOME_LOST:
	case OUTCOME_ERROR:
		break;
	}
	return supervisor_fail(s, &err);
}

/* Acquire a local lock, without a keeper. */
static enum acquired acquire_local(struct supervisor *s)
{
	int64_t until_ms = add_duration(s->started_ms, s->run->wait_ms);
	enum acquired acquired;
	struct error err = { 0 };
	int64_t tick_ms;

	s->backend = backend_open(s->run->driver, s->run->uri, &s->request, &err);
	if (!s->backend)
		return supervisor_fail(s, &err);
	acquired = try_local(s, 0);
	/* The wait leaves time to start the guard. */
	if (acquired == ACQUIRED_NOT_YET && until_ms > clock_boot_ms() && s->run->argv &&
	    supervisor_start_guard(s, &err))
		return supervisor_fail(s, &err);
	while (acquired == ACQUIRED_NOT_YET && !s->result->done && clock_boot_ms() < until_ms) {
		s->hooks->waiting(&s->result->wait);
		tick_ms = clock_earlier(s->hooks->tick_ms,
					s->run->once_ms ? CHECK_DONE_MS : CHECK_LOCAL_MS);
		acquired = try_local(s, clock_earlier(until_ms, clock_boot_ms() + tick_ms));
	}
	if (acquired != ACQUIRED_NOT_YET)
		return acquired;
	s->result->end = RUN_NOT_OBTAINED;
	return ACQUIRED_NO;
}

static void report_reachable(struct supervisor *s)
{
	const int64_t since_ms = s->result->wait.down_since_ms;
	char text[DURATION_TEXT_SIZE];

	if (since_ms)
		supervisor_report(s, EVENT_REACHABLE, LEVEL_STEP,
				  "the server is reached again, after %s",
				  duration_format(clock_boot_ms() - since_ms, text, sizeof(text)));
	s->result->wait.down_since_ms = 0;
}

/* Handle an event of the keeper while it acquires. */
static enum acquired handle_acquiring(struct supervisor *s, const struct keeper_event *event)
{
	struct run_result *result = s->result;
	struct error err = { 0 };

	switch (event->type) {
	case KEEPER_HELD:
		report_reachable(s);
		return check_offer(s);
	case KEEPER_WITHDRAWN:
		supervisor_log(s, LEVEL_STEP,
			       "dlock was stopped when its turn came; back in the queue");
		s->late_ms = 0;
		keeper_order(&s->keeper, KEEPER_ORDER_RETRY);
		return ACQUIRED_NOT_YET;
	case KEEPER_WAITING:
		report_reachable(s);
		s->late_ms = 0;
		s->down = (struct error){ .kind = ERROR_NONE };
		store_wait(s, &event->wait);
		if (result->done)
			break;
		s->hooks->waiting(&s->result->wait);
		return ACQUIRED_NOT_YET;
	case KEEPER_BUSY:
		store_wait(s, &event->wait);
		break;
	case KEEPER_RETRYING:
		/* Somebody has to do something about a refusal. */
		supervisor_report(s, EVENT_UNREACHABLE, event->error.kind == ERROR_REFUSED
				  ? LEVEL_WARNING : LEVEL_STEP, "%s; trying again",
				  event->error.message);
		s->down = event->error;
		if (!result->wait.down_since_ms)
			result->wait.down_since_ms = clock_boot_ms();
		s->hooks->waiting(&s->result->wait);
		return ACQUIRED_NOT_YET;
	case KEEPER_FAILED:
		s->down = event->error;
		s->late_ms = LATE_RESULT_MS + LATE_CLEANUP_MS;
		return event->last ? supervisor_fail(s, &s->down) : ACQUIRED_NOT_YET;
	case KEEPER_GONE:
		supervisor_keeper_died(s, &err);
		return supervisor_fail(s, &err);
	default:
		return ACQUIRED_NOT_YET;
	}
	result->end = RUN_NOT_OBTAINED;
	return ACQUIRED_NO;
}

/* Let the keeper leave the queue, or release, and end. */
static void give_up(struct supervisor *s)
{
	/* The entry of a dead waiter delays others, and a run that is done is in no hurry. */
	const int64_t now_ms = clock_boot_ms();
	const int64_t limit_ms = s->limit_ms > now_ms ? s->limit_ms : now_ms;
	int64_t until_ms = now_ms + (s->result->done ? 2 * s->timeout_ms + KEEPER_GRACE_MS
						     : INTERRUPTED_GRACE_MS);
	struct keeper_event event;

	/*
	 * The keeper has sent no request that could leave a trace (mark_engaged() in
	 * keeper_process.c), or it has removed its trace.
	 */
	if (!atomic_load(&s->shared->engaged) || s->last_word.last) {
		child_end(&s->keeper.child);
		return;
	}
	if (s->result->end != RUN_INTERRUPTED)
		until_ms = clock_earlier(until_ms, add_duration(LATE_CLEANUP_MS, limit_ms));
	keeper_order(&s->keeper, KEEPER_ORDER_RELEASE);
	if (supervisor_await_last(s, until_ms, &event) &&
	    event.type == KEEPER_BUSY && event.wait.holder_known)
		store_wait(s, &event.wait);
	child_end(&s->keeper.child);
}

/* The limit has come: only a backend that has said so has a lock that is taken. */
static enum acquired end_wait(struct supervisor *s)
{
	char location[URI_LOCATION_SIZE];

	if (!s->late_ms) {
		s->result->end = RUN_NOT_OBTAINED;
		return ACQUIRED_NO;
	}
	/* A keeper that cleans up has had its time. */
	s->last_word.last = s->late_ms > LATE_RESULT_MS;
	if (s->down.kind == ERROR_NONE)
		error_set(&s->down, ERROR_UNAVAILABLE, 0, "%s: no answer within the time of --wait",
			  uri_location(s->run->uri, s->run->driver->port, location));
	return supervisor_fail(s, &s->down);
}

static enum acquired wait_for_lock(struct supervisor *s)
{
	int64_t until_ms, tick_ms = add_duration(s->started_ms, s->hooks->tick_ms);
	enum acquired acquired = ACQUIRED_NOT_YET;
	struct keeper_event event;
	struct error err = { 0 };

	while (acquired == ACQUIRED_NOT_YET) {
		until_ms = add_duration(s->late_ms, s->limit_ms);
		supervisor_sleep(s, clock_earlier(until_ms, tick_ms));
		if (supervisor_interrupted(s))
			return ACQUIRED_NO;
		while (acquired == ACQUIRED_NOT_YET && keeper_event(&s->keeper, &event)) {
			if (event.last)
				s->last_word = event;
			acquired = handle_acquiring(s, &event);
		}
		supervisor_check_guard(s);
		if (acquired == ACQUIRED_NOT_YET && atomic_load(&s->shared->start_failed))
			acquired = supervisor_fail(s, &s->shared->start_error);
		else if (acquired == ACQUIRED_NOT_YET && ipc_has_failed(&err))
			acquired = supervisor_fail(s, &err);
		if (acquired != ACQUIRED_NOT_YET)
			break;
		if (clock_boot_ms() >= add_duration(s->late_ms, s->limit_ms))
			return end_wait(s);
		if (clock_boot_ms() >= tick_ms) {
			tick_ms = add_duration(clock_boot_ms(), s->hooks->tick_ms);
			if (s->result->wait.holder_known || s->result->wait.down_since_ms)
				s->hooks->waiting(&s->result->wait);
		}
	}
	return acquired;
}

/* Acquire by a keeper. */
static enum acquired acquire_remote(struct supervisor *s)
{
	struct error err = { 0 };

	/* The guard is started while the keeper waits for the network. */
	if (keeper_start(s, KEEPER_ACQUIRE, &err) ||
	    (s->run->argv && supervisor_start_guard(s, &err)))
		return supervisor_fail(s, &err);
	return wait_for_lock(s);
}

enum acquired supervisor_acquire(struct supervisor *s)
{
	const enum acquired acquired = s->run->driver->local ? acquire_local(s)
							     : acquire_remote(s);

	s->hooks->waiting(NULL);
	if (acquired == ACQUIRED_NO) {
		/* From now on every offer is void. */
		atomic_store(&s->shared->offer, OFFER_CLOSED);
		give_up(s);
	}
	return acquired;
}

/* ---- an outer hold: the keeper verifies and renews it, see keeper_process.c ---- */

/*
 * Refuse a token of this scope after the keeper's answer that it does not hold, or that this could
 * not be verified. Returns NOT_YET: it is of another lock; NO with s->result->error; YES as
 * supervisor_fail().
 */
static enum acquired refuse_token(struct supervisor *s, enum token_scope scope,
				  const struct keeper_event *event)
{
	const bool lost = event->type == KEEPER_LOST;

	/* No acquisition follows: the server may be back by then, and the hold may have ended. */
	if (!lost && event->error.kind == ERROR_UNAVAILABLE)
		return supervisor_fail(s, &event->error);
	if (lost && scope == TOKEN_OF_NAME) {
		s->level = 0;
		return ACQUIRED_NOT_YET;
	}
	s->result->error = event->error;
	if (lost) {
		s->result->end = RUN_LOST;
		error_set(&s->result->error, ERROR_REFUSED, 0,
			  "the hold of DLOCK_TOKEN has ended; unset DLOCK_TOKEN to begin again");
	}
	return ACQUIRED_NO;
}

enum acquired supervisor_join(struct supervisor *s, enum keeper_mode mode, int64_t *lease_ms)
{
	struct error *err = &s->result->error;
	struct keeper_event event;
	bool interrupted;
	enum token_scope scope;

	s->result->end = RUN_FAILED;
	if (environment_find_token(s->run->name, s->identity, s->token, &s->level, &scope, err))
		return ACQUIRED_NO;
	if (scope == TOKEN_OF_OTHER)
		return ACQUIRED_NOT_YET;
	if (mode == KEEPER_NEST && s->level == TOKEN_LEVEL_MOST) {
		error_set(err, ERROR_USAGE, 0, "the token in DLOCK_TOKEN has the "
			  "highest level, %d", TOKEN_LEVEL_MOST);
		return ACQUIRED_NO;
	}
	if (keeper_start(s, mode, err))
		return ACQUIRED_NO;
	do {
		supervisor_sleep(s, CLOCK_NEVER);
		interrupted = supervisor_interrupted(s);
	} while (!interrupted && !keeper_event(&s->keeper, &event));
	if (!interrupted && event.type == KEEPER_HELD) {
		*lease_ms = event.lease_ms;
		s->result->end = RUN_EXITED;
		s->joined = true;
		s->result->facts.fence = atomic_load(&s->shared->fence);
		return ACQUIRED_YES;
	}
	if (!interrupted && event.type == KEEPER_GONE)
		supervisor_keeper_died(s, &event.error);
	child_end(&s->keeper.child);
	keeper_drop_hold(&s->keeper);
	return interrupted ? ACQUIRED_NO : refuse_token(s, scope, &event);
}
