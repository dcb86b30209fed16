/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into dlock: the supervisor takes 200 ms to read the clock, and the guard $LATE_GUARD_MS
 * or 300 ms, as if they had lost the processor. In this time the keeper reads their state.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *guard = getenv("LATE_GUARD_MS");
	struct timespec pause;
	char name[16] = "";
	long ms = 0;

	prctl(PR_GET_NAME, name);
	if (strcmp(name, "dlock") == 0)
		ms = 200;
	else if (strcmp(name, "dlock-guard") == 0)
		ms = guard ? atol(guard) : 300;
	pause = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
	if (ms)
		nanosleep(&pause, NULL);
	return (int)syscall(SYS_clock_gettime, clock, now);
}
