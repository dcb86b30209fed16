/* SPDX-License-Identifier: MIT */
/* Starts the guard, sends its orders, and receives its events. */
#include "guard.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/ipc.h"
#include "guard_process.h"

int guard_start(struct child *guard, const struct job *job, struct error *err)
{
	const int fd = child_start(guard, err);

	if (fd >= 0)
		guard_main(job, fd);
	if (!guard->pid)
		return -1;
	/* The guard does the same; either may be first. */
	setpgid(guard->pid, 0);
	return 0;
}

/*
 * Send an order without waiting, because the supervisor has deadlines to keep. The socket has room
 * for some 200 orders. After a failure the guard acts as if this process were dead: it ends the
 * command's tree, or starts no command.
 */
static void give_order(const struct child *guard, struct guard_order order, int fd)
{
	if (guard->pid &&
	    ipc_send(guard->fd, &order, sizeof(order), MSG_DONTWAIT, fd) == IPC_FAILED)
		shutdown(guard->fd, SHUT_WR);
}

void guard_run(const struct child *guard, bool locked, int hold_fd)
{
	give_order(guard, (struct guard_order){ .locked = locked }, hold_fd);
}

void guard_signal(const struct child *guard, int sig, bool group)
{
	give_order(guard, (struct guard_order){ .sig = sig, .group = group }, -1);
}

bool guard_event(struct child *guard, struct guard_event *event)
{
	const enum ipc_result received = ipc_receive(guard->fd, event, sizeof(*event),
						     MSG_DONTWAIT, NULL);

	if (received != IPC_DONE)
		*event = (struct guard_event){ .type = GUARD_GONE };
	return received != IPC_LATER;
}
