/* SPDX-License-Identifier: MIT */
#include "guarding.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "ipc.h"
#include "keeper.h"
#include "lease.h"
#include "procstat.h"
#include "shared.h"
#include "signals.h"
#include "terminal.h"
#include "text.h"

/*
 * How long the child waits for the order to run, while the guard sleeps: at first, for many a
 * lock is free or held for a moment only; and later, when word has come that it is free.
 */
#define AT_GATE_FIRST_MS 100
#define AT_GATE_MS 20

/* What the child and the guard share, as they do all memory until the child has called exec. */
struct launch {
	struct guarding *g;
	pid_t guard;
	enum launched outcome;
	int failure;		/* errno */
};

/* When the command must be told to end, unless the lease is renewed. */
static int64_t term_at(const struct guarding *g)
{
	const struct shared *shared = g->plan->shared;

	return lease_stop(atomic_load(&shared->lease_end_ms),
			  atomic_load(&shared->lease_ttl_ms), g->plan->kill_after_ms).term_ms;
}

/*
 * A word from the keeper; true: it offers the lock, and we have taken it. Not while the
 * supervisor is stopped: who presses Ctrl-Z does not want the command to begin.
 */
static bool take_word(struct guarding *g)
{
	struct shared *shared = g->plan->shared;
	struct keeper_word word;
	int hold_fd = -1;

	if (ipc_receive(g->plan->gate_fd, &word, sizeof(word), MSG_DONTWAIT, &hold_fd) ==
	    (ssize_t)sizeof(word) && word.fence && g->plan->may_start &&
	    word.fence == atomic_load(&shared->fence) &&
	    !procstat_is_stopped(g->supervisor_stat) && shared_take(shared, OFFER_STARTED)) {
		g->hold_fd = hold_fd;
		g->fence = word.fence;
		return true;
	}
	if (hold_fd >= 0)
		close(hold_fd);
	return false;
}

/* Waits for the order to run, or the lock itself; LAUNCHED when it has come. */
static enum launched await_order(struct guarding *g)
{
	struct pollfd words[] = {
		{ .fd = g->fd, .events = POLLIN }, { .fd = g->plan->gate_fd, .events = POLLIN },
	};
	struct order order;

	do {
		if (poll(words, 2, g->gate_ms) == 0)
			return LAUNCH_NOT_YET;
		if (words[0].revents) {
			if (ipc_receive(g->fd, &order, sizeof(order), 0, &g->hold_fd) !=
			    (ssize_t)sizeof(order) || order.type != ORDER_RUN)
				return LAUNCH_ENDED;
			g->fence = order.fence;
			break;
		}
	} while (!take_word(g));
	/* Held up for so long on the way here that it is not safe to begin. */
	if (g->fence && clock_boot_ms() >= term_at(g))
		return LAUNCH_TOO_LATE;
	return LAUNCHED;
}

static int launch_child(void *arg)
{
	struct launch *launch = arg;
	const struct guard_plan *plan = launch->g->plan;
	char *const *envp = plan->bare_envp;

	/* What a terminal sends to dlock's group is not for us. */
	setpgid(0, 0);
	/* Last resort, should every process of dlock be killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != launch->guard)
		return 127;
	atomic_store(&plan->shared->at_gate, getpid());
	launch->outcome = await_order(launch->g);
	atomic_store(&plan->shared->at_gate, 0);
	if (launch->outcome != LAUNCHED)
		return 127;
	atomic_store(&plan->shared->command, getpid());
	if (launch->g->fence) {
		text_digits(plan->fence_text, launch->g->fence);
		envp = plan->envp;
	}
	if (terminal_ours(plan->terminal))
		terminal_give(plan->terminal, getpid());
	signals_restore(plan->signals);
	execvpe(plan->argv[0], plan->argv, envp);
	launch->failure = errno;
	launch->outcome = LAUNCH_FAILED;
	return 127;	/* ends the process */
}

/*
 * Starts the command as vfork() would, but on a stack of its own, as
 * posix_spawn() of glibc does: a quarter of fork()'s time, and no caller's frame
 * is shared. The guard sleeps until the exec has happened or failed. The child waits for the
 * order to run: most often it is there before the lock is. A descriptor that comes with the
 * order is the guard's, too.
 */
static enum launched launch_command(struct guarding *g, int *failure)
{
	static _Alignas(64) char stack[96 * 1024];
	struct launch launch = { .g = g, .guard = getpid(), .outcome = LAUNCH_ENDED };

	g->command = clone(launch_child, stack + sizeof(stack),
			   CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD, &launch);
	if (g->command < 0) {
		launch.failure = errno;
		launch.outcome = LAUNCH_FAILED;
	} else if (launch.outcome != LAUNCHED) {
		waitpid(g->command, NULL, 0);
	}
	if (launch.outcome != LAUNCHED)
		g->command = 0;
	*failure = launch.failure;
	return launch.outcome;
}

enum launched guarding_launch(struct guarding *g, int *failure)
{
	struct pollfd words[] = {
		{ .fd = g->fd, .events = POLLIN }, { .fd = g->plan->gate_fd, .events = POLLIN },
	};
	enum launched launched;
	char supervisor[TEXT_DIGITS_SIZE];

	if (g->plan->gate_fd >= 0) {
		text_digits(supervisor, (uint64_t)getppid());
		g->supervisor_stat = procstat_open(supervisor);
	}
	g->gate_ms = AT_GATE_FIRST_MS;
	launched = launch_command(g, failure);
	g->gate_ms = AT_GATE_MS;
	while (launched == LAUNCH_NOT_YET) {
		poll(words, 2, -1);
		launched = launch_command(g, failure);
	}
	return launched;
}
