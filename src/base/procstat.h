/* SPDX-License-Identifier: MIT */
/* The state of a process, and its name, from /proc/PID (proc(5)). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct procstat {
	char state;			/* of the main thread; 'Z': the thread has ended */
	pid_t parent;
	pid_t group;
	pid_t session;
	int threads;			/* number of threads that are left, with the main thread */
	unsigned long long start_ticks;	/* clock ticks from boot to its start */
};

/* False when there is no such process, or no /proc. */
bool procstat_read(pid_t pid, struct procstat *stat);

/*
 * The id of a living thread of the process, or 0 when the whole process is dead. A process whose
 * main thread has ended is in state 'Z' while its other threads run on. stat: the result of
 * procstat_read() for pid.
 */
pid_t procstat_live_thread(pid_t pid, const struct procstat *stat);

/* The name of the program, cut to 15 bytes by the kernel. False: not known, and *buf is "". */
bool procstat_name(pid_t pid, char *buf, size_t size);

/* Opens pid's file, close-on-exec, for procstat_is_stopped(). -1: there is no such file. */
int procstat_open(pid_t pid);

/* Has a signal or a tracer stopped the process? True also when the file cannot be read. */
bool procstat_is_stopped(int fd);
