/* SPDX-License-Identifier: MIT */
#include "watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pidfd.h"
#include "base/system_log.h"
#include "lock/lease.h"
#include "shared.h"

static void terminate(const struct watchdog_plan *plan, const char *why)
{
	pidfd_signal(plan->process, SIGTERM);
	system_log(LOG_ERR, plan->name, "lock lost: %s; process %d got TERM", why,
		   (int)plan->process->pid);
}

static int64_t term_at(const struct watchdog_plan *plan)
{
	return lease_stop(shared_lease(plan->shared), plan->notice_ms).term_ms;
}

static void watch(const struct watchdog_plan *plan, int keeper)
{
	enum { PROCESS, KEEPER, TIMER, POLLED };
	struct pollfd fds[POLLED] = {
		[PROCESS] = { .fd = plan->process->fd, .events = POLLIN },
		[KEEPER] = { .fd = keeper, .events = POLLIN },
		[TIMER] = { .fd = clock_timer_open(), .events = POLLIN },
	};
	char byte;

	for (;;) {
		clock_timer_set(fds[TIMER].fd, term_at(plan));
		poll(fds, POLLED, clock_poll_timeout(term_at(plan)));
		if (pidfd_ended(plan->process))
			return;
		if (fds[KEEPER].revents) {
			if (read(keeper, &byte, 1) == 1)
				return;
			/* The daemon was killed. The copies of its descriptors stay open here. */
			terminate(plan, "its keeper was killed");
			while (!pidfd_ended(plan->process))
				poll(&fds[PROCESS], 1, -1);
			return;
		}
		if (clock_boot_ms() >= term_at(plan)) {
			terminate(plan, "its keeper hangs, and the lease is about to end");
			return;
		}
	}
}

int watchdog_start(const struct watchdog_plan *plan, struct error *err)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return error_set(err, ERROR_INTERNAL, errno, "pipe");
	pid = fork();
	if (pid < 0) {
		error_set(err, ERROR_INTERNAL, errno, "cannot start a process");
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	if (pid == 0) {
		prctl(PR_SET_NAME, "dlock-watchdog");
		close(ends[1]);
		close(plan->close_fds[0]);
		close(plan->close_fds[1]);
		watch(plan, ends[0]);
		_exit(0);
	}
	close(ends[0]);
	return ends[1];
}

void watchdog_end(int fd)
{
	ssize_t told = fd >= 0 ? write(fd, "", 1) : 0;

	(void)told;	/* The watchdog has ended when its process had. */
}
