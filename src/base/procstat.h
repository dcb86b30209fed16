/* SPDX-License-Identifier: MIT */
/* What the kernel says of a process in /proc/PID/stat (proc(5)). */
#ifndef DLOCK_PROCSTAT_H
#define DLOCK_PROCSTAT_H

#include <stdbool.h>
#include <sys/types.h>

struct procstat {
	char state;			/* of the main thread; 'Z': it has ended */
	pid_t parent;
	pid_t group;
	pid_t session;
	int threads;			/* how many are left, the main thread included */
	unsigned long long start_ticks;	/* clock ticks from boot to its start */
};

/* pid: digits, or "self". False when there is no such process, or no /proc. */
bool procstat_read(const char *pid, struct procstat *stat);

/*
 * The id of a thread of this process that lives, or 0 when the whole process is dead. A process
 * whose main thread has ended is a zombie ('Z') by its state while its other threads run on.
 * stat: what procstat_read() has just said of pid.
 */
pid_t procstat_live_thread(const char *pid, const struct procstat *stat);

/* A descriptor of pid's file, close-on-exec, for the next; -1: there is none. */
int procstat_open(const char *pid);

/* Is it stopped, by a signal or a tracer? True also when there is no telling. */
bool procstat_is_stopped(int fd);

#endif
