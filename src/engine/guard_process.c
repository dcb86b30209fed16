/* SPDX-License-Identifier: MIT */
/*
 * The guard's process. From its start to its end:
 *
 *	guard_main()
 *	  await_order()			waits for the order, and takes the lock
 *	  start_command()		then executes the command, by vfork(), which copies no
 *					memory and returns after the exec or its failure
 *	  start_contained()		or executes it in a namespace, for --contain
 *	  then in a loop, until nothing is left of the tree:
 *	    enforce_deadlines()		acts on the clock
 *	    read_reports()		reads the command's state in the namespace
 *	    reap_children()		ends this process when the tree is dead
 *	    stop_tree()			on a loss, or the supervisor's death
 *
 * It always ends the command's tree before the lease is over. It sends events to the supervisor,
 * and the processes of the namespace send reports to it. guard.c is the supervisor's side.
 */
#include "guard_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/kernel_timer.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "base/tree.h"
#include "lock/lease.h"
#include "environment.h"
#include "guard_command.h"
#include "guard_contain.h"

/* ---- how the tree is ended ---- */

/* The first and the longest pause between two sweeps of the tree. */
#define SWEEP_FIRST_MS 5
#define SWEEP_LAST_MS 1000

static struct lease_stop stop_of(const struct guarding *g)
{
	return shared_stop(g->job->shared, g->job->run, g->locked);
}

/* Send sig to the command's process group; without /proc, even when the command has ended. */
static void signal_group(const struct guarding *g, int sig)
{
	if (g->command)
		kill(-g->command, sig);
	else if (g->group && !tree_usable() && process_has_child(g->group))
		kill(-g->group, sig);
}

/* Send sig to all processes of the tree, until until_ms. Returns their number, or -1. */
static int sweep_tree(struct guarding *g, int sig, int64_t until_ms)
{
	static const struct tree_excluded none = { .pids = NULL };
	pid_t refused;
	const int count = tree_signal(&none, sig == SIGTERM ? g->command : 0, sig, until_ms,
				      &refused);

	if (refused)
		guard_send(g, (struct guard_event){ .type = GUARD_STUCK, .value = refused });
	return count;
}

static void kill_tree(struct guarding *g)
{
	signal_group(g, SIGKILL);
	/* The command may have changed its group. */
	if (g->command)
		kill(g->command, SIGKILL);
	/* A namespace ends with its init. */
	if (g->job->run->contain && g->child)
		kill(g->child, SIGKILL);
	/* Children that killed processes leave to this one must not wait for a long list. */
	sweep_tree(g, SIGKILL, clock_boot_ms() + g->sweep_pause_ms);
}

/* Sweep soon when a child has ended: its children are those of this process now. */
static void sweep_soon(struct guarding *g)
{
	if (!g->killing)
		return;
	g->sweep_pause_ms = SWEEP_FIRST_MS;
	g->sweep_at_ms = clock_earlier(g->sweep_at_ms, clock_boot_ms() + SWEEP_FIRST_MS);
}

/*
 * Begin to end the tree: TERM now, KILL after kill-after as far as the lease allows. If this has
 * begun already, the earlier KILL wins.
 */
static void stop_tree(struct guarding *g)
{
	const int64_t now_ms = clock_boot_ms();
	const int64_t grace_ms = lease_kill_after(shared_lease(g->job->shared).ttl_ms,
						  g->job->run->kill_after_ms);
	int64_t half_ms;

	if (g->stopping) {
		g->kill_at_ms = clock_earlier(g->kill_at_ms, now_ms + grace_ms);
		return;
	}
	g->stopping = true;
	g->kill_at_ms = clock_earlier(now_ms + grace_ms, stop_of(g).kill_ms);
	half_ms = now_ms + (g->kill_at_ms - now_ms) / 2;
	signal_group(g, SIGTERM);
	/* A stopped process would not handle TERM. */
	signal_group(g, SIGCONT);
	/* Only once, because the new children of a process may clean up for it. */
	sweep_tree(g, SIGTERM, half_ms);
	/* KILL takes long, too, where the tree is so large or the machine so slow. */
	if (clock_boot_ms() >= half_ms)
		g->kill_at_ms = half_ms;
}

/* ---- and when: before the lease ends, or on an order ---- */

/* Send why the command is stopped, or not begun. */
static void send_ending(const struct guarding *g, enum ending why)
{
	/* If this event is dropped, the supervisor reads the value with the last one. */
	atomic_fetch_or(&g->job->shared->endings, (int)why);
	guard_send(g, (struct guard_event){ .type = GUARD_ENDING });
}

/* Set the kill timer, and publish its time: the supervisor finds out whether it has fired. */
static void die_at(struct guarding *g, int64_t at_ms)
{
	kernel_timer_set(&g->kill_timer, at_ms);
	atomic_store(&g->job->shared->guard_dies_ms, g->kill_timer.at_ms);
}

/* Do the processes that must be dead at the end of the lease die with this process? */
static bool dies_with_guard(const struct guarding *g)
{
	/* A namespace does, with all that is left in it. */
	return !g->ended || g->job->run->contain;
}

/*
 * Set the kill timer to the end of the current lease while what dies with the guard lives and has
 * not got KILL. Later the guard must live, because it may be the only process that can sweep the
 * tree. A lease should have been renewed when half of it is left: lease_renew_at(). Returns when to
 * call this again (CLOCK_BOOTTIME).
 */
static int64_t arm_kill_timer(struct guarding *g)
{
	const struct lease_span lease = shared_lease(g->job->shared);
	const int64_t now_ms = clock_boot_ms(), check_ms = lease.end_ms - lease.ttl_ms / 2;

	if (!dies_with_guard(g) || g->killing || stop_of(g).term_ms == CLOCK_NEVER) {
		die_at(g, CLOCK_NEVER);
		return CLOCK_NEVER;
	}
	if (lease.end_ms > now_ms)
		die_at(g, lease.end_ms);
	return check_ms > now_ms ? check_ms : CLOCK_NEVER;
}

/* Act on the clock. Returns when to call this again (CLOCK_BOOTTIME). */
static int64_t enforce_deadlines(struct guarding *g)
{
	const struct lease_stop stop = stop_of(g);
	const int64_t begin_at = clock_earlier(stop.term_ms, g->limit_at_ms);
	int64_t now = clock_boot_ms(), check_ms = arm_kill_timer(g), kill_at;

	if (!g->stopping && now < begin_at)
		return clock_earlier(begin_at, check_ms);
	if (!g->stopping) {
		/* The lease or the time to run is about to end. */
		send_ending(g, now >= stop.term_ms ? ENDING_LEASE : g->limit);
		stop_tree(g);
	}
	kill_at = clock_earlier(g->kill_at_ms, stop.kill_ms);
	if (now < kill_at)
		return clock_earlier(kill_at, check_ms);
	g->killing = true;
	if (now >= g->sweep_at_ms) {
		/* The sweep takes as long as its pause. */
		atomic_store(&g->job->shared->guard_due_ms,
			     now + 2 * g->sweep_pause_ms + GUARD_GRACE_MS);
		kill_tree(g);
		/* The pauses grow while no child ends: it cannot be ended, or not yet. */
		g->sweep_at_ms = clock_boot_ms() + g->sweep_pause_ms;
		if (g->sweep_pause_ms < SWEEP_LAST_MS)
			g->sweep_pause_ms *= 2;
	}
	/* From here on the timer would only end the sweeps. */
	arm_kill_timer(g);
	return g->sweep_at_ms;
}

/* ---- the end ---- */

/*
 * The tree is dead: report this to the keeper, which then releases, and to the supervisor, and end
 * this process. No deadline is left, so the last event may wait until the supervisor reads.
 */
static void __attribute__((noreturn)) finish_and_exit(struct guarding *g)
{
	const struct run_request *run = g->job->run;
	struct guard_event event = { .type = GUARD_EMPTY, .last = true };
	ssize_t ignored;

	if (g->ended && !is_unused(g))
		event = (struct guard_event){ GUARD_EXITED, g->status, true };
	else	/* A command that was not executed has no minimum hold. */
		atomic_store(&g->job->shared->held_ms, 0);
	if (event.type == GUARD_EXITED && !event.value && (!g->stopping || g->ending_leftovers))
		atomic_store(&g->job->shared->succeeded, true);
	/*
	 * Free a lock of `file:` now, even if the supervisor is stopped. The supervisor's release
	 * reports the result, and retains a lock or its record.
	 */
	if (has_local_lock(g) && run->mode == HOLD_EXCLUSIVE && !run->min_hold_ms && !run->once_ms)
		flock(g->hold_fd, LOCK_UN);
	if (g->hold_fd >= 0)
		close(g->hold_fd);
	ignored = write(g->job->guard_pipe[1], "", 1);
	(void)ignored;	/* The supervisor handles a keeper that is gone. */
	/* Only now: until the keeper has the byte, the timers must continue a stopped guard. */
	kernel_timer_set(&g->wake_timer, CLOCK_NEVER);
	kernel_timer_set(&g->kill_timer, CLOCK_NEVER);
	guard_send(g, event);
	_exit(0);
}

/* ---- before the command runs ---- */

/* Set the limits of the command's time, which begins now. */
static void begin_limit(struct guarding *g)
{
	const struct run_request *run = g->job->run;
	const int64_t now_ms = clock_boot_ms();
	int64_t max_run_at_ms = CLOCK_NEVER, until_at_ms = CLOCK_NEVER;

	if (run->max_run_ms)
		max_run_at_ms = now_ms + run->max_run_ms;
	if (run->until_ms)
		until_at_ms = now_ms + (run->until_ms - clock_wall_ms());
	g->limit = until_at_ms < max_run_at_ms ? ENDING_UNTIL : ENDING_MAX_RUN;
	g->limit_at_ms = clock_earlier(max_run_at_ms, until_at_ms);
}

/*
 * Set the timers before the lock is taken: from then on this process does not outlive the lease,
 * and is continued for the limit, too, if it is stopped. The lease is read first: when it has ended
 * no timer is set, and a later renewal must not let the command start. Returns when it is too late
 * to start the command.
 */
static int64_t arm_timers(struct guarding *g)
{
	const int64_t start_by_ms = lease_stop(shared_lease(g->job->shared),
					       g->job->run->kill_after_ms).term_ms;
	const int64_t check_ms = arm_kill_timer(g);

	kernel_timer_set(&g->wake_timer, clock_earlier(
		g->limit_at_ms, g->locked ? clock_earlier(start_by_ms, check_ms) : CLOCK_NEVER));
	return start_by_ms;
}

/* The command is not started, because its time is over. */
static void __attribute__((noreturn)) refuse_and_exit(struct guarding *g, enum ending why)
{
	send_ending(g, why);
	finish_and_exit(g);
}

/*
 * Wait for the order to run, and take the keeper's offer. The keeper has withdrawn it if the
 * supervisor was stopped before the order. Ends the process if the supervisor is gone or needs no
 * command, or if it is too late.
 */
static void await_order(struct guarding *g)
{
	struct shared *shared = g->job->shared;
	enum ipc_result received = IPC_LATER;
	struct guard_order order;
	int64_t start_by_ms;

	while (received == IPC_LATER)
		received = ipc_receive(g->fd, &order, sizeof(order), 0, &g->hold_fd);
	if (received != IPC_DONE || order.sig)
		_exit(0);
	g->locked = order.locked;
	if (g->locked)
		environment_write_fence(atomic_load(&shared->fence));
	else
		environment_drop_hold(true);
	begin_limit(g);
	start_by_ms = arm_timers(g);
	/* There is no offer for a lock of `file:` or an outer hold. */
	if (g->locked && ((!shared_take(shared) &&
			   atomic_load(&shared->offer) == OFFER_WITHDRAWN) ||
			  clock_boot_ms() >= start_by_ms))
		refuse_and_exit(g, ENDING_LEASE);
}

/* ---- while it runs ---- */

/* The pause before a guard that is stopped again is continued. */
#define WAKE_AGAIN_MS 20

/*
 * Send how the command ended, and how many processes it left behind. These are ended now, or go on
 * under the lock, or with --leftovers leave go on alone.
 */
static void send_end(struct guarding *g)
{
	int left;

	guard_send(g, (struct guard_event){ .type = GUARD_EXITED, .value = g->status });
	g->end_sent = true;
	if (g->stopping)
		return;
	left = sweep_tree(g, 0, stop_of(g).term_ms);
	/* At least one child is left, even if the sweep has not seen it. */
	if (g->job->run->contain && left > 0)
		left--;		/* the namespace's init */
	guard_send(g,
		   (struct guard_event){ .type = GUARD_LEFTOVERS, .value = left > 0 ? left : 1 });
	if (g->job->run->leftovers == LEFTOVERS_LEAVE)
		finish_and_exit(g);
	if (g->job->run->leftovers == LEFTOVERS_WAIT)
		return;
	g->ending_leftovers = true;
	stop_tree(g);
}

/* Handle that the guard's child has stopped or ended: the command, or the init of its namespace. */
static void child_changed(struct guarding *g, int status)
{
	/* Reports come first. An init that was killed has not reported the command's end. */
	read_reports(g);
	if (!g->job->run->contain)
		command_changed(g, status);
	else if (!g->ended)
		command_changed(g, SIGKILL);
	if (!WIFSTOPPED(status))
		g->child = 0;
}

/*
 * Reap; when the tree is dead, finish. A stopped init is continued after the loop, which otherwise
 * would not end if the init were stopped again and again.
 */
static void reap_children(struct guarding *g)
{
	bool init_stopped = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		sweep_soon(g);
		if (pid != g->child)
			continue;
		init_stopped = g->job->run->contain && WIFSTOPPED(status);
		if (!init_stopped)
			child_changed(g, status);
	}
	if (init_stopped)
		kill(g->child, SIGCONT);
	if (pid < 0 && errno == ECHILD)
		finish_and_exit(g);
	/* A child is left. With --contain it is init, which reports leftovers. */
	if (g->ended && !g->job->run->contain)
		g->leftovers = true;
	if (g->leftovers && !g->end_sent && !is_unused(g))
		send_end(g);
}

/* ---- orders and deadlines ---- */

/*
 * Pass a signal on to the command or its process group. Leftovers get it after the command's end,
 * unless they got TERM, except for the signals that the supervisor does not pass on after the end:
 * see follow_job().
 */
static void obey_order(struct guarding *g)
{
	struct guard_order order;
	enum ipc_result received = ipc_receive(g->fd, &order, sizeof(order), MSG_DONTWAIT, NULL);

	if (received == IPC_LATER)
		return;
	if (received != IPC_DONE) {
		/* The supervisor was killed. The keeper holds the lock until the guard is done. */
		g->fd = -1;
		stop_tree(g);
		return;
	}
	if (g->end_sent && !g->stopping && order.sig != SIGTSTP && order.sig != SIGCONT) {
		signal_group(g, order.sig);
		sweep_tree(g, order.sig, stop_of(g).term_ms);
	} else if (g->command && kill(order.group ? -g->command : g->command, order.sig) &&
		   errno == EPERM) {
		guard_send(g, (struct guard_event){ .type = GUARD_STUCK, .value = g->command });
	}
}

static void __attribute__((noreturn)) guard_loop(struct guarding *g)
{
	enum { SIGNALS, SUPERVISOR, LOST, REPORT, POLLED };
	struct pollfd fds[POLLED] = {
		[SIGNALS] = { .fd = g->job->signals->fd, .events = POLLIN },
		[SUPERVISOR] = { .events = POLLIN },
		[LOST] = { .fd = g->job->lost_fd, .events = POLLIN },
		[REPORT] = { .events = POLLIN },
	};
	eventfd_t losses;
	int64_t wake_ms;

	for (;;) {
		wake_ms = enforce_deadlines(g);
		/* Orders wait until the command's pid is known. */
		fds[SUPERVISOR].fd = g->command || g->ended ? g->fd : -1;
		fds[REPORT].fd = g->report_fd;
		/* The timer's SIGCONT shows at the signals' descriptor, also after a suspend. */
		kernel_timer_set(&g->wake_timer, wake_ms);
		poll(fds, POLLED, clock_poll_timeout(wake_ms));
		/* First, because the next holder waits; then again for the signals' children. */
		if (fds[REPORT].revents)
			read_reports(g);
		reap_children(g);
		if (signals_drain(g->job->signals))
			reap_children(g);
		if (fds[LOST].revents) {
			eventfd_read(g->job->lost_fd, &losses);
			if (g->job->run->kill_on_lost)
				stop_tree(g);
		}
		if (fds[SUPERVISOR].revents)
			obey_order(g);
	}
}

void guard_main(const struct job *job, int fd)
{
	struct guarding g = {
		.job = job, .fd = fd, .hold_fd = -1, .report_fd = -1,
		.sweep_pause_ms = SWEEP_FIRST_MS,
	};
	bool foreground;

	/* A signal that ends or stops dlock's job must leave a process to enforce the lease. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "dlock-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* That of a guard before this one. */
	atomic_store(&job->shared->start_failed, false);
	if (kernel_timer_open(&g.wake_timer, CLOCK_BOOTTIME, SIGCONT, WAKE_AGAIN_MS) ||
	    kernel_timer_open(&g.kill_timer, CLOCK_BOOTTIME, SIGKILL, 0)) {
		fail_to_start(&g, "cannot guard the command: timer_create");
		_exit(0);
	}
	await_order(&g);
	/* A limit of --max-run has only begun. */
	if (clock_boot_ms() >= g.limit_at_ms && g.limit == ENDING_UNTIL)
		refuse_and_exit(&g, ENDING_UNTIL);
	/* Asked here, because in a namespace the terminal's group has no number. */
	foreground = terminal_is_free(&job->terminal);
	if (job->run->contain ? start_contained(&g, foreground) : start_command(&g, foreground))
		finish_and_exit(&g);
	guard_loop(&g);
}
