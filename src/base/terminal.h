/* SPDX-License-Identifier: MIT */
/*
 * Job control: the command runs in a process group of its own, which must be the terminal's
 * foreground group whenever dlock's own would be. A terminal has one such group, though, and in a
 * pipeline (`dlock run X -- make | less`) the other members, which are in dlock's group, may want
 * it, too. There dlock's group keeps it, and the command borrows it. The kernel says who wants it:
 * it sends TTIN or TTOU to the whole group of a process that tries to use the terminal without.
 *
 *	before the exec, and when continued:	terminal_give() if terminal_is_free()
 *	the command was stopped by a signal:	terminal_lend(), else terminal_take() and stop, too
 *	TTIN or TTOU came to this process:	terminal_wanted()
 *	the command has ended:			terminal_take()
 *	nothing is left of it:			terminal_finish()
 */
#ifndef DLOCK_TERMINAL_H
#define DLOCK_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
	int fd;			/* the controlling terminal, close-on-exec; -1: none */
	pid_t group;		/* our own process group */
	bool in_pipeline;	/* a standard stream is a pipe, with our group behind it */
	bool lent;		/* in a pipeline: the command has wanted it, and got it */
	bool stop_typed;	/* our own group was stopped from the keyboard, all of it */
};

void terminal_open(struct terminal *terminal);

/* Does our own group have the foreground, and need not keep it for others? */
bool terminal_is_free(const struct terminal *terminal);

/* Gives the foreground to the command's group. Async-signal-safe. SIGTTOU must be blocked. */
void terminal_give(const struct terminal *terminal, pid_t group);

/*
 * The command was stopped by sig. true: because it wanted the foreground, and now it has it; it is
 * to be continued. false: not for that, or our own group has not got it either.
 */
bool terminal_lend(struct terminal *terminal, pid_t group, int sig);

/* The kernel has stopped our own group for want of the foreground: takes it back from group. */
void terminal_wanted(struct terminal *terminal, pid_t group);

/*
 * Takes the foreground back if group has it; true if it had. Members of our own group that were
 * stopped for want of it go on; the SIGCONT for that reaches this process, too.
 */
bool terminal_take(struct terminal *terminal, pid_t group);

/* As terminal_take(), and has those go on who were stopped only since then. */
void terminal_finish(struct terminal *terminal, pid_t group);

#endif
