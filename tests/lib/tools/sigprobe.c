/* SPDX-License-Identifier: MIT */
/*
 * A command that tells how it was started and which signals reach it.
 *
 *	sigprobe [-s] [-d] [-n] [-u SIG]
 *
 *	-s  what it inherited, before anything else: blocked and ignored signals,
 *	    process group, session, foreground
 *	-d  its open descriptors, one a line: "fd 0 /dev/null"
 *	-n  stop after that: print nothing else, exit 0
 *	-u  the signal that ends it (status 0); default TERM, "none" for none
 *
 * Then "ready PID", and the name of each signal as it comes, such as "USR1".
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *signal_name(int sig, char buf[static 24])
{
	const char *name = sigabbrev_np(sig);

	if (name)
		return name;
	snprintf(buf, 24, "RTMIN+%d", sig - SIGRTMIN);
	return buf;
}

static void print_state(void)
{
	struct sigaction action;
	sigset_t mask;
	char buf[24];
	pid_t foreground;
	int sig, tty;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	printf("blocked:");
	for (sig = 1; sig <= SIGRTMAX; sig++)
		if (sigismember(&mask, sig) == 1)
			printf(" %s", signal_name(sig, buf));
	printf("\nignored:");
	for (sig = 1; sig <= SIGRTMAX; sig++)
		if (sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			printf(" %s", signal_name(sig, buf));
	printf("\npgid: %s\n", getpgrp() == getpid() ? "own" : "inherited");
	printf("sid: %ld\n", (long)getsid(0));
	tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	foreground = tty < 0 ? -1 : tcgetpgrp(tty);
	printf("foreground: %s\n", tty < 0 ? "no terminal" :
	       foreground == getpgrp() ? "yes" : "no");
	if (tty >= 0)
		close(tty);
}

static void print_descriptors(void)
{
	char path[64], target[PATH_MAX];
	ssize_t length;
	long fd;

	for (fd = 0; fd < 1024; fd++) {
		if (fcntl((int)fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%ld", fd);
		length = readlink(path, target, sizeof(target) - 1);
		target[length < 0 ? 0 : length] = '\0';
		printf("fd %ld %s\n", fd, target);
	}
}

static int signal_number(const char *name)
{
	int sig;

	for (sig = 1; sig < SIGRTMIN; sig++)
		if (sigabbrev_np(sig) && strcmp(sigabbrev_np(sig), name) == 0)
			return sig;
	errx(64, "no such signal: %s", name);
}

int main(int argc, char **argv)
{
	bool state = false, descriptors = false, silent = false;
	int option, sig, until = SIGTERM;
	char buf[24];
	sigset_t all;

	while ((option = getopt(argc, argv, "sdnu:")) != -1) {
		switch (option) {
		case 's':
			state = true;
			break;
		case 'd':
			descriptors = true;
			break;
		case 'n':
			silent = true;
			break;
		case 'u':
			until = strcmp(optarg, "none") == 0 ? 0 : signal_number(optarg);
			break;
		default:
			return 64;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (state)
		print_state();
	if (descriptors)
		print_descriptors();
	if (silent)
		return fflush(stdout) == 0 ? 0 : 74;

	/* blocked signals are kept for sigwaitinfo() even where they were ignored */
	sigfillset(&all);
	sigdelset(&all, SIGTSTP);
	sigdelset(&all, SIGTTIN);
	sigdelset(&all, SIGTTOU);
	sigprocmask(SIG_SETMASK, &all, NULL);
	printf("ready %ld\n", (long)getpid());
	for (;;) {
		sig = sigwaitinfo(&all, NULL);
		if (sig < 0) {
			if (errno == EINTR)
				continue;
			err(70, "sigwaitinfo");
		}
		printf("%s\n", signal_name(sig, buf));
		if (sig == until)
			return 0;
	}
}
