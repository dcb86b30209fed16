/* SPDX-License-Identifier: MIT */
/* How the guard starts the command. */
#include "guarding.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/procstat.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "base/text.h"
#include "lock/lease.h"
#include "keeper.h"
#include "shared.h"

/*
 * Before the lock is taken, so that from then on this process does not outlive the lease, and is
 * continued if it is stopped. The lease is read first, for no timer is set to one that has ended,
 * even if it is renewed then.
 */
static void arm(struct guarding *g)
{
	int64_t look_ms;

	g->start_by_ms = lease_stop(shared_lease(g->plan->shared), g->plan->kill_after_ms).term_ms;
	look_ms = guarding_arm(g);
	kernel_timer_set(&g->wake_timer, g->fence ? clock_earlier(g->start_by_ms, look_ms)
						  : CLOCK_NEVER);
}

/*
 * A word from the keeper; true: it offers the lock, and we have taken it. Not while the
 * supervisor is stopped: who presses Ctrl-Z does not want the command to begin.
 */
static bool take_word(struct guarding *g)
{
	struct shared *shared = g->plan->shared;
	struct keeper_word word;
	int hold_fd = -1;

	if (ipc_receive(g->plan->gate_fd, &word, sizeof(word), MSG_DONTWAIT, &hold_fd) ==
	    (ssize_t)sizeof(word) && word.fence && g->plan->may_start &&
	    word.fence == atomic_load(&shared->fence)) {
		g->fence = word.fence;
		arm(g);
		if (!procstat_is_stopped(g->supervisor_stat) &&
		    shared_take(shared, OFFER_STARTED)) {
			g->hold_fd = hold_fd;
			return true;
		}
		g->fence = 0;
		arm(g);
	}
	if (hold_fd >= 0)
		close(hold_fd);
	return false;
}

/* An order from the supervisor; true: it is the one to run. *ended: it wants no command. */
static bool take_order(struct guarding *g, bool *ended)
{
	struct guard_order order;
	ssize_t length = ipc_receive(g->fd, &order, sizeof(order), MSG_DONTWAIT, &g->hold_fd);

	if (length < 0 && errno == EAGAIN)
		return false;
	if (length == (ssize_t)sizeof(order) && order.type == ORDER_PING) {
		guarding_tell(g, (struct guard_event){ .type = GUARD_PONG });
		return false;
	}
	*ended = length != (ssize_t)sizeof(order) || order.type != ORDER_RUN;
	if (*ended)
		return false;
	g->fence = order.fence;
	arm(g);
	return true;
}

/* The supervisor took the lock, but was stopped for so long then that it was given back. */
static bool is_withdrawn(const struct guarding *g)
{
	int offer = OFFER_TAKEN;

	return g->fence &&
	       !atomic_compare_exchange_strong(&g->plan->shared->offer, &offer, OFFER_STARTED) &&
	       offer == OFFER_WITHDRAWN;
}

/* Waits for the order to run, or the lock itself. */
static enum launched await_order(struct guarding *g)
{
	struct pollfd words[] = {
		{ .fd = g->fd, .events = POLLIN }, { .fd = g->plan->gate_fd, .events = POLLIN },
	};
	bool ended = false, started = false;

	while (!started) {
		words[0].events = (short)(g->has_pending ? POLLIN | POLLOUT : POLLIN);
		poll(words, 2, -1);
		guarding_flush(g);
		if (words[0].revents & ~POLLOUT)
			started = take_order(g, &ended);
		if (ended)
			return LAUNCH_ENDED;
		if (!started && words[1].revents)
			started = take_word(g);
		/* The keeper has gone, and says nothing any more. */
		if (words[1].revents & POLLHUP)
			words[1].fd = -1;
	}
	if (is_withdrawn(g))
		return LAUNCH_TOO_LATE;
	/* Held up for so long on the way here that it is not safe to begin. */
	return g->fence && clock_boot_ms() >= g->start_by_ms ? LAUNCH_TOO_LATE : LAUNCHED;
}

void guarding_report(int fd, enum report_type type, int value)
{
	const struct report report = { type, value };
	ssize_t told = write(fd, &report, sizeof(report));

	(void)told;	/* a guard that is gone needs no report */
}

void guarding_become_command(const struct guarding *g, pid_t parent, int report_fd,
			     bool foreground)
{
	const struct guard_plan *plan = g->plan;
	char *const *envp = g->fence ? plan->envp : plan->bare_envp;

	/* Last resort, should every process of dlock be killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	/* What a terminal sends to dlock's group is not for us. */
	setpgid(0, 0);
	guarding_report(report_fd, REPORT_PID, 0);
	if (g->fence)
		text_digits(plan->fence_text, g->fence);
	if (foreground)
		terminal_give(plan->terminal, getpid());
	signals_restore(plan->signals);
	execvpe(plan->argv[0], plan->argv, envp);
	guarding_report(report_fd, REPORT_EXEC_FAILED, errno);
	_exit(127);
}

/* From now on the command has this number. */
static void know_command(struct guarding *g, pid_t pid)
{
	g->command = g->group = pid;
	atomic_store(&g->plan->shared->command, pid);
}

/* Forks the process that becomes the command. */
static int fork_command(struct guarding *g, bool foreground)
{
	const pid_t guard = getpid();
	int report[2];

	if (pipe2(report, O_CLOEXEC | O_NONBLOCK))
		return -1;
	g->report_fd = report[0];
	g->child = fork();
	if (g->child == 0)
		guarding_become_command(g, guard, report[1], foreground);
	close(report[1]);
	if (g->child < 0)
		return -1;
	/* The command does the same; whoever of the two comes first. */
	setpgid(g->child, g->child);
	know_command(g, g->child);
	return 0;
}

static enum launched launch_command(struct guarding *g)
{
	/* Here, for in a namespace the terminal's group has no number. */
	const bool foreground = terminal_is_free(g->plan->terminal);
	const bool contain = g->plan->contain;

	if (!(contain ? guarding_contain(g, foreground) : fork_command(g, foreground)))
		return LAUNCHED;
	g->child = 0;
	*(contain ? &g->contain_failure : &g->exec_failure) = errno;
	return LAUNCH_FAILED;
}

/* Receives a report, and the sender's number as it is in this process's namespace. */
static bool receive_report(int fd, struct report *report, pid_t *sender)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} room;
	struct iovec part = { .iov_base = report, .iov_len = sizeof(*report) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room,
				  .msg_controllen = sizeof(room) };
	const struct cmsghdr *control;
	struct ucred credentials;

	if (recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*report))
		return false;
	control = CMSG_FIRSTHDR(&message);
	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_CREDENTIALS)
		return false;
	memcpy(&credentials, CMSG_DATA(control), sizeof(credentials));
	*sender = credentials.pid;
	return true;
}

/* One report, from the pipe of fork_command() or the socket of guarding_contain(). */
static bool next_report(const struct guarding *g, struct report *report, pid_t *sender)
{
	*sender = 0;
	if (g->report_fd < 0)
		return false;
	if (g->plan->contain)
		return receive_report(g->report_fd, report, sender);
	return read(g->report_fd, report, sizeof(*report)) == (ssize_t)sizeof(*report);
}

void guarding_read_reports(struct guarding *g)
{
	struct report report;
	pid_t sender;

	while (next_report(g, &report, &sender)) {
		switch (report.type) {
		case REPORT_PID:
			if (sender)
				know_command(g, sender);
			break;
		case REPORT_EXEC_FAILED:
			g->exec_failure = report.value;
			break;
		case REPORT_NOT_CONTAINED:
			g->contain_failure = report.value;
			break;
		case REPORT_STOPPED:
		case REPORT_ENDED:
			guarding_command_changed(g, report.value);
			break;
		case REPORT_LEFTOVERS:
			g->leftovers = true;
			break;
		}
	}
}

enum launched guarding_launch(struct guarding *g)
{
	char supervisor[TEXT_DIGITS_SIZE];
	enum launched launched;

	if (g->plan->gate_fd >= 0) {
		text_digits(supervisor, (uint64_t)getppid());
		g->supervisor_stat = procstat_open(supervisor);
	}
	launched = await_order(g);
	return launched == LAUNCHED ? launch_command(g) : launched;
}
