/* SPDX-License-Identifier: MIT */
#include "procstat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool procstat_read(const char *pid, struct procstat *stat)
{
	char path[40], line[512];
	const char *rest;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (length <= 0)
		return false;
	line[length] = '\0';
	/* The name in parentheses before it may hold anything. */
	rest = strrchr(line, ')');
	return rest && sscanf(rest + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
			      "%*d %*d %*d %*d %*d %llu", &stat->state, &stat->parent,
			      &stat->group, &stat->start_ticks) == 4;
}
