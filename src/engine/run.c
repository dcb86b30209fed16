/* SPDX-License-Identifier: MIT */
/*
 * One run: acquire the lock, run the command, release the lock. While the command runs, the
 * supervisor handles signals, the terminal, events and deadlines.
 */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/signals.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "obtain.h"
#include "release.h"

/* ---- while the command runs ---- */

/* Return the pid of the command; 0: not started yet. */
static pid_t command_of(const struct supervisor *s)
{
	return atomic_load(&s->job.shared->command);
}

static void handle_holding(struct supervisor *s, const struct keeper_event *event)
{
	if (event->last)
		s->last_word = *event;
	/* The keeper may report the release before this process has read the end. */
	if (event->last && event->type != KEEPER_GONE)
		return;
	if (event->type == KEEPER_LOST)
		supervisor_lose(s, event->error.message);
	else if (event->type == KEEPER_TROUBLE)
		supervisor_report(s, EVENT_NOT_RENEWED, LEVEL_WARNING,
				  "cannot renew the lock: %s; trying again", event->error.message);
	else if (event->type == KEEPER_RENEWED)
		supervisor_report(s, EVENT_RENEWED, LEVEL_WARNING, "the lock is renewed again");
	/* A failure is reported at the end. */
	else if (event->type == KEEPER_GONE && !ipc_has_failed(NULL))
		supervisor_report(s, EVENT_NOT_RENEWED, LEVEL_WARNING,
				  "%s; the lock cannot be renewed", event->error.message);
}

/*
 * The pause between two continuations of a command that needs the terminal and stops again at once:
 * dlock's job cannot be stopped if no shell could continue it.
 */
#define CONTINUE_MS 100

/* Continue the command if that is due. Returns when to call this again; CLOCK_NEVER: no need. */
static int64_t continue_command(struct supervisor *s)
{
	const int64_t now_ms = clock_boot_ms();

	if (now_ms >= s->continue_ms) {
		s->continue_ms = CLOCK_NEVER;
		s->continued_ms = now_ms;
		guard_signal(&s->guard, SIGCONT, true);
	}
	return s->continue_ms;
}

/* After Ctrl-Z, stop dlock's own job as the command did; fg continues both. */
static void follow_stop(struct supervisor *s, int sig)
{
	bool foreground;

	if (terminal_lend(&s->job.terminal, command_of(s), sig)) {
		guard_signal(&s->guard, SIGCONT, true);
		return;
	}
	foreground = terminal_take(&s->job.terminal, command_of(s));
	if (s->job.terminal.fd < 0 || (sig == SIGSTOP && !foreground))
		return;
	/* A job that was stopped and continued must not be stopped a second time. */
	signals_stop_self(sig, !s->job.terminal.stop_typed);
	s->job.terminal.stop_typed = false;
	if (terminal_is_free(&s->job.terminal))
		terminal_give(&s->job.terminal, command_of(s));
	s->continue_ms = s->continued_ms + CONTINUE_MS;
}

/*
 * Handle Ctrl-Z and fg after the command's end, because its leftovers are not in the foreground.
 * True: sig is one of these, and is not passed on.
 */
static bool follow_job(int sig)
{
	if (sig == SIGTSTP)
		signals_stop_self(sig, false);
	return sig == SIGTSTP || sig == SIGCONT || sig == SIGTTIN || sig == SIGTTOU;
}

static void forward_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;
	int sig;

	while ((sig = signals_next(s->job.signals, &info))) {
		/* `dlock break` asks for a check at once. */
		if (sig == SIGURG)
			s->check_ms = 0;
		if (s->awaits_leftovers && follow_job(sig))
			continue;
		if ((sig == SIGTTIN || sig == SIGTTOU) && info.ssi_code == SI_KERNEL)
			terminal_wanted(&s->job.terminal, command_of(s));
		/* This process has sent it for the terminal. */
		if (sig == SIGCONT && info.ssi_pid == (uint32_t)getpid())
			continue;
		if (sig == SIGTSTP || sig == SIGCONT)
			s->job.terminal.stop_typed = sig == SIGTSTP && info.ssi_code == SI_KERNEL;
		/* These are for this process alone. */
		if (sig == SIGCHLD || sig == SIGPIPE || sig == SIGTTIN || sig == SIGTTOU)
			continue;
		if (sig == SIGCONT && command_of(s) && terminal_is_free(&s->job.terminal))
			terminal_give(&s->job.terminal, command_of(s));
		/* Signals of the kernel, as a terminal's Ctrl-C, are for the whole group. */
		guard_signal(&s->guard, sig, sig == SIGCONT || sig == SIGTSTP ||
			     info.ssi_code == SI_KERNEL);
	}
}

/* Report once that a process may not be signalled. */
static void report_stuck(struct supervisor *s, pid_t pid)
{
	if (s->stuck_reported)
		return;
	s->stuck_reported = true;
	supervisor_log(s, LEVEL_ERROR, "process %d of user %u may not be signalled by this user; "
		       "the lock stays taken until that process ends", (int)pid,
		       (unsigned)process_user(pid));
}

/* Check whether the command was never executed, and set the result. */
static void check_unused(struct supervisor *s)
{
	const int exec_failure = atomic_load(&s->job.shared->exec_failure);

	if (exec_failure) {
		s->result->end = RUN_EXEC_FAILED;
		s->result->error.errnum = exec_failure;
	} else if (atomic_load(&s->job.shared->start_failed)) {
		s->result->end = RUN_FAILED;
		s->result->error = s->job.shared->start_error;
	}
}

static void handle_leftovers(struct supervisor *s, int count)
{
	const bool one = count == 1;

	s->awaits_leftovers = s->job.run->leftovers == LEFTOVERS_WAIT;
	if (s->job.run->leftovers != LEFTOVERS_KILL) {
		supervisor_report(s, EVENT_LEFTOVERS, LEVEL_STEP,
				  "the command has ended and left %d process%s running%s%s", count,
				  one ? "" : "es", s->awaits_leftovers
				  ? "; keeping the lock until " : " (--leftovers leave)",
				  !s->awaits_leftovers ? "" : one ? "it ends" : "they end");
		return;
	}
	supervisor_report(s, EVENT_LEFTOVERS, LEVEL_WARNING,
			  "the command left %d process%s running; ending %s (see --leftovers)",
			  count, one ? "" : "es", one ? "it" : "them");
	supervisor_begin_stop(s);
}

static void handle_exited(struct supervisor *s, int status)
{
	/* The last event repeats it. */
	if (s->result->facts.has_status)
		return;
	s->result->status = s->result->facts.status = status;
	s->result->facts.has_status = true;
	s->result->from_terminal = terminal_take(&s->job.terminal, command_of(s));
	supervisor_report(s, EVENT_ENDED, LEVEL_STEP, WIFSIGNALED(status)
			  ? "the command was killed by signal %d"
			  : "the command ended with status %d",
			  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Report why the guard ends the command. */
static void handle_endings(struct supervisor *s)
{
	const int endings = atomic_load(&s->job.shared->endings);

	if (endings & ENDING_LEASE)
		supervisor_expire(s);
	if (endings & (ENDING_MAX_RUN | ENDING_UNTIL))
		supervisor_overdue(s, endings & ENDING_MAX_RUN);
}

/* Handle an event of the guard. False: its process has ended, or the tree is dead. */
static bool handle_guard(struct supervisor *s, const struct guard_event *event)
{
	switch (event->type) {
	case GUARD_STUCK:
		report_stuck(s, event->value);
		/* The guard acts; this process could not do more. */
		s->force_ms = CLOCK_NEVER;
		break;
	case GUARD_STOPPED:
		follow_stop(s, event->value);
		break;
	case GUARD_EXITED:
		handle_exited(s, event->value);
		break;
	case GUARD_LEFTOVERS:
		handle_leftovers(s, event->value);
		break;
	case GUARD_ENDING:
	case GUARD_EMPTY:
		break;
	case GUARD_GONE:
		return false;
	}
	handle_endings(s);
	s->ended = event->last;
	return !event->last;
}

/*
 * Return the end of a lease that is not enforced (--on-lost warn): then the lock is lost, even if
 * the server does not answer.
 */
static int64_t unenforced_end(const struct supervisor *s)
{
	if (s->job.run->kill_on_lost || !s->protected || s->lost)
		return CLOCK_NEVER;
	return shared_lease(s->job.shared).end_ms;
}

/* Return when to stop the command for the current lease. */
static struct lease_stop stop_of(const struct supervisor *s)
{
	return shared_stop(s->job.shared, s->job.run, s->protected);
}

/*
 * Return when this process ends the tree, because it watches deadlines, too: not while the guard is
 * at work.
 */
static int64_t force_at(const struct supervisor *s)
{
	const int64_t due_ms = atomic_load(&s->job.shared->guard_due_ms);
	const int64_t force_ms = clock_earlier(s->force_ms, stop_of(s).force_ms);

	return force_ms > due_ms ? force_ms : due_ms;
}

/*
 * Check a local lock, which has no keeper, because `dlock break` may take it away: as often as a
 * lease would be renewed. Returns when to check again.
 */
static int64_t check_local(struct supervisor *s)
{
	struct request request = s->job.request;
	struct error err = { 0 };

	if (!s->job.backend || !s->protected || s->lost)
		return CLOCK_NEVER;
	if (clock_boot_ms() < s->check_ms)
		return s->check_ms;
	request.text = NULL;
	if (hold_renew(s->job.backend, &request, &s->job.local_grant, &err) == OUTCOME_LOST) {
		eventfd_write(s->job.lost_fd, 1);
		supervisor_lose(s, err.message);
		return CLOCK_NEVER;
	}
	s->check_ms = lease_renew_at(clock_boot_ms(), s->job.run->ttl_ms);
	return s->check_ms;
}

/*
 * Kill the command's group while /proc shows no tree. This process can only wait for the guard's
 * orphans, which are its children now; the keeper is one, too, so the wait ends with the lease.
 * True: wait on.
 */
static bool kill_unseen(const struct supervisor *s, int64_t lease_end_ms)
{
	if (command_of(s) && process_has_child(command_of(s)))
		kill(-command_of(s), SIGKILL);
	return s->knows_excluded && clock_boot_ms() < lease_end_ms && process_has_child(0);
}

/*
 * End the tree of a guard that is dead or does not act. The command, its child, dies with it
 * (PR_SET_PDEATHSIG).
 */
static void end_tree(struct supervisor *s)
{
	const int64_t lease_end_ms = shared_lease(s->job.shared).end_ms;
	int64_t pause_ms = 5;
	pid_t refused;
	int left;

	child_end(&s->guard);
	while ((left = tree_signal(&s->excluded, 0, SIGKILL, clock_boot_ms() + pause_ms,
				   &refused)) != 0) {
		if (left < 0 && !kill_unseen(s, lease_end_ms))
			break;
		if (refused)
			report_stuck(s, refused);
		supervisor_pause(s, clock_boot_ms() + pause_ms);
		if (pause_ms < 1000)
			pause_ms *= 2;
	}
	supervisor_check_proc(s);
}

/* Run the command until its whole tree is dead. The guard must be started. */
static void run_command(struct supervisor *s)
{
	struct keeper_event from_keeper;
	struct guard_event from_guard;
	int64_t wake_ms;
	bool alive = true;

	/* Before the order, so that this line comes before the command's output. */
	supervisor_report(s, EVENT_STARTED, LEVEL_STEP, "running %s", s->job.run->command);
	guard_run(&s->guard, s->protected,
		  s->job.backend ? s->job.local_grant.hold_fd : s->keeper.hold_fd);
	s->check_ms = lease_renew_at(clock_boot_ms(), s->job.run->ttl_ms);
	while (alive) {
		wake_ms = check_local(s);
		if (clock_boot_ms() >= unenforced_end(s))
			supervisor_expire(s);
		wake_ms = clock_earlier(clock_earlier(force_at(s), wake_ms), unenforced_end(s));
		supervisor_sleep(s, clock_earlier(wake_ms, continue_command(s)));
		forward_signals(s);
		while (alive && guard_event(&s->guard, &from_guard))
			alive = handle_guard(s, &from_guard);
		while (s->protected && !s->last_word.last &&
		       keeper_event(&s->keeper, &from_keeper))
			handle_holding(s, &from_keeper);
		if (alive && clock_boot_ms() >= stop_of(s).force_ms)
			supervisor_expire(s);
		if (clock_boot_ms() >= force_at(s))
			break;
	}
	check_unused(s);
	/* A guard that was killed by its timer has not reported why. */
	if (!s->ended && clock_boot_ms() >= stop_of(s).term_ms)
		supervisor_expire(s);
	else if (!s->ended && clock_boot_ms() >= atomic_load(&s->job.shared->guard_dies_ms))
		supervisor_lose(s, "the guard process did not act before the end of a lease");
	if (!s->ended)
		end_tree(s);
	/* A command that was never started has no minimum hold. */
	if (!command_of(s))
		atomic_store(&s->job.shared->held_ms, 0);
	s->ended = true;
	s->ended_ms = clock_boot_ms();
	s->last_lease = shared_lease(s->job.shared);
	/* Continue also processes that were stopped since the command's end. */
	terminal_wanted(&s->job.terminal, command_of(s));
	terminal_take(&s->job.terminal, command_of(s));
	if (!s->result->facts.has_status)
		s->result->status = SIGKILL;
}

/* ---- the run ---- */

/* Join an outer hold, or acquire; run the command; release. */
static void run_protected(struct supervisor *s)
{
	int64_t ignored_ms;
	struct error err = { 0 };
	enum acquired acquired = obtain_joined(s, KEEPER_JOIN, &ignored_ms);

	if (s->job.joined) {
		s->protected = true;
		s->result->facts.acquired_ms = clock_boot_ms();
		supervisor_report(s, EVENT_JOINED, LEVEL_STEP,
				  "already held, with the token in DLOCK_TOKEN");
	}
	if (acquired == ACQUIRED_NOT_YET)
		acquired = obtain_lock(s);
	if (acquired != ACQUIRED_YES) {
		child_end(&s->guard);
		return;
	}
	supervisor_check_guard(s);
	if (!s->guard.pid && supervisor_start_guard(s, &err)) {
		atomic_store(&s->job.shared->held_ms, 0);
		supervisor_fail(s, &err);
	} else {
		s->result->end = RUN_EXITED;
		run_command(s);
	}
	if (s->protected)
		supervisor_release(s);
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

	if (supervisor_init(&s, run, hooks, signals, result, &err)) {
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
	/* A loss of the lock, or the command's end, may not have been reported. */
	if (result->end == RUN_EXITED && ipc_has_failed(&result->error))
		result->end = RUN_FAILED;
	if (s.overdue && result->end == RUN_EXITED)
		result->end = RUN_OVERDUE;
	result->facts.over_ms = clock_boot_ms();
	/* This process may have been stopped before the guard took the offer. */
	if (result->facts.acquired_ms && atomic_load(&s.job.shared->held_ms))
		result->facts.acquired_ms = atomic_load(&s.job.shared->held_ms);
	backend_close(s.job.backend);
	if (s.lost && result->end == RUN_LOST && run->on_lost_run)
		run_on_lost(&s);
}
