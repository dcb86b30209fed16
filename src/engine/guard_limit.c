/* SPDX-License-Identifier: MIT */
/*
 * For how long the command may run: --max-run on CLOCK_BOOTTIME, which also counts while the
 * machine sleeps, and --until by the wall clock, which may be set meanwhile.
 */
#include "guarding.h"

#include <signal.h>

#include "base/clock.h"

/* When the timer of --until has continued a stopped guard, and somebody stops the guard again. */
#define WAKE_AGAIN_MS 20

void guarding_begin_limit(struct guarding *g)
{
	const struct guard_plan *plan = g->plan;

	g->max_run_at_ms = plan->max_run_ms ? clock_boot_ms() + plan->max_run_ms : CLOCK_NEVER;
	/* Without this timer the guard wakes when the wall clock would come there unless set. */
	if (plan->until_ms)
		kernel_timer_open(&g->until_timer, CLOCK_REALTIME, SIGCONT, WAKE_AGAIN_MS);
}

int64_t guarding_limit(struct guarding *g, enum guard_limit *limit)
{
	const int64_t until_ms = g->plan->until_ms;
	int64_t until_at_ms = CLOCK_NEVER;

	if (until_ms) {
		until_at_ms = clock_boot_ms() + (until_ms - clock_wall_ms());
		kernel_timer_set(&g->until_timer, until_ms);
	}
	*limit = until_at_ms < g->max_run_at_ms ? GUARD_LIMIT_UNTIL : GUARD_LIMIT_MAX_RUN;
	return clock_earlier(g->max_run_at_ms, until_at_ms);
}

void guarding_end_limit(struct guarding *g)
{
	kernel_timer_set(&g->until_timer, CLOCK_NEVER);
}
