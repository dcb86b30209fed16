/* SPDX-License-Identifier: MIT */
/*
 * A child process of the supervisor (the guard or the keeper), and the socket between these two.
 *
 * Calling sequence, in the supervisor: child_start(), which returns in both processes, as fork()
 * does; messages over child.fd; child.reaped, set by whoever waits for the process; child_end().
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct error;

struct child {
	pid_t pid;		/* 0: there is none */
	bool reaped;		/* it was waited for, and pid may be another process's by now */
	int status;		/* its wait status: once reaped, and after child_end() */
	int fd;			/* SOCK_SEQPACKET; end of file when the process has ended */
};

/*
 * Forks. In the parent it fills *child and returns -1. In the child it returns the descriptor of
 * its end of the socket. When there is no process, child->pid is 0 and *err has ERROR_INTERNAL.
 */
int child_start(struct child *child, struct error *err);

/* Kills and reaps the process, and closes the socket. Accepts a child that is not there. */
void child_end(struct child *child);

/* Closes the socket only: the process goes on by itself. Accepts a child that is not there. */
void child_leave(struct child *child);
