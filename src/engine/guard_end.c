/* SPDX-License-Identifier: MIT */
/* How the guard ends the command's tree, and when: before the lease ends, or when it is told to. */
#include "guarding.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/tree.h"
#include "lock/lease.h"
#include "shared.h"

/* The pause between two looks for what is left of the tree: at first, and at last. */
#define SWEEP_FIRST_MS 5
#define SWEEP_LAST_MS 1000

/* ---- how ---- */

/* Sends sig to the command's process group; without /proc, even when the command is gone. */
static void signal_group(const struct guarding *g, int sig)
{
	const pid_t group = tree_usable() ? g->command : g->group;

	if (group)
		kill(-group, sig);
}

static void kill_tree(struct guarding *g)
{
	signal_group(g, SIGKILL);
	/* The command may have changed its group. */
	if (g->command)
		kill(g->command, SIGKILL);
	/* All of a namespace ends with its init. */
	if (g->plan->contain && g->child)
		kill(g->child, SIGKILL);
	guarding_sweep(g, SIGKILL);
}

int guarding_sweep(struct guarding *g, int sig)
{
	static const struct tree_spared none = { .pids = NULL };
	pid_t refused;
	const int count = tree_signal(&none, sig == SIGTERM ? g->command : 0, sig, &refused);

	if (refused)
		guarding_tell(g, (struct guard_event){ .type = GUARD_STUCK, .value = refused });
	return count;
}

void guarding_sweep_soon(struct guarding *g)
{
	if (!g->killing)
		return;
	g->sweep_pause_ms = SWEEP_FIRST_MS;
	g->sweep_at_ms = clock_earlier(g->sweep_at_ms, clock_boot_ms() + SWEEP_FIRST_MS);
}

void guarding_signal_leftovers(struct guarding *g, int sig)
{
	signal_group(g, sig);
	guarding_sweep(g, sig);
}

void guarding_stop(struct guarding *g, int64_t kill_at_ms)
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
	/* A process that is stopped could not act on TERM. */
	signal_group(g, SIGCONT);
	g->termed = guarding_sweep(g, SIGTERM) > 0;
}

int64_t guarding_grace_end(const struct guarding *g)
{
	return clock_boot_ms() +
	       lease_grace(shared_lease(g->plan->shared), g->plan->kill_after_ms);
}

/* The pauses grow while no child ends, because what is left cannot be ended, or not yet. */
static void grow_pause(struct guarding *g)
{
	if (g->sweep_pause_ms < SWEEP_LAST_MS)
		g->sweep_pause_ms *= 2;
	g->sweep_at_ms = clock_boot_ms() + g->sweep_pause_ms;
}

/* ---- when ---- */

/* When the command must be stopped; never with --on-lost warn, or without a lock. */
static struct lease_stop stop_of(const struct guarding *g, struct lease_span lease)
{
	if (!g->plan->kill_on_lost || !g->fence)
		lease.end_ms = CLOCK_NEVER;
	return lease_stop(lease, g->plan->kill_after_ms);
}

/* The supervisor reads the time, to know whether the timer killed a guard that is gone. */
static void die_at(struct guarding *g, int64_t at_ms)
{
	kernel_timer_set(&g->kill_timer, at_ms);
	atomic_store(&g->plan->shared->guard_dies_ms, g->kill_timer.at_ms);
}

/* Would what must be dead at the end of the lease die with this process? */
static bool dies_with_guard(const struct guarding *g)
{
	/* All of a namespace does. Leftovers that are ended already have their own time. */
	return !g->ended || (g->plan->contain && g->plan->wait_for_leftovers);
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

	if (!dies_with_guard(g) || g->killing || stop_of(g, lease).term_ms == CLOCK_NEVER) {
		die_at(g, CLOCK_NEVER);
		return CLOCK_NEVER;
	}
	if (lease.end_ms > now_ms)
		die_at(g, lease.end_ms);
	return look_ms > now_ms ? look_ms : CLOCK_NEVER;
}

/*
 * Begins to stop the command when the lease or the time to run is about to end. Returns when to
 * look again, or CLOCK_NEVER when the command is being stopped.
 */
static int64_t stop_in_time(struct guarding *g, struct lease_stop stop, int64_t now)
{
	if (g->stopping)
		return CLOCK_NEVER;
	if (now < stop.term_ms && now < g->limit_at_ms)
		return clock_earlier(stop.term_ms, g->limit_at_ms);
	if (now >= stop.term_ms) {
		guarding_tell(g, (struct guard_event){ .type = GUARD_EXPIRING });
		guarding_stop(g, stop.kill_ms);
	} else {
		guarding_tell(g, (struct guard_event){ .type = GUARD_OVERDUE,
						       .value = (int)g->limit });
		guarding_stop(g, guarding_grace_end(g));
	}
	return CLOCK_NEVER;
}

int64_t guarding_enforce(struct guarding *g)
{
	const struct lease_stop stop = stop_of(g, shared_lease(g->plan->shared));
	int64_t now = clock_boot_ms(), look_ms = guarding_arm(g), kill_at, next_ms;

	next_ms = stop_in_time(g, stop, now);
	if (!g->stopping)
		return clock_earlier(next_ms, look_ms);
	kill_at = clock_earlier(g->kill_at_ms, stop.kill_ms);
	if (now < kill_at) {
		/*
		 * A child is left that no look has shown: it was being forked. Once something got
		 * TERM there are no further looks, for what it forks now may be its clean-up.
		 */
		if (g->termed)
			return clock_earlier(kill_at, look_ms);
		if (now >= g->sweep_at_ms) {
			g->termed = guarding_sweep(g, SIGTERM) > 0;
			grow_pause(g);
		}
		return clock_earlier(clock_earlier(kill_at, g->sweep_at_ms), look_ms);
	}
	if (!g->killing) {
		g->killing = true;
		g->sweep_pause_ms = SWEEP_FIRST_MS;
		g->sweep_at_ms = now + SWEEP_FIRST_MS;
		kill_tree(g);
		/* From here on the timer would end only the one who looks for the rest. */
		guarding_arm(g);
	} else if (now >= g->sweep_at_ms) {
		kill_tree(g);
		grow_pause(g);
	}
	return g->sweep_at_ms;
}
