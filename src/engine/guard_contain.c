/* SPDX-License-Identifier: MIT */
/* Starts the command in a PID namespace, and reads what its init reports. */
#include "guard_contain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ipc.h"
#include "base/signals.h"

/* With --contain, init and the command's process send reports to the guard over a socket. */
enum report_type {
	REPORT_PID,		/* the sender is to become the command */
	REPORT_CHANGED,		/* value: wait status of the command, stopped or ended */
	REPORT_LEFTOVERS,	/* the command has ended, and left processes in its namespace */
};

struct report {
	enum report_type type;
	int value;
};

/* ---- the processes of the namespace ---- */

#define NAMESPACES (CLONE_NEWPID | CLONE_NEWNS)

static int write_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* After a failure this process ends. */
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -1;
	return close(fd);
}

/* Map this user and this group, and no others, to themselves in the new user namespace. */
static int map_user(uid_t user, gid_t group)
{
	char text[64];

	if (write_file("/proc/self/setgroups", "deny"))
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)user, (unsigned)user);
	if (write_file("/proc/self/uid_map", text))
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)group, (unsigned)group);
	return write_file("/proc/self/gid_map", text);
}

/* Mount a /proc with the pids of the new namespace. */
static int mount_proc(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL))
		return -1;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Send a report, or end this process if that fails. */
static void send_report(int fd, enum report_type type, int value)
{
	const struct report report = { type, value };

	/* Without a report the guard takes this process's end for the command's. */
	if (ipc_send(fd, &report, sizeof(report), 0, -1) == IPC_FAILED)
		_exit(125);
}

/* Reap. Ends this process, and with it the namespace, when it has no child left. */
static void reap_in_namespace(int report_fd, pid_t command)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != command)
			continue;
		ended = !WIFSTOPPED(status);
		send_report(report_fd, REPORT_CHANGED, status);
	}
	if (pid < 0 && errno == ECHILD)
		_exit(0);
	if (ended)
		send_report(report_fd, REPORT_LEFTOVERS, 0);
}

/* Record errno: there is no namespace. Returns -1. */
static int fail_to_contain(struct guarding *g)
{
	g->child = 0;
	return fail_to_start(g, "--contain: this system gives no PID namespace");
}

static void __attribute__((noreturn)) fail_and_exit(struct guarding *g)
{
	fail_to_contain(g);
	_exit(125);
}

struct user {
	uid_t uid;
	gid_t gid;
	bool mapped;		/* in a user namespace */
};

static void __attribute__((noreturn))
init_main(struct guarding *g, int report_fd, const struct user *user, bool foreground)
{
	struct pollfd fds[] = {
		{ .fd = g->job->signals->fd, .events = POLLIN },
		{ .fd = report_fd },
	};
	const pid_t self = getpid();
	pid_t command;

	/* The guard's sockets must end with the guard. */
	close(g->fd);
	close(g->report_fd);
	close(g->job->guard_pipe[1]);
	prctl(PR_SET_NAME, "dlock-init");
	if ((user->mapped && map_user(user->uid, user->gid)) || mount_proc())
		fail_and_exit(g);
	/* After the last change of credentials, which would reset it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The guard died before prctl(). */
	if (poll(&fds[1], 1, 0) && fds[1].revents)
		_exit(0);
	command = fork();
	if (command < 0)
		fail_and_exit(g);
	if (command == 0) {
		die_with(self);
		send_report(report_fd, REPORT_PID, 0);
		execute_or_exit(g, foreground);
	}
	for (;;) {
		poll(fds, 1, -1);
		reap_in_namespace(report_fd, command);
		if (signals_drain(g->job->signals))
			reap_in_namespace(report_fd, command);
	}
}

/* fork() into new namespaces; glibc has no function for it. */
static pid_t fork_into(unsigned long namespaces)
{
	return (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
}

int start_contained(struct guarding *g, bool foreground)
{
	struct user user = { .uid = geteuid(), .gid = getegid() };
	static const int on = 1;
	int ends[2], failed;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return fail_to_contain(g);
	g->report_fd = ends[0];
	g->child = fork_into(NAMESPACES);
	if (g->child < 0 && errno == EPERM) {
		user.mapped = true;
		g->child = fork_into(NAMESPACES | CLONE_NEWUSER);
	}
	if (g->child == 0)
		init_main(g, ends[1], &user, foreground);
	failed = g->child < 0 ? fail_to_contain(g) : 0;
	close(ends[1]);
	return failed;
}

/* ---- the guard ---- */

/* Receive a report. Sets *sender to the sender's pid in the namespace of this process. */
static bool next_report(struct guarding *g, struct report *report, pid_t *sender)
{
	enum ipc_result received;

	*sender = 0;
	if (g->report_fd < 0)
		return false;
	received = ipc_receive(g->report_fd, report, sizeof(*report), MSG_DONTWAIT, sender);
	/*
	 * The socket would stay readable, and end each poll(): an init that has ended may not be
	 * reaped while its namespace ends.
	 */
	if (received == IPC_FAILED || received == IPC_GONE) {
		close(g->report_fd);
		g->report_fd = -1;
	}
	return received == IPC_DONE;
}

void read_reports(struct guarding *g)
{
	struct report report;
	pid_t sender;

	while (next_report(g, &report, &sender)) {
		switch (report.type) {
		case REPORT_PID:
			if (sender)
				record_command(g, sender);
			break;
		case REPORT_CHANGED:
			command_changed(g, report.value);
			break;
		case REPORT_LEFTOVERS:
			g->leftovers = true;
			break;
		}
	}
}
