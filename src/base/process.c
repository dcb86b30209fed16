/* SPDX-License-Identifier: MIT */
/* Reads /proc/PID/status and /proc/PID/comm. */
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "textfile.h"

#define PATH_SIZE 64
/* /proc/PID/status has about 1500 bytes, and the lines that are read are in the first half. */
#define STATUS_SIZE 4096

bool process_proc_usable(void)
{
	char status[STATUS_SIZE], *next;
	const char *line;

	textfile_start("/proc/self/status", status, sizeof(status));
	line = strstr(status, "\nPid:");
	if (!line || strtol(line + strlen("\nPid:"), NULL, 10) != getpid())
		return false;
	/*
	 * A process has a pid in its own namespace and in each one above. The line lists them from
	 * the namespace of this /proc on: a second number means that this is one above.
	 */
	line = strstr(status, "\nNSpid:");
	if (!line)
		return true;
	strtol(line + strlen("\nNSpid:"), &next, 10);
	return next[strspn(next, " \t")] == '\n';
}

/* Read a value with sscanf() from the line of /proc/PID/status that matches. False: none does. */
static bool read_status(pid_t pid, const char *format, void *value)
{
	char path[PATH_SIZE], status[STATUS_SIZE];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	textfile_start(path, status, sizeof(status));
	for (line = status; line; line = strchr(line + 1, '\n'))
		if (sscanf(line, format, value) == 1)
			return true;
	return false;
}

pid_t process_parent(pid_t pid)
{
	unsigned int parent;

	return read_status(pid, " PPid: %u", &parent) ? (pid_t)parent : 0;
}

uid_t process_user(pid_t pid)
{
	unsigned int effective;

	return read_status(pid, " Uid: %*u %u", &effective) ? effective : (uid_t)-1;
}

bool process_name(pid_t pid, char *buf, size_t size)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	textfile_start(path, buf, size);
	buf[strcspn(buf, "\n")] = '\0';
	return buf[0] != '\0';
}

bool process_is_dead(pid_t pid)
{
	char state;

	return !read_status(pid, " State: %c", &state) || state == 'Z' || state == 'X';
}
