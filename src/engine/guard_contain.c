/* SPDX-License-Identifier: MIT */
/*
 * --contain: the command runs in a PID namespace of its own, whose init (process 1) is ours:
 *
 *	guard ── init ── COMMAND ── …
 *
 * When init dies the kernel kills all that is in the namespace, whatever group, session or user
 * it has taken. Init dies with the guard (PR_SET_PDEATHSIG), which the kernel kills at the end of
 * the lease when it is stopped (kernel_timer.h), and by the guard's one kill(). A timer of init's
 * own would be of no use: the kernel drops a timer's SIGKILL to a namespace's process 1.
 *
 * Init reaps what is left to it, tells the guard what becomes of the command, and ends with the
 * last process of the namespace. Where this user may not make a PID namespace alone, a user
 * namespace is made around it, in which only this user exists.
 */
#include "guarding.h"

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

#include "base/signals.h"

#define NAMESPACES (CLONE_NEWPID | CLONE_NEWNS)

/* ---- in the namespace ---- */

static int write_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	int failure;

	if (fd < 0)
		return -1;
	failure = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : errno;
	close(fd);
	errno = failure;
	return failure ? -1 : 0;
}

/* In the new user namespace this user and this group are who they were, and nobody else is. */
static int map_user(uid_t user, gid_t group)
{
	char text[64];

	/* Kernels before 3.19 have no such file, and ask for no such word. */
	if (write_file("/proc/self/setgroups", "deny") && errno != ENOENT)
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)user, (unsigned)user);
	if (write_file("/proc/self/uid_map", text))
		return -1;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned)group, (unsigned)group);
	return write_file("/proc/self/gid_map", text);
}

/* The command must find itself in /proc under the numbers that it knows. */
static int mount_proc(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL))
		return -1;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Reaps. Ends this process, and so the namespace, when nothing is left in it. */
static void reap(int report_fd, pid_t command)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != command)
			continue;
		ended = !WIFSTOPPED(status);
		guarding_report(report_fd, ended ? REPORT_ENDED : REPORT_STOPPED, status);
	}
	if (pid < 0 && errno == ECHILD)
		_exit(0);
	if (ended)
		guarding_report(report_fd, REPORT_LEFTOVERS, 0);
}

static void __attribute__((noreturn)) init_fail(int report_fd)
{
	guarding_report(report_fd, REPORT_NOT_CONTAINED, errno);
	_exit(125);
}

/* In a child of the guard, which must not keep open what belongs to the guard when that dies. */
static void close_guards(const struct guarding *g)
{
	const int fds[] = {
		g->fd, g->report_fd, g->plan->keeper_pipe_fd,
	};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct user {
	uid_t uid;
	gid_t gid;
	bool mapped;		/* in a user namespace */
};

static void __attribute__((noreturn)) init_main(struct guarding *g, int report_fd,
						const struct user *user, bool foreground)
{
	struct pollfd fds[] = {
		{ .fd = g->plan->signals->fd, .events = POLLIN }, { .fd = report_fd },
	};
	const pid_t self = getpid();
	pid_t command;

	close_guards(g);
	prctl(PR_SET_NAME, "dlock-init");
	if ((user->mapped && map_user(user->uid, user->gid)) || mount_proc())
		init_fail(report_fd);
	/* After the last change of credentials, which would undo it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The guard died before that. */
	if (poll(&fds[1], 1, 0) && fds[1].revents)
		_exit(0);
	command = fork();
	if (command < 0)
		init_fail(report_fd);
	if (command == 0) {
		guarding_die_with(self);
		guarding_report(report_fd, REPORT_PID, 0);
		guarding_report(report_fd, REPORT_EXEC_FAILED,
				guarding_become_command(g, foreground));
		_exit(127);
	}
	for (;;) {
		poll(fds, 1, -1);
		reap(report_fd, command);
		if (signals_drain(g->plan->signals))
			reap(report_fd, command);
	}
}

/* ---- in the guard ---- */

/* fork() into new namespaces; glibc has no function for it. */
static pid_t fork_into(unsigned long namespaces)
{
	return (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
}

int guarding_contain(struct guarding *g, bool foreground)
{
	struct user user = { .uid = geteuid(), .gid = getegid() };
	static const int on = 1;
	int ends[2], failure;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return -1;
	g->report_fd = ends[0];
	g->child = fork_into(NAMESPACES);
	if (g->child < 0 && errno == EPERM) {
		user.mapped = true;
		g->child = fork_into(NAMESPACES | CLONE_NEWUSER);
	}
	if (g->child == 0)
		init_main(g, ends[1], &user, foreground);
	failure = errno;
	close(ends[1]);
	errno = failure;
	return g->child < 0 ? -1 : 0;
}
