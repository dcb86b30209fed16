/* SPDX-License-Identifier: MIT */
#include "pidfd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "procstat.h"
#include "proctable.h"

/* The pause between two looks at a process that poll() cannot wait for. */
#define LOOK_MS 100

/* When the process was started, in clock ticks; 0: there is none, or /proc does not show it. */
static unsigned long long start_of(pid_t pid, bool *alive)
{
	struct procstat stat;

	*alive = false;
	if (!proctable_usable() || !procstat_read(pid, &stat))
		return 0;
	*alive = procstat_live_thread(pid, &stat) != 0;
	return stat.start_ticks;
}

int pidfd_open_once(pid_t pid)
{
	/* The descriptor is always close-on-exec. */
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int pidfd_init(struct pidfd *process, pid_t pid, struct error *err)
{
	bool alive;
	int errnum;

	*process = (struct pidfd){ .fd = pidfd_open_once(pid), .pid = pid };
	errnum = errno;
	process->start_ticks = start_of(pid, &alive);
	/* That the process has ended is more important than that a system call was refused. */
	if (process->fd < 0 && (errnum == EPERM || errnum == ENOSYS) && kill(pid, 0) &&
	    errno == ESRCH)
		errnum = ESRCH;
	if (process->fd < 0 && errnum == ESRCH) {
		error_set(err, ERROR_USAGE, 0, "there is no such process");
	} else if (process->fd < 0 && errnum != EPERM && errnum != ENOSYS) {
		error_set(err, ERROR_USAGE, errnum, "cannot watch it");
	} else if (process->fd < 0 && !process->start_ticks) {
		error_set(err, ERROR_USAGE, 0, "cannot watch it: pidfd_open is refused here (%s), "
			  "and /proc does not show it", strerror(errnum));
	} else if (pidfd_ended(process)) {
		error_set(err, ERROR_USAGE, 0, "that process has ended");
		pidfd_finish(process);
	} else {
		return 0;
	}
	return -1;
}

void pidfd_finish(struct pidfd *process)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}

bool pidfd_ended(const struct pidfd *process)
{
	struct pollfd ended = { .fd = process->fd, .events = POLLIN };
	bool alive;

	if (process->fd >= 0)
		return poll(&ended, 1, 0) > 0;
	if (kill(process->pid, 0) && errno == ESRCH)
		return true;
	return start_of(process->pid, &alive) != process->start_ticks || !alive;
}

int64_t pidfd_look(const struct pidfd *process, int64_t until_ms)
{
	return process->fd >= 0 ? until_ms : clock_earlier(until_ms, clock_boot_ms() + LOOK_MS);
}

int pidfd_signal(const struct pidfd *process, int sig)
{
	if (process->fd >= 0) {
		if (!syscall(SYS_pidfd_send_signal, process->fd, sig, NULL, 0))
			return 0;
		if (errno == ESRCH)
			return -1;
	}
	/* EPERM may come from a seccomp profile; kill() says whether this user may signal. */
	if (pidfd_ended(process)) {
		errno = ESRCH;
		return -1;
	}
	return kill(process->pid, sig);
}
