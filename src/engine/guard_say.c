/* SPDX-License-Identifier: MIT */
/*
 * What the guard and the processes between it and the command say: events to the supervisor, and
 * reports to the guard.
 */
#include "guarding.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ipc.h"
#include "shared.h"

/* ---- events to the supervisor ---- */

static void send_event(const struct guarding *g, const struct guard_event *event, int flags)
{
	if (g->fd >= 0)
		ipc_send(g->fd, event, sizeof(*event), flags, -1);
}

void guarding_tell(struct guarding *g, struct guard_event event)
{
	if (event.type == GUARD_EXPIRING)
		g->last.expired = true;
	if (event.type == GUARD_OVERDUE) {
		g->last.overdue = true;
		g->last.limit = (enum guard_limit)event.value;
	}
	send_event(g, &event, MSG_DONTWAIT);
}

void guarding_tell_last(const struct guarding *g, struct guard_event event)
{
	struct guard_event last = g->last;

	last.last = true;
	last.type = event.type;
	last.value = event.value;
	send_event(g, &last, 0);
}

void guarding_tell_start(struct guarding *g)
{
	if (g->told_start || !g->command || g->exec_failure || g->contain_failure)
		return;
	g->told_start = true;
	guarding_tell(g, (struct guard_event){ .type = GUARD_STARTED, .value = g->command });
}

/* ---- reports to the guard, with --contain ---- */

void guarding_report(int fd, enum report_type type, int value)
{
	const struct report report = { type, value };

	/* Without a word of it the guard takes this process's end for the command's. */
	if (ipc_send(fd, &report, sizeof(report), 0, -1) == IPC_FAILED)
		_exit(125);
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

/* *sender becomes the sender's number as it is in this process's namespace. */
static bool next_report(struct guarding *g, struct report *report, pid_t *sender)
{
	enum ipc_result received;

	*sender = 0;
	if (g->report_fd < 0)
		return false;
	received = ipc_receive(g->report_fd, report, sizeof(*report), MSG_DONTWAIT, sender);
	/* It would stay readable, and end each poll(). */
	if (received == IPC_FAILED) {
		close(g->report_fd);
		g->report_fd = -1;
	}
	return received == IPC_DONE;
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
	/* A contained command is about to be executed then: its init keeps a descriptor. */
	guarding_tell_start(g);
}
