/* SPDX-License-Identifier: MIT */
/* How the guard gets the order to run the command, or takes the lock itself, and starts it. */
#include "guarding.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/process.h"
#include "base/terminal.h"
#include "lock/lease.h"
#include "keeper.h"
#include "shared.h"

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

/* Did the keeper give the lock back, because the supervisor was stopped before it gave the order? */
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

enum launched guarding_launch(struct guarding *g)
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
