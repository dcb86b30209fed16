/* SPDX-License-Identifier: MIT */
/* Starts the keeper, sends its orders, and receives its events. */
#include "keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ipc.h"
#include "base/process.h"
#include "supervisor.h"

/* The time to release for a keeper whose events cannot be received. */
#define UNHEARD_MS 5000

int keeper_start(struct supervisor *s, enum keeper_mode mode, struct error *err)
{
	struct keeper *keeper = &s->keeper;
	const int fd = child_start(&keeper->child, err);

	if (fd >= 0)
		keeper_main(s, mode, fd);
	keeper->hold_fd = -1;
	keeper->ends = mode == KEEPER_RELEASE || mode == KEEPER_ADOPT;
	return keeper->child.pid ? 0 : -1;
}

/* Let the keeper release and end. Its result cannot be received. */
static void await_end(const struct keeper *keeper)
{
	struct pollfd end = { .fd = pidfd_open_once(keeper->child.pid), .events = POLLIN };

	kill(keeper->child.pid, SIGTERM);
	poll(&end, 1, UNHEARD_MS);
	close(end.fd);
}

bool keeper_event(struct keeper *keeper, struct keeper_event *event)
{
	enum ipc_result received;
	int hold_fd = -1;

	if (!keeper->child.pid)
		return false;
	received = ipc_receive(keeper->child.fd, event, sizeof(*event), MSG_DONTWAIT, &hold_fd);
	if (hold_fd >= 0) {
		keeper_drop_hold(keeper);
		keeper->hold_fd = hold_fd;
	}
	if (received == IPC_DONE) {
		if (event->keeps)
			child_leave(&keeper->child);
		return true;
	}
	if (received == IPC_LATER)
		return false;
	if (received == IPC_FAILED && keeper->ends && !keeper->child.reaped)
		await_end(keeper);
	*event = (struct keeper_event){ .type = KEEPER_GONE };
	child_end(&keeper->child);
	return true;
}

void keeper_order(struct keeper *keeper, enum keeper_order order)
{
	keeper->ends |= order == KEEPER_ORDER_DETACH;
	/* There is room for the few orders of a run. A failure ends the keeper. */
	if (keeper->child.pid && ipc_send(keeper->child.fd, &order, sizeof(order), MSG_DONTWAIT,
					  -1) == IPC_FAILED)
		shutdown(keeper->child.fd, SHUT_RDWR);
}

bool keeper_has_hold(const struct keeper *keeper)
{
	struct pollfd hold = { .fd = keeper->hold_fd, .events = POLLIN | POLLRDHUP };

	return poll(&hold, 1, 0) == 0;
}

void keeper_drop_hold(struct keeper *keeper)
{
	if (keeper->hold_fd >= 0)
		close(keeper->hold_fd);
	keeper->hold_fd = -1;
}
