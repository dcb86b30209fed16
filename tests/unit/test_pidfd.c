/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pidfd.h"
#include "unit.h"

static void refuse(uint32_t call, uint32_t errnum)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errnum),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		CHECK(false);
}

static pid_t sleeper(void)
{
	const pid_t parent = getpid();
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

static void test_process(bool with_fd)
{
	struct error err = { 0 };
	struct pidfd process;
	struct pollfd fds;
	pid_t pid = sleeper();

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
	CHECK_HAS(err.message, "No such process");
	pidfd_finish(&process);
}

/* The number is used again: it stands for another process, which is left alone. */
static void test_reused(void)
{
	struct error err = { 0 };
	struct pidfd process;
	pid_t pid = sleeper();

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
	refuse(SYS_pidfd_send_signal, EPERM);
	test_process(true);
	unit_case("pidfd_open refused");
	refuse(SYS_pidfd_open, ENOSYS);
	test_process(false);
	return unit_done();
}
