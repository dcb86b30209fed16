/* SPDX-License-Identifier: MIT */
#include "linger.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "fds.h"

/* Block TERM and, unless it is 0, other. */
static sigset_t block(int other)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	if (other)
		sigaddset(&signals, other);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signals;
}

int linger_start(int64_t keep_ms, const int *keep, size_t count,
		 void (*run)(void *context, int64_t until_ms), void *context, struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + keep_ms;
	pid_t pid = fork();

	if (pid < 0)
		return error_set(err, ERROR_INTERNAL, errno, "fork");
	if (pid > 0)
		return 0;
	/* One that comes before linger_until() waits for it. */
	block(SIGURG);
	prctl(PR_SET_NAME, "dlock-min-hold");
	setsid();
	fds_drop_standard();
	fds_close_all_but(keep, count);
	/* So that no file system stays in use. */
	if (chdir("/"))
		_exit(1);
	if (run)
		run(context, until_ms);
	else
		linger_until(until_ms, 0);
	_exit(0);
}

int linger_until(int64_t until_ms, int other)
{
	const sigset_t signals = block(other);
	struct pollfd ready[] = {
		{ .fd = clock_timer_open(), .events = POLLIN },
		{ .fd = signalfd(-1, &signals, SFD_CLOEXEC), .events = POLLIN },
	};
	struct signalfd_siginfo info = { .ssi_signo = 0 };

	clock_timer_set(ready[0].fd, until_ms);
	/* The timer wakes poll(), whose own timeout stands still while the machine is suspended. */
	while (clock_boot_ms() < until_ms && !ready[1].revents)
		poll(ready, 2, clock_poll_timeout(until_ms));
	if (ready[1].revents && read(ready[1].fd, &info, sizeof(info)) < 0)
		info.ssi_signo = SIGTERM;
	close(ready[0].fd);
	close(ready[1].fd);
	return (int)info.ssi_signo;
}
