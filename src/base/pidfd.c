/* SPDX-License-Identifier: MIT */
/* Calls pidfd_open(2) and pidfd_send_signal(2), which the C library may not have. */
#include "pidfd.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

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
