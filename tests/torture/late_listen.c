/* SPDX-License-Identifier: MIT */
/* Preloaded into a program: half a second passes before a socket that is bound listens. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int listen(int fd, int backlog)
{
	const struct timespec pause = { 0, 500000000 };

	nanosleep(&pause, NULL);
	return (int)syscall(SYS_listen, fd, backlog);
}
