/* SPDX-License-Identifier: MIT */
/*
 * A timer of the kernel that sends this process a signal at a given time, even while the process is
 * stopped and cannot act. SIGCONT continues the process. SIGKILL ends the process, and each child
 * that has asked for this with PR_SET_PDEATHSIG.
 */
#pragma once

#include <stdint.h>
#include <time.h>

struct kernel_timer {
	timer_t id;
	int64_t repeat_ms;	/* pause between the signals after the first one; 0: only one */
	int64_t at_ms;		/* CLOCK_NEVER: not set */
};

/*
 * Create a timer on clock for sig, and do not set it. With repeat_ms more than 0 the timer repeats
 * sig until it is set again, because the process may be stopped again soon; but not if it is
 * stopped before it has read sig, which takes sig and all repetitions with it. Returns 0, or -1
 * with errno when the kernel refuses to create or to set it, as a seccomp profile may.
 */
int kernel_timer_open(struct kernel_timer *timer, clockid_t clock, int sig, int64_t repeat_ms);

/*
 * Set the timer to at_ms on its clock. CLOCK_NEVER disarms the timer, and a time in the past is
 * now. Does nothing when the timer does not repeat and is set to at_ms already.
 */
void kernel_timer_set(struct kernel_timer *timer, int64_t at_ms);
