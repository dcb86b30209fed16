/* SPDX-License-Identifier: MIT */
/*
 * Job control. The command runs in a process group of its own, which must be the foreground group
 * of the terminal whenever dlock's own group would be. But a terminal has only one foreground
 * group, and in a pipeline (`dlock run X -- make | less`) the other programs, which are in dlock's
 * group, may need the foreground, too. So in a pipeline dlock's group stays in the foreground, and
 * lends the foreground to the command. The kernel tells which group wants the foreground: all
 * processes of a background group get TTIN or TTOU when one of them uses the terminal.
 *
 *	before the exec, and when continued:	terminal_give() if terminal_is_free()
 *	a signal has stopped the command:	terminal_lend(), or else terminal_take() and stop
 *	this process got TTIN or TTOU:		terminal_wanted()
 *	the command has ended:			terminal_take()
 *	its last process has ended:		terminal_finish()
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
	int fd;			/* the controlling terminal, close-on-exec; -1: none */
	pid_t group;		/* dlock's own process group */
	bool in_pipeline;	/* a standard stream is a pipe; its other end may be in the group */
	bool lent;		/* in a pipeline: the command wanted the foreground, and got it */
	bool stop_typed;	/* the whole own group was stopped from the keyboard */
};

void terminal_open(struct terminal *terminal);

/* Is the own group in the foreground, and no pipeline in need of it? */
bool terminal_is_free(const struct terminal *terminal);

/* Gives the foreground to the command's group. Async-signal-safe. SIGTTOU must be blocked. */
void terminal_give(const struct terminal *terminal, pid_t group);

/*
 * sig has stopped the command. True: the command wanted the foreground and has it now, so that it
 * can be continued. False: it was stopped for another reason, or the own group is in the
 * background.
 */
bool terminal_lend(struct terminal *terminal, pid_t group, int sig);

/* The kernel has stopped the own group, which wanted the foreground: takes it back from group. */
void terminal_wanted(struct terminal *terminal, pid_t group);

/*
 * Takes the foreground back from group, and returns whether group had it. Continues members of the
 * own group that wanted it and were stopped; their SIGCONT reaches this process, too.
 */
bool terminal_take(struct terminal *terminal, pid_t group);

/* As terminal_take(), and continues also those that were stopped since the last one. */
void terminal_finish(struct terminal *terminal, pid_t group);
