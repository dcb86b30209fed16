/* SPDX-License-Identifier: MIT */
#include "guarding.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "ipc.h"
#include "lease.h"
#include "proctree.h"
#include "shared.h"
#include "signals.h"

/*
 * After a command so short, the guard is ended while the keeper waits for the server, to be
 * done the sooner; after any other, with the rest, so as not to be in the next holder's way.
 */
#define SHORT_COMMAND_MS 10

static void tell(const struct guarding *g, struct guard_event event)
{
	if (g->fd >= 0)
		send(g->fd, &event, sizeof(event), MSG_NOSIGNAL);
}

/*
 * Nothing is left: the keeper may release, and this process has done its work. Beside a keeper
 * it ends when the supervisor says so, or is gone: what the kernel has to take apart would keep
 * the keeper waiting for this processor.
 */
static void __attribute__((noreturn)) finish(const struct guarding *g, struct guard_event event)
{
	const int keeper_fd = g->plan->keeper_pipe_fd;
	ssize_t told = 0;
	char none;

	if (g->hold_fd >= 0 && g->plan->unlocks) {
		flock(g->hold_fd, LOCK_UN);
		/* The kernel has put who waited for it behind us: go first. */
		sched_yield();
	}
	if (g->hold_fd >= 0)
		close(g->hold_fd);
	if (keeper_fd >= 0) {
		told = write(keeper_fd, "", 1);
		sched_yield();	/* what the keeper does now is what others wait for */
	}
	(void)told;	/* a keeper that is gone is the supervisor's affair */
	event.last = true;
	tell(g, event);
	if (keeper_fd >= 0 && g->fd >= 0)
		while (recv(g->fd, &none, sizeof(none), 0) > 0)
			;
	_exit(0);
}

static void signal_tree(const struct guarding *g, int sig)
{
	if (g->command)
		kill(-g->command, sig);
	proctree_signal(&(struct proctree_scope){ .skip_group = g->command }, sig, NULL, NULL);
}

/* Begins to end the tree, with KILL at kill_at_ms; an earlier KILL wins. */
static void begin_stop(struct guarding *g, int64_t kill_at_ms)
{
	if (g->stopping) {
		if (kill_at_ms < g->kill_at_ms)
			g->kill_at_ms = kill_at_ms;
		return;
	}
	g->stopping = true;
	g->kill_at_ms = kill_at_ms;
	signal_tree(g, SIGTERM);
	signal_tree(g, SIGCONT);	/* what is stopped could not act on it */
}

static int64_t grace_end(const struct guarding *g)
{
	int64_t ttl_ms = atomic_load(&g->plan->shared->lease_ttl_ms);
	int64_t grace_ms = g->plan->kill_after_ms;

	if (ttl_ms)
		grace_ms = lease_kill_after(ttl_ms, grace_ms);
	return clock_boot_ms() + grace_ms;
}

/* Reaps; at the last one tells the supervisor and ends this process. */
static void reap(struct guarding *g)
{
	struct guard_event last = { .type = GUARD_EMPTY };
	int status, left;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != g->command)
			continue;
		if (WIFSTOPPED(status)) {
			tell(g, (struct guard_event){ .type = GUARD_STOPPED,
						      .value = WSTOPSIG(status) });
			continue;
		}
		g->command = 0;
		last = (struct guard_event){ .type = GUARD_EXITED, .value = status };
	}
	if (pid < 0 && errno == ECHILD)
		finish(g, last);
	if (last.type != GUARD_EXITED)
		return;
	tell(g, last);
	if (g->stopping)
		return;
	left = proctree_signal(&(struct proctree_scope){ .group = 0 }, 0, NULL, NULL);
	if (left > 0) {
		tell(g, (struct guard_event){ .type = GUARD_LEFTOVERS, .value = left });
		begin_stop(g, grace_end(g));
	}
}

static void obey(struct guarding *g)
{
	struct order order;
	ssize_t length = recv(g->fd, &order, sizeof(order), 0);

	if (length != (ssize_t)sizeof(order)) {
		/* The supervisor was killed. The keeper holds on until we are gone. */
		g->fd = -1;
		begin_stop(g, grace_end(g));
		return;
	}
	switch (order.type) {
	case ORDER_SIGNAL:
		if (g->command)
			kill(g->command, order.sig);
		break;
	case ORDER_SIGNAL_GROUP:
		if (g->command)
			kill(-g->command, order.sig);
		break;
	case ORDER_STOP:
		begin_stop(g, grace_end(g));
		break;
	case ORDER_RUN:
		break;
	}
}

/* Acts on the clock; returns the time to be called again. */
static int64_t enforce(struct guarding *g)
{
	const struct shared *shared = g->plan->shared;
	struct lease_stop stop = { CLOCK_NEVER, CLOCK_NEVER, CLOCK_NEVER };
	int64_t now = clock_boot_ms(), kill_at;

	if (g->plan->kill_on_lost)
		stop = lease_stop(atomic_load(&shared->lease_end_ms),
				  atomic_load(&shared->lease_ttl_ms),
				  g->plan->kill_after_ms);
	if (!g->stopping) {
		if (now < stop.term_ms)
			return stop.term_ms;
		tell(g, (struct guard_event){ .type = GUARD_EXPIRING });
		begin_stop(g, stop.kill_ms);
	}
	kill_at = g->kill_at_ms < stop.kill_ms ? g->kill_at_ms : stop.kill_ms;
	if (now < kill_at)
		return kill_at;
	if (g->command)
		kill(-g->command, SIGKILL);
	proctree_signal(&(struct proctree_scope){ .group = 0 }, SIGKILL, NULL, NULL);
	/* Again soon: something may have been forked while we looked. */
	return now + 5;
}

static void guard_loop(struct guarding *g)
{
	enum { SIGNALS, SUPERVISOR, LOST, TIMER, POLLED };
	const int timer = clock_timer_open();
	struct pollfd fds[POLLED];

	for (;;) {
		int64_t wake_ms = enforce(g);

		fds[SIGNALS] = (struct pollfd){ .fd = g->plan->signals->fd, .events = POLLIN };
		fds[SUPERVISOR] = (struct pollfd){ .fd = g->fd, .events = POLLIN };
		fds[LOST] = (struct pollfd){
			.fd = g->lost_seen ? -1 : g->plan->lost_fd, .events = POLLIN
		};
		fds[TIMER] = (struct pollfd){ .fd = timer, .events = POLLIN };
		clock_timer_set(timer, wake_ms);
		poll(fds, POLLED, clock_poll_timeout(wake_ms));
		/* First, for the next holder waits; and again, for what comes meanwhile. */
		reap(g);
		while (signals_next(g->plan->signals, NULL))
			reap(g);
		if (fds[LOST].revents) {
			g->lost_seen = true;
			if (g->plan->kill_on_lost)
				begin_stop(g, grace_end(g));
		}
		if (fds[SUPERVISOR].revents)
			obey(g);
	}
}

static void guard_main(const struct guard_plan *plan, int fd)
{
	struct guarding g = { .plan = plan, .fd = fd, .hold_fd = -1 };
	int failure;

	prctl(PR_SET_NAME, "dlock-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	switch (guarding_launch(&g, &failure)) {
	case LAUNCHED:
		break;
	case LAUNCH_TOO_LATE:
		tell(&g, (struct guard_event){ .type = GUARD_EXPIRING });
		finish(&g, (struct guard_event){ .type = GUARD_EMPTY });
		break;
	case LAUNCH_FAILED:
		finish(&g, (struct guard_event){ .type = GUARD_EXEC_FAILED, .value = failure });
		break;
	case LAUNCH_NOT_YET:
	case LAUNCH_ENDED:
		_exit(0);
	}
	guard_loop(&g);
}

int guard_start(struct guard *guard, const struct guard_plan *plan, struct error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		error_set(err, ERROR_INTERNAL, errno, "socketpair");
		return -1;
	}
	/* as in keeper_start() */
	guard->pid = _Fork();
	if (guard->pid < 0) {
		guard->pid = 0;
		error_set(err, ERROR_INTERNAL, errno, "fork");
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	if (guard->pid == 0) {
		close(ends[0]);
		guard_main(plan, ends[1]);
	}
	close(ends[1]);
	guard->fd = ends[0];
	guard->shared = plan->shared;
	return 0;
}

static void give_order(const struct guard *guard, struct order order, int fd)
{
	if (guard->pid)
		ipc_send(guard->fd, &order, sizeof(order), 0, fd);
}

void guard_run(const struct guard *guard, uint64_t fence, int hold_fd)
{
	give_order(guard, (struct order){ .type = ORDER_RUN, .fence = fence }, hold_fd);
}

void guard_signal(const struct guard *guard, int sig, bool group)
{
	give_order(guard, (struct order){
		.type = group ? ORDER_SIGNAL_GROUP : ORDER_SIGNAL, .sig = sig }, -1);
}

void guard_stop(const struct guard *guard)
{
	give_order(guard, (struct order){ .type = ORDER_STOP }, -1);
}

bool guard_is_there(const struct guard *guard)
{
	char first;
	ssize_t length = ipc_receive(guard->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT, NULL);

	return length > 0 || (length < 0 && errno == EAGAIN);
}

bool guard_event(struct guard *guard, struct guard_event *event)
{
	ssize_t length = ipc_receive(guard->fd, event, sizeof(*event), MSG_DONTWAIT, NULL);

	if (length == (ssize_t)sizeof(*event)) {
		if (event->last && clock_boot_ms() - atomic_load(&guard->shared->held_ms) <
		    SHORT_COMMAND_MS)
			kill(guard->pid, SIGKILL);
		return true;
	}
	if (length < 0)
		return false;
	*event = (struct guard_event){ .type = GUARD_GONE };
	return true;
}

void guard_finish(struct guard *guard)
{
	pid_t orphan;

	if (!guard->pid)
		return;
	kill(guard->pid, SIGKILL);
	waitpid(guard->pid, NULL, 0);
	/* What waited to become the command died with it, and is ours to reap now. */
	orphan = atomic_exchange(&guard->shared->at_gate, 0);
	if (orphan)
		waitpid(orphan, NULL, 0);
	close(guard->fd);
	guard->pid = 0;
	guard->fd = -1;
}

void guard_kill(struct guard *guard, pid_t spare)
{
	guard_finish(guard);
	/* What cannot be killed must not run beside the next holder: the lock stays held. */
	while (proctree_kill(&(struct proctree_scope){ .spare = { spare } }, NULL, NULL) > 0)
		poll(NULL, 0, 100);
}
