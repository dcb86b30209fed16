/* SPDX-License-Identifier: MIT */
/* How a process between the guard and the command becomes the command. */
#include "guarding.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/terminal.h"
#include "base/text.h"

void guarding_become_command(const struct guarding *g, pid_t parent, int report_fd,
			     bool foreground)
{
	const struct guard_plan *plan = g->plan;
	char *const *envp = g->fence ? plan->envp : plan->bare_envp;

	/* The last resort, when every process of dlock is killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
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

/* Forks the process that becomes the command. */
int guarding_fork_command(struct guarding *g, bool foreground)
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
	/* The command does the same; whichever of the two comes first. */
	setpgid(g->child, g->child);
	guarding_know_command(g, g->child);
	return 0;
}
