/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Follows the processes of up to two `dlock run`, counts the system calls of each, and
 * strikes when a chosen process is about to make a chosen call, or is asleep in it.
 *
 * A process is named by its path: "0" is the one that was started, "0.2" the second that
 * it forked, "0.2.1" the first which that one forked. Nothing is assumed about what these
 * are. A process that calls exec is the command, and is let go, unless it is "0", which
 * may exec itself. Threads count as their process.
 *
 * Once all strikes have happened, each process is let go the next time that it stops for
 * the tracer: nothing is interrupted in order to let it go, for that could make a call
 * fail with EINTR that would not fail otherwise.
 *
 * Calling sequence: trace_start() for a child that is about to exec; then, for each status
 * that waitpid(-1, &status, __WALL) reports, trace_stopped() when the process has stopped and
 * trace_gone() when it has ended. trace_note is told what happens.
 */

#define TRACE_PROCESSES 48
#define TRACE_PATH_SIZE 24
#define TRACE_SLEEPS 16
#define SLEEP_MS 20

enum reach {
	REACH_PROCESS,	/* the process itself */
	REACH_GROUP,	/* its `dlock run` as the shell sees it: kill -KILL %1 */
	REACH_ALL,	/* all processes of its `dlock run` but the command */
};

struct strike {
	int run;
	char path[TRACE_PATH_SIZE];
	unsigned int call;		/* 1: its first; 0: never */
	int asleep_ms;			/* strikes so long after the call has begun */
	int64_t due_ms;			/* then, if the call has not ended by then; 0: not yet */
	int sig;			/* SIGKILL or SIGSTOP */
	enum reach reach;
	bool done;
	int64_t at_ms;
	int pidfds[TRACE_PROCESSES];	/* of what was stopped */
	int pidfd_count;
};

struct process {
	pid_t pid;
	int run;
	char path[TRACE_PATH_SIZE];
	char comm[16];
	unsigned int calls;		/* that it began */
	int64_t began_ms;		/* its last one */
	unsigned int slept[TRACE_SLEEPS];	/* which calls took SLEEP_MS or longer */
	int slept_ms[TRACE_SLEEPS];	/* how long */
	int sleeps;
	int number;			/* of the last one, as the kernel counts them */
	unsigned int children;
	bool command;			/* it has called exec */
	bool gone;
	bool let_go;			/* not traced any longer */
	bool renamed;			/* it has just set its name */
};

struct thread {
	pid_t tid;
	struct process *process;
};

struct trace {
	struct process processes[TRACE_PROCESSES];
	int process_count;
	struct thread threads[TRACE_PROCESSES * 4];
	int thread_count;
	struct strike *strikes;
	int strike_count;
	int64_t active_ms[2];		/* when a run last stopped for us */
	void (*note)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

int64_t now_ms(void);

bool trace_start(struct trace *trace, pid_t pid, int run);
void trace_stopped(struct trace *trace, pid_t tid, int status);
void trace_gone(struct trace *trace, pid_t tid);
/* To be called often: strikes who is asleep. */
void trace_tick(struct trace *trace);
bool trace_struck_all(const struct trace *trace);

/* Sends a signal to what a strike has stopped. */
void strike_follow(struct strike *strike, int sig);
