/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into dlock: the guard sleeps for two seconds when it has told the keeper, by one byte,
 * that the command's tree is dead.
 */
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

ssize_t write(int fd, const void *data, size_t size)
{
	static const struct timespec pause = { 2, 0 };
	const ssize_t written = syscall(SYS_write, fd, data, size);
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (size == 1 && strcmp(name, "dlock-guard") == 0)
		nanosleep(&pause, NULL);
	return written;
}
