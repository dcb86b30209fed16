/* SPDX-License-Identifier: MIT */
/* Starts the keeper, sends its orders, and receives its events. */
#include "keeper.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ipc.h"

int keeper_start(struct keeper *keeper, const struct job *job, enum keeper_mode mode,
		 struct error *err)
{
	const int fd = child_start(&keeper->child, err);

	if (fd >= 0)
		keeper_main(job, mode, fd);
	keeper->hold_fd = -1;
	return keeper->child.pid ? 0 : -1;
}

bool keeper_event(struct keeper *keeper, struct keeper_event *event)
{
	enum ipc_result received;
	int status;

	if (!keeper->child.pid)
		return false;
	received = ipc_receive(keeper->child.fd, event, sizeof(*event), MSG_DONTWAIT,
			       &keeper->hold_fd);
	if (received == IPC_DONE) {
		if (event->keeps)
			child_leave(&keeper->child);
		return true;
	}
	if (received == IPC_LATER)
		return false;
	*event = (struct keeper_event){ .type = KEEPER_GONE, .last = true };
	/*
	 * After a message has failed, a keeper releases by itself: a daemon on TERM, and others at
	 * the end of the connection, as after the death of this process.
	 */
	if (ipc_has_failed(&event->error)) {
		if (!keeper->child.reaped)
			kill(keeper->child.pid, SIGTERM);
		child_leave(&keeper->child);
		return true;
	}
	child_end(&keeper->child);
	status = keeper->child.status;
	error_set(&event->error, ERROR_INTERNAL, 0, WIFSIGNALED(status)
		  ? "the keeper process was killed by signal %d"
		  : "the keeper process ended with status %d",
		  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return true;
}

void keeper_order(struct keeper *keeper, enum keeper_order order)
{
	/* There is room for the few orders of a run. A failure ends the connection. */
	if (keeper->child.pid && ipc_send(keeper->child.fd, &order, sizeof(order), MSG_DONTWAIT,
					  -1) == IPC_FAILED)
		shutdown(keeper->child.fd, SHUT_RDWR);
}

void keeper_drop_hold(struct keeper *keeper)
{
	if (keeper->hold_fd >= 0)
		close(keeper->hold_fd);
	keeper->hold_fd = -1;
}
