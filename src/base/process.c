/* SPDX-License-Identifier: MIT */
/* Reads /proc/PID/status and /proc/PID/comm; calls pidfd_open(2) and pidfd_send_signal(2). */
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "textfile.h"

#define PATH_SIZE 64
/* /proc/PID/status has about 1500 bytes, and the lines that are read are in the first half. */
#define STATUS_SIZE 4096

/* Read a value with sscanf() from the line of a status that matches. False: none does. */
static bool find_value(const char *status, const char *format, void *value)
{
	for (const char *line = status; line; line = strchr(line + 1, '\n'))
		/* cppcheck-suppress invalidScanfArgType_int ; the format is the caller's */
		if (sscanf(line, format, value) == 1)
			return true;
	return false;
}

/* Read a value from /proc/PID/status, as find_value() does. */
static bool read_status(pid_t pid, const char *format, void *value)
{
	char path[PATH_SIZE], status[STATUS_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	textfile_start(path, status, sizeof(status));
	return find_value(status, format, value);
}

bool process_proc_usable(void)
{
	char status[STATUS_SIZE];
	int number;

	textfile_start("/proc/self/status", status, sizeof(status));
	/*
	 * A process has a pid in its own namespace and in each one above. NSpid lists them from the
	 * namespace of this /proc on: a second number means that this is one above.
	 */
	return find_value(status, " Pid: %d", &number) && number == getpid() &&
	       !find_value(status, " NSpid: %*d %d", &number);
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

bool process_has_child(pid_t group)
{
	siginfo_t info;

	return !waitid(group ? P_PGID : P_ALL, (id_t)group, &info,
		       WEXITED | WNOHANG | WNOWAIT | __WALL) || errno != ECHILD;
}

int pidfd_open_once(pid_t pid)
{
	/* The descriptor is always close-on-exec. */
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int pidfd_init(struct pidfd *process, pid_t pid, struct error *err)
{
	*process = (struct pidfd){ .fd = pidfd_open_once(pid), .pid = pid };
	if (process->fd < 0 && errno == ESRCH)
		return error_set(err, ERROR_USAGE, 0, "there is no such process");
	if (process->fd < 0)
		return error_set(err, ERROR_INTERNAL, errno, "pidfd_open");
	return pidfd_ended(process) ? error_set(err, ERROR_USAGE, 0, "that process has ended") : 0;
}

bool pidfd_ended(const struct pidfd *process)
{
	struct pollfd ended = { .fd = process->fd, .events = POLLIN };

	return poll(&ended, 1, 0) > 0;
}

int pidfd_signal(const struct pidfd *process, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, process->fd, sig, NULL, 0);
}
