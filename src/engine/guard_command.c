/* SPDX-License-Identifier: MIT */
/*
 * The process that becomes the command. The guard forks it while the keeper still asks for the
 * lock, because a fork takes longer than the answer of a server nearby. The process waits until the
 * guard lets it start.
 */
#include "guarding.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/terminal.h"
#include "base/text.h"

/* What the process that becomes the command is told when it starts. */
struct start {
	uint64_t fence;		/* see struct guarding */
	bool foreground;	/* the command gets the terminal */
};

/* ---- in the process that becomes the command ---- */

void guarding_close_guards(const struct guarding *g)
{
	const int fds[] = {
		g->fd, g->report_fd, g->supervisor_stat, g->plan->gate_fd, g->plan->keeper_pipe_fd,
	};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void guarding_die_with(pid_t parent)
{
	/* The last resort, when every process of dlock is killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

void guarding_become_command(const struct guarding *g, int report_fd, bool foreground)
{
	const struct guard_plan *plan = g->plan;
	char *const *envp = g->fence ? plan->envp : plan->bare_envp;

	/* A terminal's signals to dlock's process group are not for the command. */
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

static void __attribute__((noreturn)) await_start(struct guarding *g, pid_t guard, int fd)
{
	static const struct timespec now = { 0, 0 };
	struct start start;
	sigset_t one;

	guarding_close_guards(g);
	guarding_die_with(guard);
	prctl(PR_SET_NAME, "dlock-command");
	if (ipc_receive(fd, &start, sizeof(start), 0, NULL) != IPC_DONE)
		_exit(125);
	/* The guard's SIGCONT would stay pending in a command that was to begin with it blocked. */
	sigemptyset(&one);
	sigaddset(&one, SIGCONT);
	sigtimedwait(&one, NULL, &now);
	g->fence = start.fence;
	guarding_become_command(g, fd, start.foreground);
}

/* ---- in the guard ---- */

int guarding_fork_command(struct guarding *g, enum ipc_call *failed)
{
	const pid_t guard = getpid();
	int ends[2], failure;

	*failed = IPC_SOCKETPAIR;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	g->report_fd = ends[0];
	g->child = _Fork();
	if (g->child == 0)
		await_start(g, guard, ends[1]);
	failure = errno;
	close(ends[1]);
	if (g->child > 0)
		return 0;
	g->child = 0;
	guarding_drop_command(g);
	*failed = IPC_FORK;
	errno = failure;
	return -1;
}

void guarding_drop_command(struct guarding *g)
{
	if (g->child) {
		kill(g->child, SIGKILL);
		waitpid(g->child, NULL, 0);
	}
	g->child = 0;
	guarding_know_command(g, 0);
	if (g->report_fd >= 0)
		close(g->report_fd);
	g->report_fd = -1;
}

static enum ipc_result open_gate(struct guarding *g, const struct start *start)
{
	if (!g->child)
		return IPC_GONE;
	/* The command does the same; whichever of the two comes first. */
	setpgid(g->child, g->child);
	guarding_know_command(g, g->child);
	/* Somebody may have stopped the process, which must not count as a stop of the command. */
	kill(g->child, SIGCONT);
	return ipc_send(g->report_fd, start, sizeof(*start), 0, -1);
}

/* How often the process that waits is forked again, if somebody kills it each time. */
#define START_TRIES 10

int guarding_start_command(struct guarding *g, bool foreground)
{
	const struct start start = { g->fence, foreground };
	enum ipc_call failed;

	for (int tries = 0; tries < START_TRIES; tries++) {
		enum ipc_result opened = open_gate(g, &start);

		if (opened == IPC_DONE)
			return 0;
		guarding_drop_command(g);
		if (opened == IPC_FAILED)
			return -1;
		if (guarding_fork_command(g, &failed)) {
			ipc_record_failure(failed, errno);
			return -1;
		}
	}
	guarding_drop_command(g);
	ipc_record_failure(IPC_SENDMSG, EPIPE);
	return -1;
}
