/* SPDX-License-Identifier: MIT */
#include "procstat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

#define LINE_SIZE 512

int procstat_open(const char *pid)
{
	char path[64] = "/proc/";

	strncat(path, pid, TEXT_DIGITS_SIZE);
	strcat(path, "/stat");
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* What follows the name, which may hold anything, in parentheses; or NULL. */
static const char *read_line(int fd, char line[static LINE_SIZE])
{
	ssize_t length = pread(fd, line, LINE_SIZE - 1, 0);

	if (length <= 0)
		return NULL;
	line[length] = '\0';
	return strrchr(line, ')');
}

bool procstat_is_stopped(int fd)
{
	char line[LINE_SIZE];
	const char *rest = read_line(fd, line);

	/* ") S ": proc(5) has T for a signal, t for a tracer. */
	return !rest || !rest[1] || rest[2] == 'T' || rest[2] == 't';
}

bool procstat_read(const char *pid, struct procstat *stat)
{
	char line[LINE_SIZE];
	const int fd = procstat_open(pid);
	const char *rest = read_line(fd, line);

	if (fd >= 0)
		close(fd);
	return rest && sscanf(rest + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
			      "%*d %*d %*d %*d %*d %llu", &stat->state, &stat->parent,
			      &stat->group, &stat->start_ticks) == 4;
}
