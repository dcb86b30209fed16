/* SPDX-License-Identifier: MIT */
/* Starts the command, and records what becomes of it. */
#include "guard_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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

void record_command(struct guarding *g, pid_t pid)
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

void die_with(pid_t parent)
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

void execute_or_exit(struct guarding *g, bool foreground)
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
