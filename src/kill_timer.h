/* SPDX-License-Identifier: MIT */
/*
 * A timer of the kernel's that kills this process (SIGKILL) at a given time, even when the process
 * is stopped and can enforce nothing itself. What is to die with it asks for that by
 * PR_SET_PDEATHSIG.
 */
#ifndef DLOCK_KILL_TIMER_H
#define DLOCK_KILL_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct kill_timer {
	timer_t id;
	bool made;
	int64_t at_ms;		/* what it is set to; CLOCK_NEVER: it is not set */
};

/* Makes a timer that is not set. False where the kernel refuses it (a seccomp profile may). */
bool kill_timer_open(struct kill_timer *timer);

/*
 * Sets the timer to at_ms (CLOCK_BOOTTIME); CLOCK_NEVER: to no time at all. Does nothing when it
 * stands there already, or could not be made. A time in the past kills at once.
 */
void kill_timer_set(struct kill_timer *timer, int64_t at_ms);

#endif
