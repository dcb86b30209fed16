/* SPDX-License-Identifier: MIT */
/*
 * A timer of the kernel's that sends this process a signal at a given time, even when the process
 * is stopped and can act on nothing itself: SIGCONT continues it then, SIGKILL ends it, and with
 * it what has asked for that by PR_SET_PDEATHSIG.
 */
#ifndef DLOCK_KERNEL_TIMER_H
#define DLOCK_KERNEL_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct kernel_timer {
	timer_t id;
	bool made;
	int64_t repeat_ms;	/* again and again after that; 0: once */
	int64_t at_ms;		/* what it is set to; CLOCK_NEVER: it is not set */
};

/*
 * Makes a timer for sig that is not set. With repeat_ms (0: none) it sends sig again and again
 * once it is due, until it is set anew, for this process may be stopped again at once. False with
 * errno where the kernel refuses it (a seccomp profile may).
 */
bool kernel_timer_open(struct kernel_timer *timer, int sig, int64_t repeat_ms);

/*
 * Sets the timer to at_ms (CLOCK_BOOTTIME); CLOCK_NEVER: to no time at all. A time in the past
 * means now. Does nothing when it stands there already and is not a repeated one, or could not be
 * made.
 */
void kernel_timer_set(struct kernel_timer *timer, int64_t at_ms);

#endif
