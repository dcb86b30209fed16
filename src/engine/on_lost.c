/* SPDX-License-Identifier: MIT */
/*
 * --on-lost-run: a shell command that this process runs last of all, when the lock was lost, the
 * tree of the command is dead, and nothing is left of guard and keeper. It gets a limited time, so
 * that a mail server that hangs does not keep the job from ending.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"
#include "base/text.h"

/* For how long the shell may run, and how long its end may take when it gets KILL then. */
#define MOST_MS 30000
#define DEATH_MS 1000

static void __attribute__((noreturn)) become_shell(const struct supervisor *s)
{
	/* The fence of a hold that was joined may not be known. */
	const uint64_t fence = s->joined ? atomic_load(&s->shared->fence) : s->fence;
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char digits[TEXT_DIGITS_SIZE] = "";

	if (fence)
		text_digits(digits, fence);
	setenv("DLOCK_NAME", s->run->name, 1);
	setenv("DLOCK_BACKEND", s->run->uri_text, 1);
	setenv("DLOCK_FENCE", digits, 1);
	setenv("DLOCK_REASON", s->lost_reason, 1);
	/* It proves nothing any more, and a dlock in the shell must not take it for a hold. */
	unsetenv("DLOCK_TOKEN");
	/* All that the shell starts can be killed with it. */
	setpgid(0, 0);
	/* Outside of the terminal's foreground, reading from the terminal would stop it. */
	dup2(nothing, STDIN_FILENO);
	signals_restore(s->signals);
	execl("/bin/sh", "sh", "-c", s->run->on_lost_run, (char *)NULL);
	_exit(127);
}

/* Waits for the shell until until_ms, and passes on what ends programs. False: it has not ended. */
static bool await(const struct supervisor *s, pid_t shell, int64_t until_ms, int *status)
{
	struct pollfd signal_fd = { .fd = s->signals->fd, .events = POLLIN };
	int sig;

	while (waitpid(shell, status, WNOHANG) == 0) {
		if (clock_boot_ms() >= until_ms)
			return false;
		poll(&signal_fd, 1, clock_poll_timeout(until_ms));
		while ((sig = signals_next(s->signals, NULL)))
			if (signals_fatal(s->signals, sig))
				kill(-shell, sig);
	}
	return true;
}

static void say_end(const struct supervisor *s, int status)
{
	if (WIFSIGNALED(status))
		supervisor_say(s, SAY_WARNING, "the command of --on-lost-run died of signal %d",
			       WTERMSIG(status));
	else if (WEXITSTATUS(status))
		supervisor_say(s, SAY_WARNING, "the command of --on-lost-run ended with status %d",
			       WEXITSTATUS(status));
}

void supervisor_run_on_lost(const struct supervisor *s)
{
	pid_t shell;
	int status = 0;

	supervisor_say(s, SAY_STEP, "running the command of --on-lost-run");
	shell = fork();
	if (shell == 0)
		become_shell(s);
	if (shell < 0) {
		supervisor_say(s, SAY_ERROR, "--on-lost-run: cannot start a process: %s",
			       strerror(errno));
		return;
	}
	/* The shell does the same; whichever of the two comes first. */
	setpgid(shell, shell);
	if (await(s, shell, clock_boot_ms() + MOST_MS, &status)) {
		say_end(s, status);
		return;
	}
	kill(-shell, SIGKILL);
	supervisor_say(s, SAY_WARNING, "the command of --on-lost-run has run for %d s and is "
		       "killed", MOST_MS / 1000);
	await(s, shell, clock_boot_ms() + DEATH_MS, &status);
}
