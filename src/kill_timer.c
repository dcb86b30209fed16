/* SPDX-License-Identifier: MIT */
#include "kill_timer.h"

#include <signal.h>

#include "clock.h"

bool kill_timer_open(struct kill_timer *timer)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };

	timer->at_ms = CLOCK_NEVER;
	timer->made = !timer_create(CLOCK_BOOTTIME, &event, &timer->id);
	return timer->made;
}

void kill_timer_set(struct kill_timer *timer, int64_t at_ms)
{
	const struct itimerspec when = clock_timer_spec(at_ms);

	if (!timer->made || at_ms == timer->at_ms)
		return;
	if (!timer_settime(timer->id, TIMER_ABSTIME, &when, NULL))
		timer->at_ms = at_ms;
}
