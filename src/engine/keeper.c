/* SPDX-License-Identifier: MIT */
#include "keeper_join.h"

#include <errno.h>
#include <poll.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/ipc.h"
#include "base/pidfd.h"
#include "base/signals.h"
#include "shared.h"
#include "watchdog.h"

/* Bytes that the supervisor has not read yet (SIOCOUTQ), a third of what Linux holds for it. */
#define UNREAD_MAX (64 * 1024)

/* ---- in the keeper ---- */

/*
 * A supervisor that is stopped reads nothing. What is only to be shown is left out then, so that
 * there is always room for what changes the outcome, and sending it does not block.
 */
static bool is_worth_sending(const struct keeping *k, enum keeper_event_type type)
{
	int unread = 0;

	switch (type) {
	case KEEPER_WAITING:
	case KEEPER_RETRYING:
	case KEEPER_RENEWED:
	case KEEPER_TROUBLE:
		return ioctl(k->fd, SIOCOUTQ, &unread) || unread < UNREAD_MAX;
	default:
		return true;
	}
}

void keeping_tell(struct keeping *k, enum keeper_event_type type)
{
	k->event.type = type;
	k->event.at_ms = clock_boot_ms();
	if (!is_worth_sending(k, type))
		return;
	ipc_send(k->fd, &k->event, sizeof(k->event), 0,
		 type == KEEPER_HELD ? k->hold_fd : -1);
}

/* Where the notes go; a library has threads of its own. -1: nobody wants them. */
static _Atomic int note_fd = -1;

/* Not worth to wait for: a supervisor that is stopped must not stop the library. */
static void note(const char *line)
{
	struct keeper_event event = { .type = KEEPER_NOTE, .at_ms = clock_boot_ms() };
	int unread = 0;

	if (!ioctl(atomic_load(&note_fd), SIOCOUTQ, &unread) && unread >= UNREAD_MAX)
		return;
	error_set(&event.error, ERROR_NONE, 0, "%s", line);
	send(atomic_load(&note_fd), &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void keeping_end_notes(void)
{
	atomic_store(&note_fd, -1);
}

void keeping_end_daemon(const struct keeping *k)
{
	if (k->listener < 0)
		return;
	unlink(k->socket_path);
	watchdog_end(k->watchdog);
}

void keeping_finish(struct keeping *k, enum keeper_event_type type)
{
	keeping_end_daemon(k);
	k->event.last = true;
	keeping_tell(k, type);
	_exit(0);
}

static enum wake read_order(struct keeping *k)
{
	struct order order;

	if (recv(k->fd, &order, sizeof(order), 0) != (ssize_t)sizeof(order)) {
		k->orphaned = true;
		return WAKE_ORPHANED;
	}
	switch (order.type) {
	case ORDER_RETRY:
		return WAKE_RETRY;
	case ORDER_DETACH:
		return WAKE_DETACH;
	case ORDER_RELEASE:
		break;
	}
	if (order.unused)
		k->min_hold_ms = 0;
	return WAKE_RELEASE;
}

/* What the guard has written, or that it and the supervisor are gone. */
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
 * A daemon ends on TERM; the rest, a hang-up above all, it outlives. URG is how
 * `dlock break` has it look at once.
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

/* What tells that the process has ended which the hold is for, or which has it. */
static int process_fd(const struct keeping *k)
{
	if (k->listener < 0)
		return k->daemon_fd;
	if (k->leaving)
		return k->members;
	return k->plan->process ? k->plan->process->fd : -1;
}

enum wake keeping_rest(struct keeping *k, int64_t until_ms, bool with_backend)
{
	enum {
		ORDERS, GUARD, QUERIES, PROCESS, GUARD_END, SIGNALS, TIMER, BACKEND, POLLED
	};
	bool daemon = k->listener >= 0;
	/* Of a daemon that is leaving it has ended. */
	const struct pidfd *process = daemon && !k->leaving ? k->plan->process : NULL;
	struct pollfd fds[POLLED] = {
		[ORDERS] = { .fd = k->orphaned ? -1 : k->fd },
		[GUARD] = { .fd = daemon || k->abandoned ? -1 : k->plan->guard_pipe[0] },
		[GUARD_END] = { .fd = k->guard_fd },
		[QUERIES] = { .fd = k->listener },
		[PROCESS] = { .fd = process_fd(k) },
		[SIGNALS] = { .fd = daemon ? k->plan->signals->fd : -1 },
		[TIMER] = { .fd = k->timer },
		[BACKEND] = { .fd = with_backend ? k->backend->ops->event_fd(k->backend) : -1 },
	};

	for (int i = 0; i < POLLED; i++)
		fds[i].events = POLLIN;
	if (k->timer >= 0)
		clock_timer_set(k->timer, until_ms);
	poll(fds, POLLED, clock_poll_timeout(process ? pidfd_look(process, until_ms) : until_ms));
	/* Before the guard's end, for the guard ends when it has written its word. */
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
	if (!daemon && fds[PROCESS].revents)
		return WAKE_LOOK;
	return fds[BACKEND].revents ? WAKE_EVENT : WAKE_TIME;
}

static void verify(struct keeping *k)
{
	switch (k->backend->ops->verify(k->backend, &k->request, &k->event.error)) {
	case OUTCOME_HELD:
		keeping_finish(k, KEEPER_HELD);
		break;
	case OUTCOME_ERROR:
		keeping_finish(k, KEEPER_FAILED);
		break;
	case OUTCOME_BUSY:
		keeping_finish(k, KEEPER_BUSY);
	case OUTCOME_LOST:
		keeping_finish(k, KEEPER_LOST);
	}
}

/* Backends vary their pauses with rand(), so that many do not ask at one time: not all alike. */
static void vary(const char *token)
{
	unsigned int seed = 0;

	while (*token)
		seed = seed * 31 + (unsigned char)*token++;
	srand(seed);
}

static void keeper_main(const struct keeper_plan *plan, int fd)
{
	static struct keeping k = {
		.guard_fd = -1, .listener = -1, .timer = -1, .watchdog = -1,
		.until_ms = CLOCK_NEVER, .members = -1, .alive = { -1, -1 },
		.share_fd = -1, .daemon_fd = -1, .hold_fd = -1, .slot_fd = -1,
	};
	struct grant grant = { 0 };

	k.plan = plan;
	k.request = *plan->request;
	k.min_hold_ms = plan->min_hold_ms;
	vary(k.request.token);
	k.fd = fd;
	k.session = getsid(0);
	k.supervisor = getppid();
	prctl(PR_SET_NAME, "dlock-keeper");
	/* A session of its own: what ends dlock's job, or its terminal, leaves us to
	 * clean up. */
	setsid();
	/* The user's terminal and pipes are none of ours, a library's words no output. */
	fds_drop_standard();
	if (plan->guard_pipe[1] >= 0)
		close(plan->guard_pipe[1]);
	if (plan->mode == KEEPER_ADOPT) {
		k.backend = plan->backend;
		grant = *plan->grant;
		k.hold_fd = grant.hold_fd;
		k.slot_fd = grant.slot_fd;
		keeping_detach(&k, &grant);
		keeping_hold(&k, &grant);
	}
	k.backend = backend_open(plan->driver, plan->uri, &k.event.error);
	if (!k.backend)
		keeping_finish(&k, KEEPER_FAILED);
	if (plan->with_log) {
		atomic_store(&note_fd, fd);
		k.backend->log = note;
	}
	if (plan->mode == KEEPER_VERIFY)
		verify(&k);
	if (plan->mode == KEEPER_JOIN)
		keeping_join(&k);
	if (plan->mode == KEEPER_RELEASE)
		keeping_release(&k, true);
	keeping_acquire(&k, &grant);
	keeping_hold(&k, &grant);
}

/* ---- in the supervisor ---- */

int keeper_start(struct keeper *keeper, const struct keeper_plan *plan, struct error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		error_set(err, ERROR_INTERNAL, errno, "socketpair");
		return -1;
	}
	/* One thread, no handlers of fork(): nothing to lock or set right, in pages to copy. */
	keeper->reaped = false;
	keeper->pid = _Fork();
	if (keeper->pid < 0) {
		keeper->pid = 0;
		error_set(err, ERROR_INTERNAL, errno, "fork");
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	if (keeper->pid == 0) {
		close(ends[0]);
		keeper_main(plan, ends[1]);
	}
	close(ends[1]);
	keeper->fd = ends[0];
	keeper->hold_fd = -1;
	return 0;
}

bool keeper_event(struct keeper *keeper, struct keeper_event *event)
{
	ssize_t length;
	int hold_fd = -1;

	if (!keeper->pid)
		return false;
	length = ipc_receive(keeper->fd, event, sizeof(*event), MSG_DONTWAIT, &hold_fd);
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

static void give_order(const struct keeper *keeper, struct order order)
{
	if (keeper->pid)
		/* At most a handful are ever sent: there is room for them. */
		send(keeper->fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void keeper_release(const struct keeper *keeper, bool unused)
{
	give_order(keeper, (struct order){ .type = ORDER_RELEASE, .unused = unused });
}

void keeper_retry(const struct keeper *keeper)
{
	give_order(keeper, (struct order){ .type = ORDER_RETRY });
}

void keeper_detach(const struct keeper *keeper)
{
	give_order(keeper, (struct order){ .type = ORDER_DETACH });
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
	if (!keeper->pid)
		return;
	if (!keeper->reaped) {
		kill(keeper->pid, SIGKILL);
		waitpid(keeper->pid, NULL, 0);
	}
	close(keeper->fd);
	keeper->pid = 0;
	keeper->fd = -1;
}
