/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pidfd.h"
#include "unit.h"

static void test_process(bool with_fd)
{
	struct error err = { 0 };
	struct pidfd process;
	struct pollfd fds;
	pid_t pid = unit_start(unit_sleep, NULL);

	CHECK_INT(pidfd_init(&process, pid, &err), 0);
	CHECK_INT(process.fd >= 0, with_fd);
	CHECK_INT(process.pid, pid);
	CHECK(!pidfd_ended(&process));
	CHECK_INT(pidfd_look(&process, CLOCK_NEVER) == CLOCK_NEVER, with_fd);
	CHECK_INT(pidfd_look(&process, 1), 1);
	CHECK_INT(pidfd_signal(&process, 0), 0);
	CHECK_INT(pidfd_signal(&process, SIGKILL), 0);
	fds = (struct pollfd){ .fd = process.fd, .events = POLLIN };
	while (!pidfd_ended(&process))
		poll(&fds, 1, clock_poll_timeout(pidfd_look(&process, CLOCK_NEVER)));
	/* A zombie is no process to hold anything for. */
	CHECK_INT(pidfd_init(&process, pid, &err), -1);
	CHECK_INT(err.kind, ERROR_USAGE);
	CHECK_HAS(err.message, "has ended");
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK_INT(pidfd_init(&process, pid, &err), -1);
	CHECK_HAS(err.message, "no such process");
	pidfd_finish(&process);
}

/* The number is used again: it stands for another process, which is left alone. */
static void test_reused(void)
{
	struct error err = { 0 };
	struct pidfd process;
	pid_t pid = unit_start(unit_sleep, NULL);

	unit_case("a number that is used again");
	CHECK_INT(pidfd_init(&process, pid, &err), 0);
	pidfd_finish(&process);
	process.start_ticks--;
	CHECK(pidfd_ended(&process));
	CHECK_INT(pidfd_signal(&process, SIGKILL), -1);
	CHECK_INT(errno, ESRCH);
	CHECK_INT(kill(pid, 0), 0);
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	unit_case("as the kernel offers it");
	test_process(true);
	test_reused();
	unit_case("pidfd_send_signal refused");
	unit_refuse(SYS_pidfd_send_signal, EPERM);
	test_process(true);
	unit_case("pidfd_open refused");
	unit_refuse(SYS_pidfd_open, ENOSYS);
	test_process(false);
	return unit_done();
}
