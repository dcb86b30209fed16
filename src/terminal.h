/* SPDX-License-Identifier: MIT */
/*
 * Job control: the command runs in a process group of its own, which must be the
 * terminal's foreground group whenever dlock's own would be.
 */
#ifndef DLOCK_TERMINAL_H
#define DLOCK_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
	int fd;			/* the controlling terminal, close-on-exec; -1: none */
	pid_t group;		/* our own process group */
};

void terminal_open(struct terminal *terminal);

/* Is dlock's own process group in the foreground? */
bool terminal_ours(const struct terminal *terminal);

/* Gives the foreground to group. Async-signal-safe. SIGTTOU must be blocked. */
void terminal_give(const struct terminal *terminal, pid_t group);

/* Takes the foreground back if group has it; true if it had. */
bool terminal_take(const struct terminal *terminal, pid_t group);

#endif
