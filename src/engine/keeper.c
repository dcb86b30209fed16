/* SPDX-License-Identifier: MIT */
#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ipc.h"
#include "keeping.h"

int keeper_start(struct keeper *keeper, const struct keeper_plan *plan, struct error *err)
{
	const int fd = child_start(&keeper->child, err);

	if (fd >= 0)
		keeping_main(plan, fd);
	keeper->hold_fd = -1;
	return keeper->child.pid ? 0 : -1;
}

bool keeper_event(struct keeper *keeper, struct keeper_event *event)
{
	ssize_t length;
	int hold_fd = -1;

	if (!keeper->child.pid)
		return false;
	length = ipc_receive(keeper->child.fd, event, sizeof(*event), MSG_DONTWAIT, &hold_fd);
	if (hold_fd >= 0) {
		keeper_drop_hold(keeper);
		keeper->hold_fd = hold_fd;
	}
	if (length == (ssize_t)sizeof(*event))
		return true;
	if (length < 0 && errno == EAGAIN)
		return false;
	*event = (struct keeper_event){ .type = KEEPER_GONE };
	keeper_kill(keeper);
	return true;
}

static void give_order(const struct keeper *keeper, struct keeper_order order)
{
	if (keeper->child.pid)
		/* At most a handful are ever sent: there is room for them. */
		send(keeper->child.fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void keeper_release(const struct keeper *keeper, bool unused)
{
	give_order(keeper, (struct keeper_order){ .type = KEEPER_ORDER_RELEASE, .unused = unused });
}

void keeper_retry(const struct keeper *keeper)
{
	give_order(keeper, (struct keeper_order){ .type = KEEPER_ORDER_RETRY });
}

void keeper_detach(const struct keeper *keeper)
{
	give_order(keeper, (struct keeper_order){ .type = KEEPER_ORDER_DETACH });
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

void keeper_kill(struct keeper *keeper)
{
	child_end(&keeper->child);
}
