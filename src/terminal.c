/* SPDX-License-Identifier: MIT */
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal)
{
	terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	terminal->group = getpgrp();
}

bool terminal_ours(const struct terminal *terminal)
{
	return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->group;
}

void terminal_give(const struct terminal *terminal, pid_t group)
{
	if (terminal->fd >= 0)
		tcsetpgrp(terminal->fd, group);
}

bool terminal_take(const struct terminal *terminal, pid_t group)
{
	if (terminal->fd < 0 || group <= 0 || tcgetpgrp(terminal->fd) != group)
		return false;
	return tcsetpgrp(terminal->fd, terminal->group) == 0;
}
