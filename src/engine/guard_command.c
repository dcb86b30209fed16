/* SPDX-License-Identifier: MIT */
/*
 * How the guard starts the command: by vfork(), which copies no memory and returns when the command
 * has been executed, or could not be.
 */
#include "guarding.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/terminal.h"
#include "base/text.h"

void guarding_die_with(pid_t parent)
{
	/* The last resort, when every process of dlock is killed at once. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

int guarding_become_command(const struct guarding *g, bool foreground)
{
	const struct guard_plan *plan = g->plan;
	char *const *envp = g->fence ? plan->envp : plan->bare_envp;

	/* A terminal's signals to dlock's process group are not for the command. */
	setpgid(0, 0);
	if (g->fence)
		text_digits(plan->fence_text, g->fence);
	if (foreground)
		terminal_give(plan->terminal, getpid());
	signals_restore(plan->signals);
	execvpe(plan->argv[0], plan->argv, envp);
	return errno;
}

/* In the command's process, which shares the guard's memory until it executes the command. */
static void __attribute__((noreturn)) become_command(struct guarding *g, pid_t guard,
						     bool foreground)
{
	prctl(PR_SET_NAME, "dlock-command");
	guarding_die_with(guard);
	/* If the guard is killed while it waits for the exec, the others know the command. */
	guarding_know_command(g, getpid());
	g->exec_failure = guarding_become_command(g, foreground);
	_exit(127);
}

int guarding_start_command(struct guarding *g, bool foreground)
{
	const pid_t guard = getpid(), child = vfork();

	if (child == 0)
		become_command(g, guard, foreground);
	if (child < 0) {
		ipc_record_failure(IPC_FORK, errno);
		return -1;
	}
	guarding_know_command(g, child);
	g->child = child;
	guarding_tell_start(g);
	if (!g->exec_failure)
		return 0;
	waitpid(child, NULL, 0);
	return -1;
}
