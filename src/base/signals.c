/* SPDX-License-Identifier: MIT */
/* Blocks signals, reads them, and passes on the dispositions that dlock was started with. */
#include "signals.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "kernel_timer.h"

int signals_init(struct signals *signals, struct error *err)
{
	struct sigaction action;
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	sigset_t all;

	sigfillset(&all);
	/* A fault must end this process at once. */
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	sigprocmask(SIG_BLOCK, &all, &signals->mask);

	sigemptyset(&signals->ignored);
	for (int sig = 1; sig < SIGSYS; sig++)
		if (!sigaction(sig, NULL, &action) && action.sa_handler == SIG_IGN)
			sigaddset(&signals->ignored, sig);
	/* A process that ignores it cannot reap. */
	signal(SIGCHLD, SIG_DFL);

	signals->fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd < 0)
		return error_set(err, ERROR_INTERNAL, errno, "signalfd");
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

bool signals_drain(const struct signals *signals)
{
	bool found = false;

	for (int kind = 1; kind < NSIG && signals_next(signals, NULL); kind++)
		found = true;
	return found;
}

static volatile sig_atomic_t caught;

/*
 * A signal between the unblocking and the system call that it should interrupt would have no
 * effect. So every signal starts the timer, which repeats. It sends SIGCHLD, which this program
 * does not take from the user: SIGALRM and setitimer(2) are the user's, because an alarm from
 * before the exec of this program still ends it.
 */
#define REPEAT_MS 20
static struct kernel_timer timer;

static void catch_signal(int sig)
{
	if (sig != SIGCHLD)
		caught = sig;
	kernel_timer_set(&timer, clock_boot_ms() + REPEAT_MS);
}

int signals_unblock(const struct signals *signals, int64_t until_ms, struct error *err)
{
	struct sigaction action = { .sa_handler = catch_signal };
	sigset_t none;

	if (!timer.repeat_ms && kernel_timer_open(&timer, CLOCK_BOOTTIME, SIGCHLD, REPEAT_MS))
		return error_set(err, ERROR_INTERNAL, errno, "cannot limit the wait: timer_create");
	caught = 0;
	sigfillset(&action.sa_mask);
	for (int sig = 1; sig < SIGSYS; sig++)
		if (signals_fatal(signals, sig))
			sigaction(sig, &action, NULL);
	sigaction(SIGCHLD, &action, NULL);
	kernel_timer_set(&timer, until_ms);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return 0;
}

int signals_block(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	kernel_timer_set(&timer, CLOCK_NEVER);
	return caught;
}

void signals_restore(const struct signals *signals)
{
	if (sigismember(&signals->ignored, SIGCHLD) == 1)
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
	case SIGPIPE:	/* blocked: writing to a closed pipe fails instead */
		return false;
	default:
		return sigismember(&signals->ignored, sig) != 1;
	}
}

void signals_stop_self(int sig, bool group)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, sig);
	signal(sig, SIG_DFL);
	kill(group ? 0 : getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
}

void signals_exit(int sig)
{
	static const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	/* Here the default action of sig is to end the process. */
	signals_stop_self(sig, false);
	_exit(128 + sig);
}
