/* SPDX-License-Identifier: MIT */
/* Moves the foreground of the terminal between dlock's process group and the command's. */
#include "terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal)
{
	struct stat status;

	*terminal = (struct terminal){
		.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), .group = getpgrp(),
	};
	/* Some shells make pipelines out of sockets. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && terminal->fd >= 0; fd++)
		if (!fstat(fd, &status) && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
			terminal->in_pipeline = true;
}

/* Is dlock's own process group in the foreground? */
static bool is_ours(const struct terminal *terminal)
{
	return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->group;
}

bool terminal_is_free(const struct terminal *terminal)
{
	return !terminal->in_pipeline && is_ours(terminal);
}

void terminal_give(const struct terminal *terminal, pid_t group)
{
	if (terminal->fd >= 0)
		tcsetpgrp(terminal->fd, group);
}

bool terminal_lend(struct terminal *terminal, pid_t group, int sig)
{
	if ((sig != SIGTTIN && sig != SIGTTOU) || !is_ours(terminal) ||
	    tcsetpgrp(terminal->fd, group))
		return false;
	terminal->lent = terminal->in_pipeline;
	return true;
}

void terminal_wanted(struct terminal *terminal, pid_t group)
{
	/* This continues also processes that have a stop signal pending. */
	if (terminal->lent && !terminal_take(terminal, group) && is_ours(terminal))
		kill(-terminal->group, SIGCONT);
}

bool terminal_take(struct terminal *terminal, pid_t group)
{
	if (terminal->fd < 0 || group <= 0 || tcgetpgrp(terminal->fd) != group ||
	    tcsetpgrp(terminal->fd, terminal->group))
		return false;
	if (terminal->lent)
		kill(-terminal->group, SIGCONT);
	return true;
}
