/* SPDX-License-Identifier: MIT */
/* Forks a child with a socket, and ends it. */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

int child_start(struct child *child, struct error *err)
{
	int ends[2];

	*child = (struct child){ .fd = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_set(err, ERROR_INTERNAL, errno, "socketpair");
	/* There is one thread, so handlers of fork() are not needed. */
	child->pid = _Fork();
	if (child->pid == 0) {
		close(ends[0]);
		return ends[1];
	}
	child->fd = ends[0];
	if (child->pid < 0) {
		error_set(err, ERROR_INTERNAL, errno, "cannot start a process");
		child_leave(child);
	}
	close(ends[1]);
	return -1;
}

void child_end(struct child *child)
{
	if (!child->pid)
		return;
	if (!child->reaped) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, &child->status, 0);
	}
	child_leave(child);
}

void child_leave(struct child *child)
{
	if (!child->pid)
		return;
	close(child->fd);
	*child = (struct child){ .fd = -1, .status = child->status };
}
