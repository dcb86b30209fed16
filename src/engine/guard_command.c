/* SPDX-License-Identifier: MIT */
/*
 * How the guard starts the command: by vfork(), which copies no memory and returns when the command
 * has been executed, or could not be. And what is said of the command: events to the supervisor,
 * and with --contain reports to the guard.
 */
#include "guarding.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "base/text.h"

/* How long the exec of a command may take, which no lease bounds. */
#define EXEC_MOST_MS 60000
/* How long a command waits for the line that it runs. */
#define TOLD_MOST_MS 1000

/* ---- events to the supervisor ---- */

void guarding_tell(const struct guarding *g, struct guard_event event)
{
	if (g->fd >= 0)
		ipc_send(g->fd, &event, sizeof(event), event.last ? 0 : MSG_DONTWAIT, -1);
}

void guarding_tell_ending(const struct guarding *g, enum ending why)
{
	/* The supervisor reads it with the last event, if this one is dropped. */
	atomic_fetch_or(&g->plan->shared->endings, (int)why);
	guarding_tell(g, (struct guard_event){ .type = GUARD_ENDING });
}

/* Tells the supervisor that the command is there, once, unless it could not be executed. */
static void tell_start(struct guarding *g)
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

/* From now on the command has this number. */
static void know_command(struct guarding *g, pid_t pid)
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
	/* A contained command is about to be executed then: its init keeps a descriptor. */
	tell_start(g);
}

/* ---- the command ---- */

void guarding_die_with(pid_t parent)
{
	/* The last resort, when every process of dlock is killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

static void swallow(int sig)
{
	(void)sig;
}

/*
 * Ctrl-Z before the exec would stop the guard, too, which waits for it. The exec sets a signal that
 * is caught to its default.
 */
static void ignore_stops(const sigset_t *ignored)
{
	static const int stops[] = { SIGTSTP, SIGTTIN, SIGTTOU };

	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
		if (sigismember(ignored, stops[i]) != 1)
			signal(stops[i], swallow);
}

/* Can a file be executed? The exec has the last word. */
static bool is_executable(const char *name)
{
	struct stat status;

	return !stat(name, &status) && S_ISREG(status.st_mode) &&
	       !faccessat(AT_FDCWD, name, X_OK, AT_EACCESS);
}

/* Does the exec find the file, in PATH if the name has no slash? */
static bool is_there(const char *file)
{
	const char *part = getenv("PATH"), *end;
	char name[PATH_MAX];

	if (strchr(file, '/'))
		return is_executable(file);
	for (; part; part = *end ? end + 1 : NULL) {
		end = strchrnul(part, ':');
		snprintf(name, sizeof(name), "%.*s/%s", (int)(end - part), part, file);
		if (is_executable(end == part ? file : name))
			return true;
	}
	return false;
}

/* The line that the command runs comes before its first output. A supervisor may be stopped. */
static void announce(struct guarding *g)
{
	struct pollfd told = { .fd = g->plan->told_fd, .events = POLLIN };

	if (g->plan->told_fd < 0 || !is_there(g->plan->run->argv[0]))
		return;
	tell_start(g);
	poll(&told, 1, TOLD_MOST_MS);
}

int guarding_become_command(struct guarding *g, bool foreground)
{
	const struct guard_plan *plan = g->plan;
	char *const *envp = g->locked ? plan->envp : plan->bare_envp;

	/* A terminal's signals to dlock's process group are not for the command. */
	setpgid(0, 0);
	if (g->fence)
		text_digits(plan->fence_text, g->fence);
	if (foreground)
		terminal_give(plan->terminal, getpid());
	if (plan->inherits && g->hold_fd >= 0)
		fcntl(g->hold_fd, F_SETFD, 0);
	ignore_stops(&plan->signals->ignored);
	announce(g);
	signals_restore(plan->signals);
	execvpe(plan->run->argv[0], plan->run->argv, envp);
	return errno;
}

/* In the command's process, which shares the guard's memory until it executes the command. */
static void __attribute__((noreturn)) become_command(struct guarding *g, pid_t guard,
						     bool foreground)
{
	prctl(PR_SET_NAME, "dlock-command");
	guarding_die_with(guard);
	/* If the guard is killed while it waits for the exec, the others know the command. */
	know_command(g, getpid());
	g->exec_failure = guarding_become_command(g, foreground);
	_exit(127);
}

int guarding_start_command(struct guarding *g, bool foreground)
{
	const bool has_end = g->kill_timer.at_ms != CLOCK_NEVER;
	const pid_t guard = getpid();
	pid_t child;

	/* Without a lease, too, an exec that hangs must not block the guard for ever. */
	if (!has_end)
		kernel_timer_set(&g->kill_timer, clock_boot_ms() + EXEC_MOST_MS);
	child = vfork();
	if (child == 0)
		become_command(g, guard, foreground);
	if (!has_end)
		kernel_timer_set(&g->kill_timer, CLOCK_NEVER);
	if (child < 0) {
		ipc_record_failure(IPC_FORK, errno);
		return -1;
	}
	know_command(g, child);
	g->child = child;
	tell_start(g);
	if (!g->exec_failure)
		return 0;
	waitpid(child, NULL, 0);
	return -1;
}
