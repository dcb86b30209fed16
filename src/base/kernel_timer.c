/* SPDX-License-Identifier: MIT */
/* Timers of the kernel that send signals: timer_create(2) and timer_settime(2). */
#include "kernel_timer.h"

#include <signal.h>

#include "clock.h"

int kernel_timer_open(struct kernel_timer *timer, clockid_t clock, int sig, int64_t repeat_ms)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	const struct itimerspec none = clock_timer_spec(CLOCK_NEVER);

	timer->at_ms = CLOCK_NEVER;
	/* A seccomp profile may refuse the second system call alone. */
	if (timer_create(clock, &event, &timer->id) ||
	    timer_settime(timer->id, TIMER_ABSTIME, &none, NULL))
		return -1;
	timer->repeat_ms = repeat_ms;
	return 0;
}

void kernel_timer_set(struct kernel_timer *timer, int64_t at_ms)
{
	struct itimerspec when = clock_timer_spec(at_ms);

	if (at_ms == timer->at_ms && !timer->repeat_ms)
		return;
	when.it_interval.tv_nsec = (long)(timer->repeat_ms * 1000000);
	if (!timer_settime(timer->id, TIMER_ABSTIME, &when, NULL))
		timer->at_ms = at_ms;
}
