/* SPDX-License-Identifier: MIT */
#include "supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include "clock.h"
#include "duration.h"
#include "environment.h"
#include "guard.h"
#include "keeper.h"
#include "lease.h"
#include "shared.h"
#include "signals.h"
#include "terminal.h"
#include "token.h"
#include "uri.h"

/* Beyond its own bounds, the time that a keeper gets to say its last word. */
#define KEEPER_GRACE_MS 500
/* What a guard gets beyond kill-after before it is taken for stuck. */
#define GUARD_GRACE_MS 500

struct supervisor {
	const struct run_request *run;
	const struct run_hooks *hooks;
	const struct signals *signals;
	struct run_result *result;
	struct terminal terminal;
	struct shared *shared;
	int lost_fd;
	int guard_pipe[2];
	char token[TOKEN_SIZE];
	struct request request;
	struct backend *backend;	/* local drivers: ours, and the keeper's copy */
	struct keeper keeper;
	struct guard guard;
	struct guard_plan guard_plan;

	bool protected;			/* the lock is, or was, held */
	uint64_t fence;
	int64_t started_ms, held_ms;
	pid_t command;			/* 0 until started */
	bool reaped;			/* result->status is valid */
	bool ended;			/* the command's whole tree is dead */
	bool lost;
	int64_t force_ms;		/* a stop was begun: kill the guard then */
	int64_t timeout_ms;		/* bound of the keeper's last request */
	int64_t last_lease_end_ms;	/* as the tree died */
};

static void say(const struct supervisor *s, enum say level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(const struct supervisor *s, enum say level, const char *format, ...)
{
	char text[sizeof(((struct error *)0)->message) + 128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	s->hooks->say(s->hooks->context, level, text);
}

/* Polls all that can happen, until until_ms at the latest. */
static void sleep_until(const struct supervisor *s, int64_t until_ms)
{
	struct pollfd fds[] = {
		{ .fd = s->signals->fd, .events = POLLIN },
		{ .fd = s->keeper.pid ? s->keeper.fd : -1, .events = POLLIN },
		{ .fd = s->guard.pid ? s->guard.fd : -1, .events = POLLIN },
	};

	poll(fds, sizeof(fds) / sizeof(fds[0]), clock_poll_timeout(until_ms));
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t after(int64_t start_ms, int64_t duration_ms)
{
	return duration_ms == CLOCK_NEVER ? CLOCK_NEVER : start_ms + duration_ms;
}

/* ---- set up ---- */

static int map_shared(struct supervisor *s, struct error *err)
{
	void *page = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED) {
		error_set(err, ERROR_INTERNAL, errno, "mmap");
		return -1;
	}
	s->shared = page;
	atomic_store(&s->shared->lease_end_ms, CLOCK_NEVER);
	s->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->lost_fd < 0 || pipe2(s->guard_pipe, O_CLOEXEC)) {
		error_set(err, ERROR_INTERNAL, errno, "eventfd or pipe");
		return -1;
	}
	return 0;
}

static int plan_guard(struct supervisor *s, struct error *err)
{
	char *fence_text;
	char **envp = environment_make(s->run->name, s->token, s->run->uri_text,
				       &fence_text, err);

	if (!envp)
		return -1;
	s->guard_plan = (struct guard_plan){
		.argv = s->run->argv,
		.envp = envp,
		.bare_envp = environ,
		.fence_text = fence_text,
		.signals = s->signals,
		.terminal = &s->terminal,
		.shared = s->shared,
		.lost_fd = s->lost_fd,
		.keeper_pipe_fd = s->guard_pipe[1],
		.kill_after_ms = s->run->kill_after_ms,
		.kill_on_lost = s->run->kill_on_lost,
	};
	return 0;
}

static int start_keeper(struct supervisor *s, enum keeper_mode mode, int64_t keep_ms,
			struct error *err)
{
	struct keeper_plan plan = {
		.mode = mode,
		.driver = s->run->driver,
		.uri = s->run->uri,
		.backend = s->backend,
		.request = &s->request,
		.no_renew = s->run->no_renew,
		.keep_ms = keep_ms,
		.shared = s->shared,
		.lost_fd = s->lost_fd,
		.guard_pipe = { s->guard_pipe[0], s->guard_pipe[1] },
	};

	return keeper_start(&s->keeper, &plan, err);
}

static int start_guard(struct supervisor *s, struct error *err)
{
	/* What the guard leaves behind, should it be killed, comes to us. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return guard_start(&s->guard, &s->guard_plan, err);
}

/* ---- obtain ---- */

enum obtained { OBTAINED_NO, OBTAINED_YES, OBTAINED_NOT_YET };

static enum obtained fail(struct supervisor *s, const struct error *err)
{
	bool down = err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_REFUSED;

	if (down && s->run->run_if_down) {
		say(s, SAY_WARNING, "%s; running without the lock", err->message);
		s->protected = false;
		return OBTAINED_YES;
	}
	s->result->end = RUN_FAILED;
	s->result->error = *err;
	return OBTAINED_NO;
}

static enum obtained obtained(struct supervisor *s, uint64_t fence)
{
	s->protected = true;
	s->fence = fence;
	s->held_ms = clock_boot_ms();
	return OBTAINED_YES;
}

static void note_holder(struct supervisor *s, const struct holder *holder,
			int64_t age_ms, int64_t at_ms)
{
	s->result->holder = *holder;
	/* Kept as the instant it began, so that it ages while we wait. */
	s->result->age_ms = age_ms < 0 ? -1 : at_ms - age_ms;
}

static int64_t holder_age(const struct supervisor *s)
{
	return s->result->age_ms < 0 ? -1 : clock_boot_ms() - s->result->age_ms;
}

static void show_waiting(struct supervisor *s, int64_t ahead)
{
	struct wait_state state = {
		.elapsed_ms = clock_boot_ms() - s->started_ms,
		.ahead = ahead,
		.age_ms = holder_age(s),
		.holder = &s->result->holder,
	};

	s->hooks->waiting(s->hooks->context, &state);
}

/* Opens a local backend and tries at once; no other process is needed for it. */
static enum obtained try_local(struct supervisor *s)
{
	struct request request = s->request;
	struct grant grant = { .age_ms = -1 };
	struct error err = { 0 };

	s->backend = backend_open(s->run->driver, s->run->uri, &err);
	if (!s->backend)
		return fail(s, &err);
	s->backend->engaged = &s->shared->engaged;
	request.queue = false;
	switch (s->backend->ops->acquire(s->backend, &request, &grant, &err)) {
	case OUTCOME_HELD:
		return obtained(s, grant.fence);
	case OUTCOME_BUSY:
		note_holder(s, &grant.holder, grant.age_ms, clock_boot_ms());
		if (s->run->wait_ms > 0)
			return OBTAINED_NOT_YET;
		s->result->end = RUN_NOT_OBTAINED;
		return OBTAINED_NO;
	case OUTCOME_LOST:
	case OUTCOME_ERROR:
		break;
	}
	return fail(s, &err);
}

/* Takes what the keeper says while it acquires. */
static enum obtained hear_acquiring(struct supervisor *s, const struct keeper_event *event,
				    int64_t *ahead)
{
	int made = OFFER_MADE;
	struct error err = { 0 };

	switch (event->type) {
	case KEEPER_HELD:
		/* Too late when we were stopped for so long that it was withdrawn. */
		if (!atomic_compare_exchange_strong(&s->shared->offer, &made, OFFER_TAKEN))
			return OBTAINED_NOT_YET;
		return obtained(s, event->fence);
	case KEEPER_WITHDRAWN:
		say(s, SAY_STEP, "was stopped as the lock came; back in line");
		keeper_retry(&s->keeper);
		return OBTAINED_NOT_YET;
	case KEEPER_WAITING:
		*ahead = event->ahead;
		note_holder(s, &event->holder, event->age_ms, event->at_ms);
		show_waiting(s, *ahead);
		return OBTAINED_NOT_YET;
	case KEEPER_BUSY:
		note_holder(s, &event->holder, event->age_ms, event->at_ms);
		s->result->end = RUN_NOT_OBTAINED;
		return OBTAINED_NO;
	case KEEPER_RETRYING:
		say(s, SAY_STEP, "%s; trying again", event->error.message);
		return OBTAINED_NOT_YET;
	case KEEPER_FAILED:
		return fail(s, &event->error);
	case KEEPER_GONE:
		error_set(&err, ERROR_INTERNAL, 0, "the keeper process was killed");
		return fail(s, &err);
	default:
		return OBTAINED_NOT_YET;
	}
}

/*
 * Gives up waiting: the keeper leaves the line, or gives back what it got this
 * very moment. A second signal is not made to wait for that.
 */
static void give_up(struct supervisor *s)
{
	int64_t until_ms = clock_boot_ms() + s->timeout_ms + KEEPER_GRACE_MS;
	struct keeper_event event;
	int sig;

	/* Local: nothing outlives the process. Not engaged: nothing was sent. */
	if (s->run->driver->local || !atomic_load(&s->shared->engaged)) {
		keeper_kill(&s->keeper);
		return;
	}
	keeper_release(&s->keeper, 0);
	while (s->keeper.pid && clock_boot_ms() < until_ms) {
		sleep_until(s, until_ms);
		while (keeper_event(&s->keeper, &event))
			if (event.type == KEEPER_BUSY || event.type == KEEPER_RELEASED ||
			    event.type == KEEPER_FAILED)
				until_ms = 0;
		while ((sig = signals_next(s->signals, NULL)))
			if (signals_fatal(s->signals, sig))
				until_ms = 0;
	}
	keeper_kill(&s->keeper);
}

/* true: the user wants this to end. */
static bool interrupted_waiting(struct supervisor *s)
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

static enum obtained wait_for_lock(struct supervisor *s)
{
	int64_t until_ms = after(s->started_ms, s->run->wait_ms), ahead = -1, tick_ms;
	enum obtained obtained = OBTAINED_NOT_YET;
	struct keeper_event event;

	/* -n is the keeper's affair: its one try may take as long as it needs. */
	if (s->run->wait_ms == 0)
		until_ms = CLOCK_NEVER;
	tick_ms = after(s->started_ms, s->hooks->tick_ms);
	while (obtained == OBTAINED_NOT_YET) {
		sleep_until(s, earlier(until_ms, tick_ms));
		if (interrupted_waiting(s))
			return OBTAINED_NO;
		while (obtained == OBTAINED_NOT_YET && keeper_event(&s->keeper, &event))
			obtained = hear_acquiring(s, &event, &ahead);
		if (obtained != OBTAINED_NOT_YET)
			break;
		if (clock_boot_ms() >= until_ms) {
			s->result->end = RUN_NOT_OBTAINED;
			return OBTAINED_NO;
		}
		if (clock_boot_ms() >= tick_ms) {
			tick_ms += s->hooks->tick_ms;
			if (ahead >= 0 || s->run->driver->local)
				show_waiting(s, ahead);
		}
	}
	return obtained;
}

static enum obtained obtain(struct supervisor *s)
{
	enum obtained obtained = OBTAINED_NOT_YET;
	struct error err = { 0 };

	if (s->run->driver->local) {
		obtained = try_local(s);
		if (obtained != OBTAINED_NOT_YET)
			return obtained;
		show_waiting(s, -1);
	}
	if (start_keeper(s, KEEPER_ACQUIRE, 0, &err))
		return fail(s, &err);
	/* The network takes its time: have the guard ready when the lock comes. */
	if (!s->run->driver->local && start_guard(s, &err))
		obtained = fail(s, &err);
	else
		obtained = wait_for_lock(s);
	s->hooks->waiting(s->hooks->context, NULL);
	if (obtained == OBTAINED_NO)
		give_up(s);
	return obtained;
}

/* ---- run ---- */

static void begin_stop(struct supervisor *s)
{
	int64_t ttl_ms = atomic_load(&s->shared->lease_ttl_ms);
	int64_t grace_ms = s->run->kill_after_ms;

	if (ttl_ms)
		grace_ms = lease_kill_after(ttl_ms, grace_ms);
	s->force_ms = earlier(s->force_ms, clock_boot_ms() + grace_ms + GUARD_GRACE_MS);
}

static void lose(struct supervisor *s, const char *how)
{
	const char *next = "; stopping the command";

	if (s->lost)
		return;
	s->lost = true;
	if (s->ended)
		next = ", at some time before the command ended";
	else if (!s->run->kill_on_lost)
		next = "; the command goes on (--on-lost warn)";
	say(s, SAY_WARNING, "lock lost: %s%s", how, next);
	if (s->run->kill_on_lost)
		begin_stop(s);
}

static void hear_holding(struct supervisor *s, const struct keeper_event *event)
{
	switch (event->type) {
	case KEEPER_LOST:
		lose(s, event->error.message);
		break;
	case KEEPER_TROUBLE:
		say(s, SAY_WARNING, "cannot renew the lock: %s; trying again",
		    event->error.message);
		break;
	case KEEPER_RENEWED:
		say(s, SAY_WARNING, "the lock is renewed again");
		break;
	case KEEPER_GONE:
		say(s, SAY_WARNING, "the keeper process was killed; the lock cannot be renewed");
		break;
	default:
		break;
	}
}

/* Ctrl-Z: dlock's own job stops as the command did; fg continues both. */
static void follow_stop(struct supervisor *s, int sig)
{
	bool foreground = terminal_take(&s->terminal, s->command);

	if (s->terminal.fd < 0 || (sig == SIGSTOP && !foreground))
		return;
	signals_stop_self(sig, true);
	if (terminal_ours(&s->terminal))
		terminal_give(&s->terminal, s->command);
	guard_signal(&s->guard, SIGCONT, true);
}

static void forward_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;
	int sig;

	while ((sig = signals_next(s->signals, &info))) {
		if (!signals_forwarded(sig))
			continue;
		if (sig == SIGCONT && s->command && terminal_ours(&s->terminal))
			terminal_give(&s->terminal, s->command);
		/* What the kernel sends, a terminal's Ctrl-C, is for a whole group. */
		guard_signal(&s->guard, sig, sig == SIGCONT || sig == SIGTSTP ||
			     info.ssi_code == SI_KERNEL);
	}
}

/* false: the tree is dead. */
static bool hear_guard(struct supervisor *s, const struct guard_event *event)
{
	switch (event->type) {
	case GUARD_STARTED:
		s->command = event->value;
		say(s, SAY_STEP, "command started, pid %d", event->value);
		break;
	case GUARD_EXEC_FAILED:
		s->result->end = RUN_EXEC_FAILED;
		s->result->error.errnum = event->value;
		s->reaped = true;
		break;
	case GUARD_STOPPED:
		follow_stop(s, event->value);
		break;
	case GUARD_EXPIRING:
		lose(s, "it was not renewed before its lease ran out");
		break;
	case GUARD_EXITED:
		s->result->status = event->value;
		s->reaped = true;
		s->result->from_terminal = terminal_take(&s->terminal, s->command);
		break;
	case GUARD_LEFTOVERS:
		say(s, SAY_WARNING, "the command left %d process%s running; ending %s",
		    event->value, event->value == 1 ? "" : "es",
		    event->value == 1 ? "it" : "them");
		begin_stop(s);
		break;
	case GUARD_EMPTY:
		guard_finish(&s->guard);
		return false;
	case GUARD_GONE:
		return false;
	}
	return true;
}

/* When the guard must be done; the second pair of eyes on every deadline. */
static int64_t force_at(const struct supervisor *s)
{
	struct lease_stop stop;

	if (!s->run->kill_on_lost || !s->protected)
		return s->force_ms;
	stop = lease_stop(atomic_load(&s->shared->lease_end_ms),
			  atomic_load(&s->shared->lease_ttl_ms), s->run->kill_after_ms);
	return earlier(s->force_ms, stop.force_ms);
}

static void run_command(struct supervisor *s)
{
	struct keeper_event keeper_said;
	struct guard_event guard_said;
	bool alive = true;

	guard_run(&s->guard, s->protected ? s->fence : 0);
	while (alive) {
		sleep_until(s, force_at(s));
		forward_signals(s);
		while (alive && guard_event(&s->guard, &guard_said))
			alive = hear_guard(s, &guard_said);
		while (s->protected && keeper_event(&s->keeper, &keeper_said))
			hear_holding(s, &keeper_said);
		if (alive && clock_boot_ms() >= force_at(s)) {
			lose(s, "it was not renewed before its lease ran out");
			break;
		}
	}
	/*
	 * A guard that went without a word, or does not act, leaves its tree to us;
	 * the command, its child, died with it (PR_SET_PDEATHSIG).
	 */
	if (s->guard.pid)
		guard_kill(&s->guard, s->keeper.pid);
	s->ended = true;
	s->last_lease_end_ms = atomic_load(&s->shared->lease_end_ms);
	terminal_take(&s->terminal, s->command);
	if (!s->reaped)
		s->result->status = SIGKILL;
}

/* ---- give back ---- */

/* The command is dead; was the lock held to its end? The keeper's last word says. */
static void hear_released(struct supervisor *s, const struct keeper_event *event)
{
	int64_t rest_ms = s->last_lease_end_ms - clock_boot_ms();
	char text[DURATION_TEXT_SIZE];

	if (event->type == KEEPER_RELEASED) {
		say(s, SAY_STEP, "released");
		return;
	}
	if (event->type == KEEPER_LOST) {
		lose(s, event->error.message);
		return;
	}
	/* Unknown; but a lease that has not run out was ours until now. */
	if (rest_ms <= 0) {
		lose(s, event->error.message);
		return;
	}
	say(s, SAY_WARNING, "could not release: %s; it lapses within %s",
	    event->error.message, duration_format(rest_ms, text, sizeof(text)));
}

/* Waits for the keeper's last word; true when it came. */
static bool await_release(struct supervisor *s)
{
	int64_t until_ms = clock_boot_ms() + 2 * s->timeout_ms + KEEPER_GRACE_MS;
	struct keeper_event event;
	int sig;

	while (clock_boot_ms() < until_ms) {
		sleep_until(s, until_ms);
		while (keeper_event(&s->keeper, &event)) {
			if (event.type == KEEPER_GONE)
				return false;
			if (event.type != KEEPER_RELEASED && event.type != KEEPER_LOST &&
			    event.type != KEEPER_FAILED)
				continue;
			hear_released(s, &event);
			return true;
		}
		while ((sig = signals_next(s->signals, NULL)))
			if (signals_fatal(s->signals, sig))
				until_ms = 0;
	}
	event = (struct keeper_event){ .type = KEEPER_FAILED };
	error_set(&event.error, ERROR_UNAVAILABLE, 0, "no answer in time");
	hear_released(s, &event);
	return true;
}

static void release_local(struct supervisor *s, int64_t keep_ms)
{
	struct keeper_event event = { .type = KEEPER_RELEASED };

	if (s->backend->ops->release(s->backend, &s->request, keep_ms,
				     &event.error) == OUTCOME_ERROR)
		event.type = KEEPER_FAILED;
	hear_released(s, &event);
}

static void give_back(struct supervisor *s)
{
	int64_t keep_ms = s->run->min_hold_ms - (clock_boot_ms() - s->held_ms);
	struct error err = { 0 };

	if (!s->run->min_hold_ms || keep_ms < 0)
		keep_ms = 0;
	if (s->keeper.pid)
		keeper_release(&s->keeper, keep_ms);
	if (s->keeper.pid && await_release(s)) {
		keeper_kill(&s->keeper);
		return;
	}
	if (s->run->driver->local)
		release_local(s, keep_ms);
	else if (start_keeper(s, KEEPER_RELEASE, keep_ms, &err))
		say(s, SAY_WARNING, "could not release: %s", err.message);
	else
		await_release(s);
	keeper_kill(&s->keeper);
}

/* ---- nested runs ---- */

static enum run_end verify_here(struct supervisor *s, struct error *err)
{
	s->backend = backend_open(s->run->driver, s->run->uri, err);
	if (!s->backend)
		return RUN_FAILED;
	switch (s->backend->ops->verify(s->backend, &s->request, err)) {
	case OUTCOME_HELD:
		return RUN_EXITED;
	case OUTCOME_LOST:
	case OUTCOME_BUSY:
		return RUN_LOST;
	case OUTCOME_ERROR:
		break;
	}
	return RUN_FAILED;
}

static enum run_end verify_by_keeper(struct supervisor *s, struct error *err)
{
	struct keeper_event event;

	if (start_keeper(s, KEEPER_VERIFY, 0, err))
		return RUN_FAILED;
	for (;;) {
		sleep_until(s, CLOCK_NEVER);
		if (interrupted_waiting(s))
			return RUN_INTERRUPTED;
		if (!keeper_event(&s->keeper, &event))
			continue;
		switch (event.type) {
		case KEEPER_HELD:
			return RUN_EXITED;
		case KEEPER_LOST:
			return RUN_LOST;
		case KEEPER_FAILED:
			*err = event.error;
			return RUN_FAILED;
		default:
			error_set(err, ERROR_INTERNAL, 0, "the keeper process was killed");
			return RUN_FAILED;
		}
	}
}

/* An ancestor says it holds this lock. If so, become the command under its hold. */
static void run_nested(struct supervisor *s)
{
	struct error *err = &s->result->error;

	s->result->end = s->run->driver->local ? verify_here(s, err)
					       : verify_by_keeper(s, err);
	keeper_kill(&s->keeper);
	if (s->result->end == RUN_LOST)
		error_set(err, ERROR_REFUSED, 0,
			  "the run that this one is nested in does not hold it any more");
	if (s->result->end != RUN_EXITED)
		return;
	say(s, SAY_STEP, "already held by an outer dlock run; fence %s",
	    getenv("DLOCK_FENCE"));
	signals_restore(s->signals);
	execvp(s->run->argv[0], s->run->argv);
	s->result->end = RUN_EXEC_FAILED;
	err->errnum = errno;
}

/* ---- all together ---- */

static void run_protected(struct supervisor *s)
{
	struct error err = { 0 };

	if (token_make(s->token, &err) || plan_guard(s, &err)) {
		fail(s, &err);
		return;
	}
	if (obtain(s) != OBTAINED_YES) {
		guard_finish(&s->guard);
		return;
	}
	if (s->protected)
		say(s, SAY_STEP, "acquired, fence %llu", (unsigned long long)s->fence);
	if (!s->guard.pid && start_guard(s, &err)) {
		fail(s, &err);
	} else {
		s->result->end = RUN_EXITED;
		run_command(s);
	}
	if (s->protected)
		give_back(s);
	if (s->lost && s->result->end == RUN_EXITED)
		s->result->end = RUN_LOST;
}

void supervise_run(const struct run_request *run, const struct run_hooks *hooks,
		   const struct signals *signals, struct run_result *result)
{
	struct supervisor s = {
		.run = run, .hooks = hooks, .signals = signals, .result = result,
		.guard_pipe = { -1, -1 }, .force_ms = CLOCK_NEVER,
		.started_ms = clock_boot_ms(), .terminal = { .fd = -1 },
		.request = { .name = run->name, .ttl_ms = run->ttl_ms,
			     .queue = run->wait_ms > 0 },
	};
	struct error err = { 0 };

	*result = (struct run_result){ .age_ms = -1 };
	s.request.token = s.token;
	if (uri_param_duration(run->uri, "timeout", 2000, &s.timeout_ms, &err) ||
	    map_shared(&s, &err)) {
		fail(&s, &err);
		return;
	}
	holder_self(&s.request.self, run->argv[0]);
	if (environment_find_hold(run->name, run->uri_text, s.token)) {
		run_nested(&s);
	} else {
		terminal_open(&s.terminal);
		run_protected(&s);
	}
	if (result->age_ms >= 0)
		result->age_ms = holder_age(&s);
	backend_close(s.backend);
}
