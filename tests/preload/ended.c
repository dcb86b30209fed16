/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into dlock: when the command's tree is dead, the guard makes the file $ENDED before it
 * tells anybody, and goes on when that file is gone. The release begins after that.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_once(void)
{
	static const struct timespec pause = { 0, 10000000 };
	static bool waited;
	const char *path = getenv("ENDED");
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (waited || !path || strcmp(name, "dlock-guard") != 0)
		return;
	waited = true;
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	while (access(path, F_OK) == 0)
		nanosleep(&pause, NULL);
}

/* To the keeper, which is told first if there is one. */
ssize_t write(int fd, const void *data, size_t size)
{
	if (size == 1)
		wait_once();
	return syscall(SYS_write, fd, data, size);
}

/* To the supervisor. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	wait_once();
	return syscall(SYS_sendmsg, fd, message, flags);
}
