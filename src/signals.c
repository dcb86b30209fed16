/* SPDX-License-Identifier: MIT */
#include "signals.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "error.h"

int signals_init(struct signals *signals, struct error *err)
{
	struct sigaction action;
	sigset_t all;

	sigfillset(&all);
	/* A fault is no message: it must end this process and not wait in a queue. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	sigprocmask(SIG_BLOCK, &all, &signals->mask);

	sigemptyset(&signals->ignored);
	for (int sig = 1; sig < SIGSYS; sig++)
		if (!sigaction(sig, NULL, &action) && action.sa_handler == SIG_IGN)
			sigaddset(&signals->ignored, sig);
	signals->child_ignored = sigismember(&signals->ignored, SIGCHLD) == 1;
	if (signals->child_ignored)
		signal(SIGCHLD, SIG_DFL);

	signals->fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd < 0) {
		error_set(err, ERROR_INTERNAL, errno, "signalfd");
		return -1;
	}
	return 0;
}

int signals_next(const struct signals *signals, struct signalfd_siginfo *info)
{
	struct signalfd_siginfo local;

	if (!info)
		info = &local;
	if (read(signals->fd, info, sizeof(*info)) != (ssize_t)sizeof(*info))
		return 0;
	return (int)info->ssi_signo;
}

void signals_restore(const struct signals *signals)
{
	if (signals->child_ignored)
		signal(SIGCHLD, SIG_IGN);
	sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

bool signals_fatal(const struct signals *signals, int sig)
{
	switch (sig) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGPIPE:	/* writing to a closed pipe: the write fails instead */
		return false;
	default:
		return sigismember(&signals->ignored, sig) != 1;
	}
}

bool signals_forwarded(int sig)
{
	switch (sig) {
	case SIGCHLD:
	case SIGPIPE:
	case SIGTTIN:
	case SIGTTOU:
		return false;
	default:
		return true;
	}
}

static void deliver(int sig, bool group)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, sig);
	kill(group ? 0 : getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

void signals_stop_self(int sig, bool group)
{
	sigset_t one;

	signal(sig, SIG_DFL);
	deliver(sig, group);
	sigemptyset(&one);
	sigaddset(&one, sig);
	sigprocmask(SIG_BLOCK, &one, NULL);
}

void signals_die(int sig, bool group)
{
	static const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	deliver(sig, group);
	_exit(128 + sig);
}
