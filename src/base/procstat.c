/* SPDX-License-Identifier: MIT */
#include "procstat.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"
#include "textfile.h"

#define LINE_SIZE 512
#define PATH_SIZE 80

int procstat_open(pid_t pid)
{
	char path[PATH_SIZE];

	strcpy(text_digits(stpcpy(path, "/proc/"), (uint64_t)pid), "/stat");
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool procstat_is_stopped(int fd)
{
	char line[LINE_SIZE] = "";
	const ssize_t length = pread(fd, line, sizeof(line) - 1, 0);
	/* The name before the last ')' may have any characters in it. */
	const char *rest = length > 0 ? strrchr(line, ')') : NULL;

	/* The state follows ") ": 'T' is a stop by a signal, 't' by a tracer (proc(5)). */
	return !rest || !rest[1] || rest[2] == 'T' || rest[2] == 't';
}

/* path: of the stat file of a process or of a thread */
static bool read_stat(const char *path, struct procstat *stat)
{
	char line[LINE_SIZE];
	const char *rest = textfile_start(path, line, sizeof(line)) ? strrchr(line, ')') : NULL;

	return rest && sscanf(rest + 1, " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
			      "%*d %*d %*d %d %*d %llu", &stat->state, &stat->parent,
			      &stat->group, &stat->session, &stat->threads,
			      &stat->start_ticks) == 6;
}

bool procstat_read(pid_t pid, struct procstat *stat)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_stat(path, stat);
}

bool procstat_name(pid_t pid, char *buf, size_t size)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	textfile_start(path, buf, size);
	buf[strcspn(buf, "\n")] = '\0';
	return buf[0] != '\0';
}

static bool has_ended(const struct procstat *stat)
{
	return stat->state == 'Z' || stat->state == 'X';
}

pid_t procstat_live_thread(pid_t pid, const struct procstat *stat)
{
	char path[PATH_SIZE];
	struct procstat thread;
	const struct dirent *entry;
	pid_t found = 0;
	DIR *tasks;

	if (!has_ended(stat))
		return pid;
	if (stat->threads <= 1)
		return 0;
	/* The number of threads includes dead ones that a tracer has not waited for. */
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return 0;
	while (!found && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid,
			 entry->d_name);
		if (read_stat(path, &thread) && !has_ended(&thread))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	closedir(tasks);
	return found;
}
