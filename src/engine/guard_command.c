/* SPDX-License-Identifier: MIT */
/* Starts the command, here or in a PID namespace, and records what becomes of it. */
#include "guard_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ipc.h"
#include "base/signals.h"
#include "base/terminal.h"

/* The limit of an exec without a lease. */
#define EXEC_MOST_MS	60000

bool has_local_lock(const struct guarding *g)
{
	return g->hold_fd >= 0 && g->job->run->driver->local && !g->job->joined;
}

bool is_unused(const struct guarding *g)
{
	return atomic_load(&g->job->shared->exec_failure) ||
	       atomic_load(&g->job->shared->start_failed);
}

int fail_to_start(const struct guarding *g, const char *what)
{
	error_set(&g->job->shared->start_error, ERROR_INTERNAL, errno, "%s", what);
	atomic_store(&g->job->shared->start_failed, true);
	return -1;
}

void guard_send(const struct guarding *g, struct guard_event event)
{
	/* After a failure this process acts as after the supervisor's death. */
	if (g->fd >= 0 && ipc_send(g->fd, &event, sizeof(event), event.last ? 0 : MSG_DONTWAIT,
				   -1) == IPC_FAILED)
		shutdown(g->fd, SHUT_RD);
}

/* Record the pid of the command. */
static void record_command(struct guarding *g, pid_t pid)
{
	g->command = g->group = pid;
	atomic_store(&g->job->shared->command, pid);
}

void command_changed(struct guarding *g, int status)
{
	if (WIFSTOPPED(status)) {
		guard_send(g, (struct guard_event){ .type = GUARD_STOPPED,
						    .value = WSTOPSIG(status) });
		return;
	}
	g->command = 0;
	g->ended = true;
	g->status = status;
}

/* ---- its start ---- */

/* Let this process, which becomes the command, die with parent, or here if parent has died. */
static void die_with(pid_t parent)
{
	/* The last resort, when every process of dlock is killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

static void ignore_signal(int sig)
{
	(void)sig;
}

/*
 * Ignore Ctrl-Z until the exec, because the guard waits for the exec. The handler is reset by the
 * exec.
 */
static void ignore_stops(const sigset_t *ignored)
{
	static const int stops[] = { SIGTSTP, SIGTTIN, SIGTTOU };

	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
		if (sigismember(ignored, stops[i]) != 1)
			signal(stops[i], ignore_signal);
}

/*
 * Execute the command in this process, which may share the guard's memory. foreground: the command
 * gets the terminal. Ends the process when the command cannot be executed.
 */
static void __attribute__((noreturn)) execute_or_exit(struct guarding *g, bool foreground)
{
	const struct job *job = g->job;

	/* The terminal's signals to dlock's process group must not reach the command. */
	setpgid(0, 0);
	if (foreground)
		terminal_give(&job->terminal, getpid());
	/* If supervisor and guard are killed at once, the lock is held until the tree is dead. */
	if (has_local_lock(g) && !job->run->closes)
		fcntl(g->hold_fd, F_SETFD, 0);
	ignore_stops(&job->signals->ignored);
	signals_restore(job->signals);
	execvp(job->run->argv[0], job->run->argv);
	atomic_store(&job->shared->exec_failure, errno);
	_exit(127);
}

/* Run the command's process, which shares the guard's memory until the exec. */
static void __attribute__((noreturn)) command_main(struct guarding *g, pid_t guard, bool foreground)
{
	prctl(PR_SET_NAME, "dlock-command");
	die_with(guard);
	/* Before the exec, so that the supervisor knows the command if the guard is killed now. */
	record_command(g, getpid());
	execute_or_exit(g, foreground);
}

int start_command(struct guarding *g, bool foreground)
{
	const bool has_end = g->kill_timer.at_ms != CLOCK_NEVER;
	const pid_t guard = getpid();
	pid_t child;

	/* An exec that hangs must not block the guard for ever, even without a lease. */
	if (!has_end)
		kernel_timer_set(&g->kill_timer, clock_boot_ms() + EXEC_MOST_MS);
	child = vfork();
	if (child == 0)
		command_main(g, guard, foreground);
	if (!has_end)
		kernel_timer_set(&g->kill_timer, CLOCK_NEVER);
	if (child < 0)
		return fail_to_start(g, "cannot start the command: fork");
	record_command(g, child);
	g->child = child;
	if (!is_unused(g))
		return 0;
	waitpid(child, NULL, 0);
	return -1;
}

/*
 * ---- --contain ----
 *
 * The command runs in a PID namespace of its own, whose init (process 1) is ours:
 *
 *	guard ── init ── COMMAND ── …
 *
 * When init dies the kernel kills all processes of the namespace, with any group, session or user.
 * Init dies with the guard (PR_SET_PDEATHSIG), which the kernel kills at the end of the lease when
 * it is stopped (kernel_timer.h), and by the guard's one kill(). Init cannot have such a timer: the
 * kernel drops a timer's SIGKILL to a namespace's process 1.
 *
 * Init reaps orphans, reports the command's state to the guard, and ends with the last process of
 * the namespace. A user who may not make a PID namespace alone gets it inside a user namespace,
 * where only this user exists.
 */

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
