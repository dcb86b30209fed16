/* SPDX-License-Identifier: MIT */
/*
 * The guard's process: launches the command, then sleeps in one poll() until the command ends,
 * the supervisor or the keeper says something, or a deadline comes. Whatever happens, it ends
 * the command's tree before the lease is over, and itself when nothing is left of the tree.
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
#include "base/proctable.h"
#include "base/signals.h"
#include "lock/lease.h"
#include "keeper.h"
#include "shared.h"

/* While the tree is being ended, the pause between two looks for what is left of it. */
#define SWEEP_FIRST_MS 5
#define SWEEP_LAST_MS 1000

/* Should this process be stopped again before it has acted, it is continued after so long. */
#define WAKE_AGAIN_MS 20

/* ---- words to the supervisor ---- */

/* False when there is no room now. A supervisor that is gone hears nothing any more. */
static bool send_event(const struct guarding *g, const struct guard_event *event, int flags)
{
	return g->fd < 0 || send(g->fd, event, sizeof(*event), flags | MSG_NOSIGNAL) >= 0 ||
	       errno != EAGAIN;
}

static void flush_events(struct guarding *g, int flags)
{
	if (!g->has_pending)
		return;
	for (int type = 0; type < GUARD_EVENT_TYPES; type++) {
		if (!g->is_pending[type])
			continue;
		if (!send_event(g, &g->pending[type], flags))
			return;
		g->is_pending[type] = false;
	}
	g->has_pending = false;
}

void guarding_flush(struct guarding *g)
{
	flush_events(g, MSG_DONTWAIT);
}

void guarding_tell(struct guarding *g, struct guard_event event)
{
	if (!g->has_pending && send_event(g, &event, MSG_DONTWAIT))
		return;
	g->pending[event.type] = event;
	g->is_pending[event.type] = true;
	g->has_pending = true;
}

/*
 * Nothing is left of the tree: tells the keeper, which then releases, and the supervisor, and ends
 * this process. It has no deadline left to keep, so it may wait here for a supervisor that does not
 * read.
 */
static void __attribute__((noreturn)) finish(struct guarding *g, struct guard_event event)
{
	const int keeper_fd = g->plan->keeper_pipe_fd;
	const bool unused = g->exec_failure || g->contain_failure;
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
	flush_events(g, 0);
	event.last = true;
	send_event(g, &event, 0);
	_exit(0);
}

/* ---- ending the tree ---- */

/* Sends sig to the command's process group. Without /proc also when the command itself is gone. */
static void signal_group(const struct guarding *g, int sig)
{
	const pid_t group = g->blind ? g->group : g->command;

	if (group)
		kill(-group, sig);
}

/* Kills what is found without a look at all processes there are; most often that is all. */
static void kill_at_hand(struct guarding *g)
{
	signal_group(g, SIGKILL);
	/* It may have changed its group. */
	if (g->command)
		kill(g->command, SIGKILL);
	/* All of a namespace ends with its init. */
	if (g->plan->contain && g->child)
		kill(g->child, SIGKILL);
	proctree_kill_listed();
}

/*
 * Sends sig to all that is left of the tree, once to each process. Returns how many living
 * processes there are, -1 where nobody can tell.
 */
static int sweep(struct guarding *g, int sig, struct proctree_memory *memory)
{
	const struct proctree_scope scope = { .skip_group = sig == SIGTERM ? g->command : 0 };
	struct proctree_report report;

	if (proctree_signal(&scope, sig, memory, &report) < 0)
		return -1;
	if (report.refused_pid)
		guarding_tell(g, (struct guard_event){ .type = GUARD_STUCK,
						       .value = report.refused_pid,
						       .uid = report.refused_user });
	return report.alive;
}

/* Begins to end the tree, with KILL at kill_at_ms; an earlier KILL wins. */
static void begin_stop(struct guarding *g, int64_t kill_at_ms)
{
	if (g->stopping) {
		g->kill_at_ms = clock_earlier(g->kill_at_ms, kill_at_ms);
		return;
	}
	g->stopping = true;
	g->kill_at_ms = kill_at_ms;
	g->sweep_pause_ms = SWEEP_FIRST_MS;
	g->sweep_at_ms = clock_boot_ms() + SWEEP_FIRST_MS;
	signal_group(g, SIGTERM);
	/* What is stopped could not act on it. */
	signal_group(g, SIGCONT);
	sweep(g, SIGTERM, &g->termed);
}

static int64_t grace_end(const struct guarding *g)
{
	return clock_boot_ms() +
	       lease_grace(shared_lease(g->plan->shared), g->plan->kill_after_ms);
}

/*
 * Looks for what was hidden when the last look was taken. While new processes are found the next
 * look comes soon, for they may fork faster than we look; else later and later, for what is left
 * cannot be ended by us, or not yet.
 */
static void sweep_again(struct guarding *g, int sig, struct proctree_memory *memory)
{
	const size_t known = memory->count;

	sweep(g, sig, memory);
	if (memory->count > known)
		g->sweep_pause_ms = SWEEP_FIRST_MS;
	else if (g->sweep_pause_ms < SWEEP_LAST_MS)
		g->sweep_pause_ms *= 2;
	g->sweep_at_ms = clock_boot_ms() + g->sweep_pause_ms;
}

/* ---- the command's end ---- */

/* Says how the command ended, and how many processes it left behind, which are ended now. */
static void tell_end(struct guarding *g)
{
	int left;

	guarding_tell(g, (struct guard_event){ .type = GUARD_EXITED, .value = g->status });
	g->told_end = true;
	if (g->stopping)
		return;
	left = sweep(g, 0, NULL);
	/* A child is left, if only one that nobody has seen yet. */
	if (g->plan->contain && left > 0)
		left--;		/* the namespace's init */
	guarding_tell(g, (struct guard_event){ .type = GUARD_LEFTOVERS,
					       .value = left > 0 ? left : 1 });
	begin_stop(g, grace_end(g));
}

void guarding_command_changed(struct guarding *g, int status)
{
	if (WIFSTOPPED(status)) {
		guarding_tell(g, (struct guard_event){ .type = GUARD_STOPPED,
						       .value = WSTOPSIG(status) });
		return;
	}
	g->command = 0;
	g->ended = true;
	g->status = status;
}

/* The guard's own child has stopped or ended: the command, or the init of its namespace. */
static void child_changed(struct guarding *g, int status)
{
	if (g->plan->contain && WIFSTOPPED(status)) {
		kill(g->child, SIGCONT);
		return;
	}
	/* What was said before. An init that was killed has said nothing of the command's end. */
	guarding_read_reports(g);
	if (!g->plan->contain)
		guarding_command_changed(g, status);
	else if (!g->ended)
		guarding_command_changed(g, SIGKILL);
	if (!WIFSTOPPED(status))
		g->child = 0;
}

/* What the supervisor hears last, when nothing is left. */
static struct guard_event last_event(const struct guarding *g)
{
	if (g->contain_failure)
		return (struct guard_event){ .type = GUARD_NOT_CONTAINED,
					     .value = g->contain_failure };
	if (g->exec_failure)
		return (struct guard_event){ .type = GUARD_EXEC_FAILED,
					     .value = g->exec_failure };
	if (g->told_end)
		return (struct guard_event){ .type = GUARD_EMPTY };
	return (struct guard_event){ .type = GUARD_EXITED, .value = g->status };
}

/* Reaps; when nothing is left it tells the supervisor and ends this process. */
static void reap(struct guarding *g)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
		if (pid == g->child)
			child_changed(g, status);
	if (pid < 0 && errno == ECHILD)
		finish(g, last_event(g));
	/* A child of this process is left: but the init of a namespace only says so itself. */
	if (g->ended && !g->plan->contain)
		g->leftovers = true;
	if (g->leftovers && !g->told_end && !g->exec_failure)
		tell_end(g);
}

/* ---- orders and deadlines ---- */

/* Passes a signal on. target: the command, or its process group as a negative number. */
static void forward(struct guarding *g, pid_t target, int sig)
{
	if (g->command && kill(target, sig) && errno == EPERM)
		guarding_tell(g, (struct guard_event){ .type = GUARD_STUCK, .value = g->command,
						       .uid = proctable_user(g->command) });
}

static void obey(struct guarding *g)
{
	struct guard_order order;
	ssize_t length = recv(g->fd, &order, sizeof(order), MSG_DONTWAIT);

	if (length < 0 && errno == EAGAIN)
		return;
	if (length != (ssize_t)sizeof(order)) {
		/* The supervisor was killed. The keeper holds on until we are gone. */
		g->fd = -1;
		begin_stop(g, grace_end(g));
		return;
	}
	switch (order.type) {
	case ORDER_SIGNAL:
		forward(g, g->command, order.sig);
		break;
	case ORDER_SIGNAL_GROUP:
		forward(g, -g->command, order.sig);
		break;
	case ORDER_STOP:
		begin_stop(g, grace_end(g));
		break;
	case ORDER_PING:
		guarding_tell(g, (struct guard_event){ .type = GUARD_PONG });
		break;
	case ORDER_RUN:
		break;
	}
}

/* When the command must be stopped; never where nothing but a word is said of a loss. */
static struct lease_stop stop_of(const struct guarding *g, struct lease_span lease)
{
	if (!g->plan->kill_on_lost || !g->fence)
		lease.end_ms = CLOCK_NEVER;
	return lease_stop(lease, g->plan->kill_after_ms);
}

/* The supervisor reads it, to know of a guard that is gone whether this was why. */
static void die_at(struct guarding *g, int64_t at_ms)
{
	kernel_timer_set(&g->kill_timer, at_ms);
	atomic_store(&g->plan->shared->guard_dies_ms, g->kill_timer.at_ms);
}

/*
 * The timer stands at the end of the lease as it is known now, as long as the command lives and has
 * not got KILL. After that a slow guard is better than none, for nobody else might be left to look
 * for the rest. A lease should have been renewed after half of it (lease.h).
 */
int64_t guarding_arm(struct guarding *g)
{
	const struct lease_span lease = shared_lease(g->plan->shared);
	const int64_t now_ms = clock_boot_ms(), look_ms = lease.end_ms - lease.ttl_ms / 2;

	if (g->ended || g->killing || stop_of(g, lease).term_ms == CLOCK_NEVER) {
		die_at(g, CLOCK_NEVER);
		return CLOCK_NEVER;
	}
	if (lease.end_ms > now_ms)
		die_at(g, lease.end_ms);
	return look_ms > now_ms ? look_ms : CLOCK_NEVER;
}

/* Acts on the clock; returns the time to be called again. */
static int64_t enforce(struct guarding *g)
{
	const struct lease_stop stop = stop_of(g, shared_lease(g->plan->shared));
	int64_t now = clock_boot_ms(), look_ms = guarding_arm(g), kill_at;

	if (!g->stopping) {
		if (now < stop.term_ms)
			return clock_earlier(stop.term_ms, look_ms);
		guarding_tell(g, (struct guard_event){ .type = GUARD_EXPIRING });
		begin_stop(g, stop.kill_ms);
	}
	kill_at = clock_earlier(g->kill_at_ms, stop.kill_ms);
	if (now < kill_at) {
		/*
		 * A child is left that no look has shown: it was being forked. Once something got
		 * TERM there are no further looks, for what it forks now may be its clean-up.
		 */
		if (g->termed.count)
			return clock_earlier(kill_at, look_ms);
		if (now >= g->sweep_at_ms)
			sweep_again(g, SIGTERM, &g->termed);
		return clock_earlier(clock_earlier(kill_at, g->sweep_at_ms), look_ms);
	}
	if (!g->killing) {
		g->killing = true;
		g->sweep_pause_ms = SWEEP_FIRST_MS;
		g->sweep_at_ms = now + SWEEP_FIRST_MS;
		kill_at_hand(g);
	} else if (now >= g->sweep_at_ms) {
		signal_group(g, SIGKILL);
		sweep_again(g, SIGKILL, &g->killed);
	}
	return g->sweep_at_ms;
}

static void guard_loop(struct guarding *g)
{
	enum { SIGNALS, SUPERVISOR, LOST, REPORT, POLLED };
	struct pollfd fds[POLLED];

	for (;;) {
		int64_t wake_ms = enforce(g);

		fds[SIGNALS] = (struct pollfd){ .fd = g->plan->signals->fd, .events = POLLIN };
		/* An order before the command is known would be for nobody. */
		fds[SUPERVISOR] = (struct pollfd){
			.fd = g->command || g->ended ? g->fd : -1, .events = POLLIN
		};
		if (g->has_pending)
			fds[SUPERVISOR].events |= POLLOUT;
		fds[LOST] = (struct pollfd){
			.fd = g->lost_seen ? -1 : g->plan->lost_fd, .events = POLLIN
		};
		fds[REPORT] = (struct pollfd){
			.fd = g->plan->contain ? g->report_fd : -1, .events = POLLIN
		};
		/* Its SIGCONT shows at the signals' descriptor, and is due after a sleep, too. */
		kernel_timer_set(&g->wake_timer, wake_ms);
		poll(fds, POLLED, clock_poll_timeout(wake_ms));
		/* First, for the next holder waits; and again, for what comes meanwhile. */
		if (fds[REPORT].revents)
			guarding_read_reports(g);
		reap(g);
		while (signals_next(g->plan->signals, NULL))
			reap(g);
		if (fds[LOST].revents) {
			g->lost_seen = true;
			if (g->plan->kill_on_lost)
				begin_stop(g, grace_end(g));
		}
		if (fds[SUPERVISOR].revents & ~POLLOUT)
			obey(g);
		guarding_flush(g);
	}
}

static void warn_of_limits(struct guarding *g)
{
	if (!g->kill_timer.made)
		guarding_tell(g, (struct guard_event){ .type = GUARD_UNTIMED, .value = errno });
	g->blind = !proctree_available();
	if (g->blind && !g->plan->contain)
		guarding_tell(g, (struct guard_event){ .type = GUARD_BLIND });
}

void guarding_main(const struct guard_plan *plan, int fd)
{
	struct guarding g = {
		.plan = plan, .fd = fd, .hold_fd = -1, .report_fd = -1, .supervisor_stat = -1,
	};

	/* What ends or stops dlock's job must leave somebody to enforce the lease. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "dlock-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	atomic_store(&plan->shared->guard, getpid());
	kernel_timer_open(&g.wake_timer, SIGCONT, WAKE_AGAIN_MS);
	kernel_timer_open(&g.kill_timer, SIGKILL, 0);
	warn_of_limits(&g);
	switch (guarding_launch(&g)) {
	case LAUNCHED:
		break;
	case LAUNCH_TOO_LATE:
		guarding_tell(&g, (struct guard_event){ .type = GUARD_EXPIRING });
		finish(&g, (struct guard_event){ .type = GUARD_EMPTY });
	case LAUNCH_FAILED:
		finish(&g, last_event(&g));
	case LAUNCH_ENDED:
		_exit(0);
	}
	guard_loop(&g);
	_exit(0);	/* not reached */
}
