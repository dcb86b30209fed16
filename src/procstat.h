/* SPDX-License-Identifier: MIT */
/* What the kernel says of a process in /proc/PID/stat (proc(5)). */
#ifndef DLOCK_PROCSTAT_H
#define DLOCK_PROCSTAT_H

#include <stdbool.h>
#include <sys/types.h>

struct procstat {
	char state;			/* 'Z': a zombie */
	pid_t parent;
	pid_t group;
	unsigned long long start_ticks;	/* clock ticks from boot to its start */
};

/* pid: digits, or "self". False when there is no such process, or no /proc. */
bool procstat_read(const char *pid, struct procstat *stat);

/* A descriptor of pid's file, close-on-exec, for the next; -1: there is none. */
int procstat_open(const char *pid);

/* Is it stopped, by a signal or a tracer? True also when there is no telling. */
bool procstat_is_stopped(int fd);

#endif
