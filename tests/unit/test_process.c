/* SPDX-License-Identifier: MIT */
/* Tests src/base/process.c. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "unit.h"

static void test_process(void)
{
	struct error err = { 0 };
	struct pidfd process;
	struct pollfd fds;
	pid_t pid = unit_start(unit_sleep, NULL);

	CHECK_INT(pidfd_init(&process, pid, &err), 0);
	CHECK(process.fd >= 0);
	CHECK_INT(process.pid, pid);
	CHECK(!pidfd_ended(&process));
	CHECK_INT(pidfd_signal(&process, 0), 0);
	CHECK_INT(pidfd_signal(&process, SIGKILL), 0);
	fds = (struct pollfd){ .fd = process.fd, .events = POLLIN };
	CHECK_INT(poll(&fds, 1, -1), 1);
	CHECK(pidfd_ended(&process));
	/* A zombie is no process to hold anything for. */
	CHECK_INT(pidfd_init(&process, pid, &err), -1);
	CHECK_INT(err.kind, ERROR_USAGE);
	CHECK_HAS(err.message, "has ended");
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK_INT(pidfd_init(&process, pid, &err), -1);
	CHECK_HAS(err.message, "no such process");
	close(process.fd);
}

/* There is nothing else to know a process by. */
static void test_refused(unsigned int errnum)
{
	struct error err = { 0 };
	struct pidfd process;

	unit_refuse(SYS_pidfd_open, errnum);
	CHECK_INT(pidfd_init(&process, getpid(), &err), -1);
	CHECK_INT(err.kind, ERROR_INTERNAL);
	CHECK_HAS(err.message, "pidfd_open: ");
	close(process.fd);
}

int main(void)
{
	unit_case("as the kernel offers it");
	test_process();
	unit_case("pidfd_open refused");
	test_refused(ENOSYS);
	return unit_done();
}
