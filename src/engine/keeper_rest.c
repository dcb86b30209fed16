/* SPDX-License-Identifier: MIT */
/* How the keeper sleeps, and what it wakes up for. */
#include "keeping.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/pidfd.h"
#include "base/signals.h"
#include "shared.h"

static enum wake read_order(struct keeping *k)
{
	struct keeper_order order;

	switch (ipc_receive(k->fd, &order, sizeof(order), 0, NULL)) {
	case IPC_DONE:
		break;
	case IPC_FAILED:
		keeping_abort(k);
	case IPC_LATER:
		return WAKE_TIME;
	case IPC_GONE:
		k->orphaned = true;
		return WAKE_ORPHANED;
	}
	switch (order.type) {
	case KEEPER_ORDER_RETRY:
		return WAKE_RETRY;
	case KEEPER_ORDER_DETACH:
		return WAKE_DETACH;
	case KEEPER_ORDER_RELEASE:
		break;
	}
	if (order.unused)
		k->min_hold_ms = 0;
	return WAKE_RELEASE;
}

/* Reads the guard's byte, or notices that guard and supervisor are gone. */
static enum wake read_guard(struct keeping *k)
{
	char word;

	if (read(k->plan->guard_pipe[0], &word, 1) != 1)
		return WAKE_ABANDONED;
	if (word == KEEPER_TOLD_UNUSED)
		k->min_hold_ms = 0;
	return WAKE_RELEASE;
}

/*
 * A daemon ends on TERM and ignores other signals, HUP above all. `dlock break` sends URG so that
 * it looks at the lock at once.
 */
static enum wake read_signals(const struct keeping *k)
{
	enum wake wake = WAKE_TIME;
	int sig;

	while ((sig = signals_next(k->plan->signals, NULL))) {
		if (sig == SIGTERM)
			wake = WAKE_RELEASE;
		else if (sig == SIGURG && wake == WAKE_TIME)
			wake = WAKE_LOOK;
	}
	return wake;
}

void keeping_watch(struct keeping *k)
{
	const pid_t guard = atomic_load(&k->plan->shared->guard);

	if (!guard || guard == k->guard)
		return;
	if (k->guard_fd >= 0)
		close(k->guard_fd);
	k->guard = guard;
	k->guard_fd = pidfd_open_once(guard);
}

/* Readable when the process has ended that a daemon holds for; hung up: the daemon that was joined. */
static int process_fd(const struct keeping *k)
{
	if (k->listener < 0)
		return k->daemon_ended ? -1 : k->share_fd;
	if (k->leaving)
		return k->members;
	return k->plan->process ? k->plan->process->fd : -1;
}

/* Readable when the caller of a daemon asks, or another one may be accepted. */
static int query_fd(const struct keeping *k, int64_t *until_ms)
{
	const struct keeper_caller *caller = &k->caller;

	if (caller->fd >= 0) {
		*until_ms = clock_earlier(*until_ms, caller->until_ms);
		return caller->fd;
	}
	if (clock_boot_ms() >= caller->deaf_until_ms)
		return k->listener;
	*until_ms = clock_earlier(*until_ms, caller->deaf_until_ms);
	return -1;
}

/* The pause where poll() is refused. */
#define UNPOLLED_NS 100000000

enum wake keeping_rest(struct keeping *k, int64_t until_ms, bool with_backend)
{
	enum {
		ORDERS, GUARD, QUERIES, PROCESS, GUARD_END, SIGNALS, TIMER, BACKEND, POLLED
	};
	bool daemon = k->listener >= 0, guarded = !daemon && !k->keeps && !k->abandoned;
	/* The process of a daemon that is leaving has ended already. */
	const struct pidfd *process = daemon && !k->leaving ? k->plan->process : NULL;
	struct pollfd fds[POLLED] = {
		[ORDERS] = { .fd = k->orphaned || k->keeps ? -1 : k->fd },
		[GUARD] = { .fd = guarded ? k->plan->guard_pipe[0] : -1 },
		[GUARD_END] = { .fd = k->guard_fd },
		[QUERIES] = { .fd = query_fd(k, &until_ms) },
		[PROCESS] = { .fd = process_fd(k) },
		[SIGNALS] = { .fd = daemon || k->keeps ? k->plan->signals->fd : -1 },
		[TIMER] = { .fd = k->timer },
		[BACKEND] = { .fd = with_backend ? k->backend->ops->fd(k->backend) : -1 },
	};

	for (int i = 0; i < POLLED; i++)
		fds[i].events = POLLIN;
	if (!daemon)
		fds[PROCESS].events = POLLRDHUP;
	if (k->timer >= 0)
		clock_timer_set(k->timer, until_ms);
	if (poll(fds, POLLED, clock_poll_timeout(until_ms)) < 0 && errno == EINVAL)
		/* This process may not even poll so many descriptors, until its limit is raised. */
		nanosleep(&(struct timespec){ .tv_nsec = UNPOLLED_NS }, NULL);
	if (k->caller.fd >= 0 && !fds[QUERIES].revents && clock_boot_ms() >= k->caller.until_ms)
		keeper_socket_hang_up(&k->caller);
	/* This comes before the guard's end, for the guard writes and then ends. */
	if (fds[GUARD].revents)
		return read_guard(k);
	if ((process && pidfd_ended(process)) || (daemon && k->leaving && fds[PROCESS].revents))
		return WAKE_RELEASE;
	if (fds[GUARD_END].revents) {
		close(k->guard_fd);
		k->guard_fd = -1;
		return WAKE_UNGUARDED;
	}
	if (fds[SIGNALS].revents)
		return read_signals(k);
	if (fds[ORDERS].revents)
		return read_order(k);
	if (fds[QUERIES].revents)
		return WAKE_QUERY;
	/* The daemon has ended: that is said once. */
	if (!daemon && fds[PROCESS].revents) {
		k->daemon_ended = true;
		return WAKE_LOOK;
	}
	return fds[BACKEND].revents ? WAKE_EVENT : WAKE_TIME;
}
