/* SPDX-License-Identifier: MIT */
/*
 * The guard's process: waits for the order to run the command, or takes the lock itself, and starts
 * the command. Then it sleeps in one poll() until the command ends, the supervisor or the keeper
 * says something, or a deadline comes. Whatever happens, it ends the command's tree before the
 * lease is over, and itself when nothing is left of the tree.
 */
#include "guarding.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "lock/lease.h"
#include "keeper.h"
#include "shared.h"

/* ---- before the command runs ---- */

/* What became of the command that was to be started. */
enum launched {
	LAUNCHED,		/* it was forked; whether it can be executed shows later */
	LAUNCH_ENDED,		/* the supervisor is gone or wants no command; or a failure */
	LAUNCH_TOO_LATE,
	LAUNCH_OVERDUE,		/* the time of --until has come already */
	LAUNCH_FAILED,		/* g->exec_failure or g->contain_failure */
};

/*
 * Sets the timers, before the lock is taken: from then on this process does not outlive the lease,
 * and is continued if it is stopped. The lease is read first, for no timer is set when it has
 * ended, and a renewal after that must not let the command start.
 */
static void arm(struct guarding *g)
{
	int64_t look_ms;

	g->start_by_ms = lease_stop(shared_lease(g->plan->shared), g->plan->kill_after_ms).term_ms;
	look_ms = guarding_arm(g);
	kernel_timer_set(&g->wake_timer, g->fence ? clock_earlier(g->start_by_ms, look_ms)
						  : CLOCK_NEVER);
}

/*
 * Reads a message of the keeper. True: it offers the lock, and this process has taken it. It does
 * not while the supervisor is stopped: a user who presses Ctrl-Z does not want the command to
 * begin.
 */
static bool take_word(struct guarding *g)
{
	struct shared *shared = g->plan->shared;
	struct keeper_word word;
	int hold_fd = -1;

	if (ipc_receive(g->plan->gate_fd, &word, sizeof(word), MSG_DONTWAIT, &hold_fd) ==
	    IPC_DONE && word.fence && g->plan->may_start &&
	    word.fence == atomic_load(&shared->fence)) {
		g->fence = word.fence;
		arm(g);
		if (!process_is_stopped(g->supervisor_stat) &&
		    shared_take(shared)) {
			g->hold_fd = hold_fd;
			return true;
		}
		g->fence = 0;
		arm(g);
	}
	if (hold_fd >= 0)
		close(hold_fd);
	return false;
}

/* Reads an order of the supervisor. True: it is to run. *ended: no command is wanted. */
static bool take_order(struct guarding *g, bool *ended)
{
	struct guard_order order;
	enum ipc_result received = ipc_receive(g->fd, &order, sizeof(order), MSG_DONTWAIT,
					       &g->hold_fd);

	if (received == IPC_LATER)
		return false;
	*ended = received != IPC_DONE || order.type != GUARD_ORDER_RUN;
	if (*ended)
		return false;
	g->fence = order.fence;
	arm(g);
	return true;
}

/*
 * Did the keeper give the lock back, because the supervisor was stopped before it gave the order?
 */
static bool is_withdrawn(const struct guarding *g)
{
	return g->fence && !shared_take(g->plan->shared) &&
	       atomic_load(&g->plan->shared->offer) == OFFER_WITHDRAWN;
}

/* Waits for the order to run, or the lock itself. */
static enum launched await_order(struct guarding *g)
{
	struct pollfd words[] = {
		{ .fd = g->fd, .events = POLLIN }, { .fd = g->plan->gate_fd, .events = POLLIN },
	};
	bool ended = false, started = false;

	while (!started && !ipc_has_failed(NULL)) {
		poll(words, 2, -1);
		if (words[0].revents)
			started = take_order(g, &ended);
		if (ended)
			return LAUNCH_ENDED;
		if (!started && words[1].revents)
			started = take_word(g);
		/* The keeper is gone. */
		if (words[1].revents & POLLHUP)
			words[1].fd = -1;
	}
	if (!started)
		return LAUNCH_ENDED;
	/* This process has taken the offer already, or an order came, or there is no offer. */
	if (is_withdrawn(g))
		return LAUNCH_TOO_LATE;
	/* Too little is left of the lease to begin. */
	return g->fence && clock_boot_ms() >= g->start_by_ms ? LAUNCH_TOO_LATE : LAUNCHED;
}

static enum launched launch_command(struct guarding *g)
{
	/* Asked here, for in a namespace the terminal's group has no number. */
	const bool foreground = terminal_is_free(g->plan->terminal);

	if (!g->plan->contain)
		return guarding_start_command(g, foreground) ? LAUNCH_FAILED : LAUNCHED;
	if (!guarding_contain(g, foreground))
		return LAUNCHED;
	g->child = 0;
	g->contain_failure = errno;
	return LAUNCH_FAILED;
}

/* The command begins now. */
static void begin_limit(struct guarding *g)
{
	const struct guard_plan *plan = g->plan;
	const int64_t now_ms = clock_boot_ms();
	int64_t max_run_at_ms = CLOCK_NEVER, until_at_ms = CLOCK_NEVER;

	if (plan->max_run_ms)
		max_run_at_ms = now_ms + plan->max_run_ms;
	if (plan->until_ms)
		until_at_ms = now_ms + (plan->until_ms - clock_wall_ms());
	g->limit = until_at_ms < max_run_at_ms ? GUARD_LIMIT_UNTIL : GUARD_LIMIT_MAX_RUN;
	g->limit_at_ms = clock_earlier(max_run_at_ms, until_at_ms);
}

/*
 * Waits until the supervisor or the keeper says so and starts the command, with g->fence and
 * g->hold_fd as they came.
 */
static enum launched launch(struct guarding *g)
{
	enum launched launched;

	if (g->plan->gate_fd >= 0)
		g->supervisor_stat = process_open_stat(getppid());
	launched = await_order(g);
	if (launched == LAUNCHED) {
		begin_limit(g);
		/* A limit of --max-run begins now, however short it is. */
		if (clock_boot_ms() >= g->limit_at_ms && g->limit == GUARD_LIMIT_UNTIL)
			launched = LAUNCH_OVERDUE;
	}
	return launched == LAUNCHED ? launch_command(g) : launched;
}

/* ---- while it runs ---- */

/* When this process is stopped again before it has acted, it is continued after this time. */
#define WAKE_AGAIN_MS 20

/*
 * Nothing is left of the tree: tells the keeper, which then releases, and the supervisor, and ends
 * this process. It has no deadline left to keep, so it may wait here for a supervisor that does not
 * read.
 */
static void __attribute__((noreturn)) finish(struct guarding *g, struct guard_event event)
{
	const int keeper_fd = g->plan->keeper_pipe_fd;
	const bool unused = g->exec_failure || g->contain_failure || !g->group;
	const char word = unused ? KEEPER_TOLD_UNUSED : KEEPER_TOLD_EMPTY;
	ssize_t told = 0;

	if (g->hold_fd >= 0 && g->plan->unlocks)
		flock(g->hold_fd, LOCK_UN);
	if (g->hold_fd >= 0)
		close(g->hold_fd);
	if (keeper_fd >= 0)
		told = write(keeper_fd, &word, 1);
	(void)told;	/* The supervisor deals with a keeper that is gone. */
	/*
	 * Only now: if this process is stopped before the keeper was told, the timers continue it,
	 * so that the lock does not stay taken.
	 */
	kernel_timer_set(&g->wake_timer, CLOCK_NEVER);
	kernel_timer_set(&g->kill_timer, CLOCK_NEVER);
	guarding_tell_last(g, event);
	_exit(0);
}

/*
 * Says how the command ended, and how many processes it left behind. These are ended now, or go on
 * under the lock.
 */
static void tell_end(struct guarding *g)
{
	int left;

	guarding_tell(g, (struct guard_event){ .type = GUARD_EXITED, .value = g->status });
	g->told_end = true;
	if (g->stopping)
		return;
	left = guarding_sweep(g, 0);
	/* At least one child is left, even if the sweep has not seen it. */
	if (g->plan->contain && left > 0)
		left--;		/* the namespace's init */
	guarding_tell(g, (struct guard_event){ .type = GUARD_LEFTOVERS,
					       .value = left > 0 ? left : 1 });
	if (!g->plan->wait_for_leftovers)
		guarding_stop(g, guarding_grace_end(g));
}

/* The guard's own child has stopped or ended: the command, or the init of its namespace. */
static void child_changed(struct guarding *g, int status)
{
	/* Reports come first. An init that was killed has not reported the command's end. */
	guarding_read_reports(g);
	if (!g->plan->contain)
		guarding_command_changed(g, status);
	else if (!g->ended)
		guarding_command_changed(g, SIGKILL);
	if (!WIFSTOPPED(status))
		g->child = 0;
}

/* What the supervisor hears last, when nothing is left. After a failure no status is known. */
static struct guard_event last_event(const struct guarding *g)
{
	if (g->contain_failure)
		return (struct guard_event){ .type = GUARD_NOT_CONTAINED,
					     .value = g->contain_failure };
	if (g->exec_failure)
		return (struct guard_event){ .type = GUARD_EXEC_FAILED,
					     .value = g->exec_failure };
	if (ipc_has_failed(NULL))
		return (struct guard_event){ .type = GUARD_EMPTY };
	return (struct guard_event){ .type = GUARD_EXITED, .value = g->status };
}

/*
 * Reaps; when nothing is left it tells the supervisor and ends this process. An init that was
 * stopped is continued after the loop, which would not end if somebody stopped it again and again.
 */
static void reap(struct guarding *g)
{
	bool init_stopped = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		guarding_sweep_soon(g);
		if (pid != g->child)
			continue;
		init_stopped = g->plan->contain && WIFSTOPPED(status);
		if (!init_stopped)
			child_changed(g, status);
	}
	if (init_stopped)
		kill(g->child, SIGCONT);
	if (pid < 0 && errno == ECHILD)
		finish(g, last_event(g));
	/* A child is left. With --contain that is always init, which reports leftovers itself. */
	if (g->ended && !g->plan->contain)
		g->leftovers = true;
	if (g->leftovers && !g->told_end && !g->exec_failure)
		tell_end(g);
}

/* ---- orders and deadlines ---- */

/*
 * Passes a signal on. target: the command, or its process group as a negative number. Leftovers get
 * it when the command has ended and they have not got TERM already, except for what the supervisor
 * would keep to itself if it knew of the end: see follow_job().
 */
static void forward(struct guarding *g, pid_t target, int sig)
{
	if (g->told_end && !g->stopping && sig != SIGTSTP && sig != SIGCONT)
		guarding_signal_leftovers(g, sig);
	else if (g->command && kill(target, sig) && errno == EPERM)
		guarding_tell(g, (struct guard_event){ .type = GUARD_STUCK, .value = g->command });
}

static void obey(struct guarding *g)
{
	struct guard_order order;
	enum ipc_result received = ipc_receive(g->fd, &order, sizeof(order), MSG_DONTWAIT, NULL);

	if (received == IPC_LATER)
		return;
	if (received != IPC_DONE) {
		/* The supervisor was killed. The keeper holds the lock until the guard is done. */
		g->fd = -1;
		guarding_stop(g, guarding_grace_end(g));
		return;
	}
	switch (order.type) {
	case GUARD_ORDER_SIGNAL:
		forward(g, g->command, order.sig);
		break;
	case GUARD_ORDER_SIGNAL_GROUP:
		forward(g, -g->command, order.sig);
		break;
	case GUARD_ORDER_STOP:
		guarding_stop(g, guarding_grace_end(g));
		break;
	case GUARD_ORDER_RUN:
		break;
	}
}

static void guard_loop(struct guarding *g)
{
	enum { SIGNALS, SUPERVISOR, LOST, REPORT, POLLED };
	struct pollfd fds[POLLED];

	for (;;) {
		int64_t wake_ms;

		/* The supervisor ends with the failure, and may not have heard of it. */
		if (ipc_has_failed(NULL))
			guarding_stop(g, guarding_grace_end(g));
		wake_ms = guarding_enforce(g);
		fds[SIGNALS] = (struct pollfd){ .fd = g->plan->signals->fd, .events = POLLIN };
		/* Orders wait until the command's number is known. */
		fds[SUPERVISOR] = (struct pollfd){
			.fd = g->command || g->ended ? g->fd : -1, .events = POLLIN
		};
		fds[LOST] = (struct pollfd){
			.fd = g->lost_seen ? -1 : g->plan->lost_fd, .events = POLLIN
		};
		fds[REPORT] = (struct pollfd){ .fd = g->report_fd, .events = POLLIN };
		/* The timer's SIGCONT shows at the signals' descriptor, also after a suspend. */
		kernel_timer_set(&g->wake_timer, wake_ms);
		poll(fds, POLLED, clock_poll_timeout(wake_ms));
		/* First, for the next holder waits; then again, for what the signals were about. */
		if (fds[REPORT].revents) {
			guarding_read_reports(g);
			/* An init that has ended may not be reaped while its namespace ends. */
			if (fds[REPORT].revents & POLLHUP && g->report_fd >= 0) {
				close(g->report_fd);
				g->report_fd = -1;
			}
		}
		reap(g);
		if (signals_drain(g->plan->signals))
			reap(g);
		if (fds[LOST].revents) {
			g->lost_seen = true;
			if (g->plan->kill_on_lost)
				guarding_stop(g, guarding_grace_end(g));
		}
		if (fds[SUPERVISOR].revents)
			obey(g);
	}
}

void guarding_main(const struct guard_plan *plan, int fd)
{
	struct guarding g = {
		.plan = plan, .fd = fd, .hold_fd = -1, .report_fd = -1, .supervisor_stat = -1,
		.told_start = !plan->tells_start,
	};

	/* A signal that ends or stops dlock's job must leave a process to enforce the lease. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "dlock-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	atomic_store(&plan->shared->guard, getpid());
	if (kernel_timer_open(&g.wake_timer, CLOCK_BOOTTIME, SIGCONT, WAKE_AGAIN_MS) ||
	    kernel_timer_open(&g.kill_timer, CLOCK_BOOTTIME, SIGKILL, 0))
		ipc_record_failure(IPC_TIMER, errno);
	switch (launch(&g)) {
	case LAUNCHED:
		break;
	case LAUNCH_TOO_LATE:
		guarding_tell(&g, (struct guard_event){ .type = GUARD_EXPIRING });
		finish(&g, (struct guard_event){ .type = GUARD_EMPTY });
	case LAUNCH_OVERDUE:
		guarding_tell(&g, (struct guard_event){ .type = GUARD_OVERDUE,
							.value = GUARD_LIMIT_UNTIL });
		finish(&g, (struct guard_event){ .type = GUARD_EMPTY });
	case LAUNCH_FAILED:
		finish(&g, last_event(&g));
	case LAUNCH_ENDED:
		_exit(0);
	}
	guard_loop(&g);
	_exit(0);	/* not reached */
}
