/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program: as long as the file $RESTOP exists, each process that the program
 * continues with SIGCONT is stopped again before kill() returns. It stands for somebody who stops
 * the process without a pause, and always comes first.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int kill(pid_t pid, int sig)
{
	const char *path = getenv("RESTOP");
	const int result = (int)syscall(SYS_kill, pid, sig);

	if (sig == SIGCONT && path && !access(path, F_OK))
		syscall(SYS_kill, pid, SIGSTOP);
	return result;
}
