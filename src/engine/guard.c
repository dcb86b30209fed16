/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ipc.h"
#include "guarding.h"

/* For how long guard_dismiss() waits for the guard to end by itself. */
#define DISMISS_MS 2000

int guard_start(struct guard *guard, const struct guard_plan *plan, struct error *err)
{
	int fd;

	*guard = (struct guard){ .child = { .fd = -1 } };
	fd = child_start(&guard->child, err);
	if (fd >= 0)
		guarding_main(plan, fd);
	if (!guard->child.pid)
		return -1;
	/* The guard does the same; whichever of the two comes first. */
	setpgid(guard->child.pid, 0);
	return 0;
}

/*
 * Does not wait for a guard that does not read, for the supervisor has deadlines to keep. False:
 * there is no room now.
 */
static bool give_order(const struct guard *guard, struct guard_order order, int fd)
{
	return ipc_send(guard->child.fd, &order, sizeof(order), MSG_DONTWAIT, fd) != IPC_LATER;
}

void guard_run(const struct guard *guard, uint64_t fence, int hold_fd)
{
	const struct guard_order order = { .type = GUARD_ORDER_RUN, .fence = fence };

	/* The first order of all: there is room for it. The caller looks for a failure. */
	if (guard->child.pid)
		give_order(guard, order, hold_fd);
}

static void flush_signals(struct guard *guard, uint64_t *signals, enum guard_order_type type)
{
	for (int sig = 1; *signals; sig++) {
		const uint64_t bit = UINT64_C(1) << (sig - 1);

		if (!(*signals & bit))
			continue;
		if (!give_order(guard, (struct guard_order){ .type = type, .sig = sig }, -1))
			return;
		*signals &= ~bit;
	}
}

void guard_flush(struct guard *guard)
{
	static const struct guard_order stop = { .type = GUARD_ORDER_STOP };
	static const struct guard_order ping = { .type = GUARD_ORDER_PING };
	struct guard_pending *pending = &guard->pending;

	if (!guard->child.pid)
		return;
	if (pending->stop)
		pending->stop = !give_order(guard, stop, -1);
	if (pending->ping)
		pending->ping = !give_order(guard, ping, -1);
	flush_signals(guard, &pending->signals, GUARD_ORDER_SIGNAL);
	flush_signals(guard, &pending->group_signals, GUARD_ORDER_SIGNAL_GROUP);
}

bool guard_has_pending(const struct guard *guard)
{
	const struct guard_pending *pending = &guard->pending;

	return pending->stop || pending->ping || pending->signals || pending->group_signals;
}

void guard_signal(struct guard *guard, int sig, bool group)
{
	uint64_t *signals = group ? &guard->pending.group_signals : &guard->pending.signals;

	*signals |= UINT64_C(1) << (sig - 1);
	guard_flush(guard);
}

void guard_stop(struct guard *guard)
{
	guard->pending.stop = true;
	guard_flush(guard);
}

void guard_ping(struct guard *guard)
{
	guard->pending.ping = true;
	guard_flush(guard);
}

void guard_hang_up(const struct guard *guard)
{
	if (guard->child.pid)
		shutdown(guard->child.fd, SHUT_WR);
}

bool guard_is_there(const struct guard *guard)
{
	char first;

	return ipc_receive(guard->child.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT, NULL) <= IPC_LATER;
}

bool guard_early_event(struct guard *guard, struct guard_event *event)
{
	if (ipc_receive(guard->child.fd, event, sizeof(*event), MSG_PEEK | MSG_DONTWAIT, NULL) !=
	    IPC_DONE)
		return false;
	switch (event->type) {
	case GUARD_NO_PARENT:
	case GUARD_UNTIMED:
	case GUARD_PONG:
		return guard_event(guard, event);
	default:
		return false;
	}
}

bool guard_event(struct guard *guard, struct guard_event *event)
{
	switch (ipc_receive(guard->child.fd, event, sizeof(*event), MSG_DONTWAIT, NULL)) {
	case IPC_DONE:
		return true;
	case IPC_LATER:
		return false;
	case IPC_GONE:
	case IPC_FAILED:
		break;
	}
	*event = (struct guard_event){ .type = GUARD_GONE };
	return true;
}

void guard_dismiss(struct guard *guard)
{
	struct pollfd ended = { .fd = guard->child.fd };

	if (guard->child.pid && !guard->child.reaped) {
		/* A guard that is stopped could not end. */
		kill(guard->child.pid, SIGCONT);
		guard_hang_up(guard);
		poll(&ended, 1, DISMISS_MS);
	}
	guard_finish(guard);
}

void guard_finish(struct guard *guard)
{
	child_end(&guard->child);
	guard->pending = (struct guard_pending){ 0 };
}
