/* SPDX-License-Identifier: MIT */
/*
 * Job control. The command runs in a process group of its own, which must be the foreground group
 * of the terminal whenever dlock's own group would be. But a terminal has only one foreground
 * group, and in a pipeline (`dlock run X -- make | less`) the other programs, which are in dlock's
 * group, may need the foreground, too. So in a pipeline dlock's group stays in the foreground, and
 * lends it to the command on demand: the kernel sends TTIN or TTOU to all processes of a background
 * group when one of them uses the terminal.
 *
 *	before the exec, and when continued:	terminal_give() if terminal_is_free()
 *	a signal has stopped the command:	terminal_lend(), or else terminal_take() and stop
 *	this process got TTIN or TTOU:		terminal_wanted()
 *	the command has ended:			terminal_take()
 *	its last process has ended:		terminal_wanted(), and terminal_take()
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
	int fd;			/* the controlling terminal, close-on-exec; -1: none */
	pid_t group;		/* dlock's own process group */
	bool in_pipeline;	/* a standard stream is a pipe; its other end may be in the group */
	bool lent;		/* in a pipeline: the command needed the foreground, and got it */
	bool stop_typed;	/* dlock's whole group was stopped from the keyboard */
};

void terminal_open(struct terminal *terminal);

/* Is dlock's group in the foreground, and outside a pipeline? */
bool terminal_is_free(const struct terminal *terminal);

/* Give the foreground to the command's group. Async-signal-safe. SIGTTOU must be blocked. */
void terminal_give(const struct terminal *terminal, pid_t group);

/*
 * Lend the foreground to the command, which sig has stopped. True: the command needed it and has it
 * now, so the caller can continue it. False: it was stopped for another reason, or dlock's group is
 * in the background.
 */
bool terminal_lend(struct terminal *terminal, pid_t group, int sig);

/* Take the foreground back from group: the kernel has stopped dlock's group, which needs it. */
void terminal_wanted(struct terminal *terminal, pid_t group);

/*
 * Take the foreground back from group, and return whether group had it. Continues the members of
 * dlock's group that were stopped because they needed it; this process gets their SIGCONT, too.
 */
bool terminal_take(struct terminal *terminal, pid_t group);
