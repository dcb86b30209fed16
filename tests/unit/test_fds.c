/* SPDX-License-Identifier: MIT */
/* Tests src/base/fds.c. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fds.h"
#include "unit.h"

#define HIGH 3000

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Its own descriptors have low numbers, with inherited ones below, between and far above them. */
static void test_closing(void)
{
	const int below = dup(1), own = fcntl(1, F_DUPFD_CLOEXEC, 0);
	/* It has closed those between this one and the first one. */
	const int later = fcntl(1, F_DUPFD_CLOEXEC, own + 20);

	unit_case("inherited ones");
	dup2(1, own + 1);
	dup2(1, HIGH);
	CHECK_INT(fds_close_inherited(), 0);
	CHECK(!is_open(below));
	CHECK(is_open(own));
	CHECK(is_open(later));
	CHECK(!is_open(own + 1));
	CHECK(!is_open(HIGH));
	CHECK(is_open(1));
	close(own);
	close(later);
}

/* In a child: nothing is known of standard output there. */
static int check_standard(bool with_dev)
{
	int good = 0, pipes[2];
	char byte;

	if (!with_dev && (unshare(CLONE_NEWNS) ||
			  mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			  mount("none", "/dev", "tmpfs", 0, NULL)))
		_exit(98);
	close(0);
	close(2);
	fds_fill_standard();
	good += is_open(0) && is_open(2) && fcntl(0, F_GETFD) == FD_CLOEXEC;
	good += read(0, &byte, 1) == -1 && write(2, "x", 1) == -1;
	if (pipe(pipes))
		return 0;
	good += pipes[0] > 2;
	dup2(pipes[1], 1);
	dup2(pipes[1], 2);
	close(pipes[1]);
	fds_drop_standard();
	good += is_open(0) && is_open(1) && is_open(2);
	good += read(pipes[0], &byte, 1) == 0;	/* nobody has its other end any more */
	good += read(0, &byte, 1) <= 0;
	return good;
}

static void test_standard(void)
{
	int status;

	for (int with_dev = 0; with_dev < 2; with_dev++) {
		unit_case("standard streams, %s /dev", with_dev ? "with" : "without");
		fflush(stdout);
		if (!fork())
			_exit(check_standard(with_dev));
		wait(&status);
		if (WEXITSTATUS(status) == 98)
			printf("# may not unshare here\n");
		else
			CHECK_INT(WEXITSTATUS(status), 6);
	}
}

int main(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < HIGH + 10) {
		limit.rlim_cur = HIGH + 10;
		CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
	}
	test_closing();
	test_standard();
	return unit_done();
}
