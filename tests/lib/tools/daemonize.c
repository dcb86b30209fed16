/* SPDX-License-Identifier: MIT */
/*
 * Leaves as thoroughly as a daemon can: new session, reparented by a second fork,
 * every descriptor closed, environment cleared on request. Then runs COMMAND. The
 * process that was started returns 0 once the daemon is on its way, or with -w
 * stays until it is killed.
 *
 *	daemonize [-c] [-w] [-p PIDFILE] COMMAND [ARG]...
 *
 *	-c  empty environment
 *	-p  the daemon's pid, written before the parent returns
 *	-w  the parent waits for ever, for signals only
 */
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_pid(const char *path)
{
	char temporary[4096];
	FILE *file;

	/* renamed into place, so that a waiter for the file reads it whole */
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	file = fopen(temporary, "w");
	if (!file)
		err(70, "%s", temporary);
	fprintf(file, "%ld\n", (long)getpid());
	if (fclose(file) != 0 || rename(temporary, path) != 0)
		err(70, "%s", path);
}

static void daemon_main(const char *pid_file, bool clear, char **command)
{
	char *empty[] = { NULL };
	int fd;

	if (pid_file)
		write_pid(pid_file);
	for (fd = (int)sysconf(_SC_OPEN_MAX) - 1; fd >= 0; fd--)
		close(fd);
	if (clear)
		execvpe(command[0], command, empty);
	else
		execvp(command[0], command);
	_exit(127);
}

int main(int argc, char **argv)
{
	const char *pid_file = NULL;
	bool clear = false, stay = false;
	int option, status;
	pid_t child;

	while ((option = getopt(argc, argv, "+cwp:")) != -1) {
		switch (option) {
		case 'c':
			clear = true;
			break;
		case 'w':
			stay = true;
			break;
		case 'p':
			pid_file = optarg;
			break;
		default:
			return 64;
		}
	}
	if (optind == argc)
		errx(64, "usage: daemonize [-c] [-w] [-p PIDFILE] COMMAND [ARG]...");
	child = fork();
	if (child < 0)
		err(70, "fork");
	if (child == 0) {
		if (setsid() < 0)
			err(70, "setsid");
		child = fork();
		if (child < 0)
			err(70, "fork");
		if (child == 0)
			daemon_main(pid_file, clear, argv + optind);
		_exit(0);
	}
	if (waitpid(child, &status, 0) < 0 || status != 0)
		errx(70, "the first child failed");
	while (pid_file && access(pid_file, F_OK) != 0)
		usleep(1000);
	while (stay)
		pause();
	return 0;
}
