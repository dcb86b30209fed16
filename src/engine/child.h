/* SPDX-License-Identifier: MIT */
/*
 * A child process of the supervisor (the guard or the keeper), and the socket between these two.
 *
 * Calling sequence, in the supervisor: child_start(), which returns in both processes, as fork()
 * does; messages over child.fd; child.reaped, set by the caller of waitpid(); child_end().
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct error;

struct child {
	pid_t pid;		/* 0: there is none */
	bool reaped;		/* another process may have its pid */
	int status;		/* wait status, once reaped or after child_end() */
	int fd;			/* SOCK_SEQPACKET; end of file when the process has ended */
};

/*
 * Fork. Returns in the parent -1 with *child filled, and in the child the descriptor of its end of
 * the socket. After a failure child->pid is 0, and *err has ERROR_INTERNAL.
 */
int child_start(struct child *child, struct error *err);

/* Kill and reap the process, and close the socket. Accepts a child without a process. */
void child_end(struct child *child);

/* Close the socket, and let the process go on. Accepts a child without a process. */
void child_leave(struct child *child);
