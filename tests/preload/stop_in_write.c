/* SPDX-License-Identifier: MIT */
/* Preloaded into dlock: a process stops when it writes into a lock file for the first time. */
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
	static bool stopped;

	if (!stopped) {
		stopped = true;
		kill(getpid(), SIGSTOP);
	}
	return syscall(SYS_pwrite64, fd, data, size, offset);
}
