/* SPDX-License-Identifier: MIT */
/*
 * What the guard and the processes between it and the command say: events to the supervisor, and
 * reports to the guard.
 */
#include "guarding.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared.h"

/* ---- events to the supervisor ---- */

bool guarding_send(const struct guarding *g, const struct guard_event *event, int flags)
{
	return g->fd < 0 || send(g->fd, event, sizeof(*event), flags | MSG_NOSIGNAL) >= 0 ||
	       errno != EAGAIN;
}

void guarding_flush(struct guarding *g, int flags)
{
	if (!g->has_pending)
		return;
	for (int type = 0; type < GUARD_EVENT_TYPES; type++) {
		if (!g->is_pending[type])
			continue;
		if (!guarding_send(g, &g->pending[type], flags))
			return;
		g->is_pending[type] = false;
	}
	g->has_pending = false;
}

void guarding_tell(struct guarding *g, struct guard_event event)
{
	if (!g->has_pending && guarding_send(g, &event, MSG_DONTWAIT))
		return;
	g->pending[event.type] = event;
	g->is_pending[event.type] = true;
	g->has_pending = true;
}

/* ---- reports to the guard ---- */

void guarding_report(int fd, enum report_type type, int value)
{
	const struct report report = { type, value };
	ssize_t told = write(fd, &report, sizeof(report));

	(void)told;	/* A guard that is gone needs no report. */
}

void guarding_know_command(struct guarding *g, pid_t pid)
{
	g->command = g->group = pid;
	atomic_store(&g->plan->shared->command, pid);
}

void guarding_command_changed(struct guarding *g, int status)
{
	if (WIFSTOPPED(status)) {
		guarding_tell(g, (struct guard_event){ .type = GUARD_STOPPED,
						       .value = WSTOPSIG(status) });
		return;
	}
	g->command = 0;
	g->ended = true;
	g->status = status;
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

/* One report, from the socket of guarding_fork_command() or guarding_contain(). */
static bool next_report(const struct guarding *g, struct report *report, pid_t *sender)
{
	*sender = 0;
	if (g->report_fd < 0)
		return false;
	if (g->plan->contain)
		return receive_report(g->report_fd, report, sender);
	return recv(g->report_fd, report, sizeof(*report), MSG_DONTWAIT) ==
	       (ssize_t)sizeof(*report);
}

void guarding_read_reports(struct guarding *g)
{
	struct report report;
	pid_t sender;

	while (next_report(g, &report, &sender)) {
		switch (report.type) {
		case REPORT_PID:
			if (sender)
				guarding_know_command(g, sender);
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
