/* SPDX-License-Identifier: MIT */
/* Tests src/base/fds.c. */
#include <errno.h>
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

/* With and without /proc. */
enum world { PLAIN, NO_PROC, WORLDS };

static const char *const world_names[] = { "plain", "no /proc" };

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void enter_world(enum world world)
{
	if (world == NO_PROC &&
	    (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	     mount("none", "/proc", "tmpfs", 0, NULL)))
		_exit(98);
}

/* How many of the checks hold: five. */
static int close_inherited(void)
{
	dup3(1, 300, O_CLOEXEC);
	dup2(1, 301);
	dup2(1, HIGH);
	dup3(1, HIGH + 1, O_CLOEXEC);
	fds_close_inherited();
	return is_open(1) + is_open(300) + !is_open(301) + !is_open(HIGH) + is_open(HIGH + 1);
}

static void test_closing(void)
{
	int status;

	for (int world = PLAIN; world < WORLDS; world++) {
		unit_case("%s", world_names[world]);
		fflush(stdout);
		if (!fork()) {
			enter_world((enum world)world);
			_exit(close_inherited());
		}
		wait(&status);
		if (WEXITSTATUS(status) == 98)
			printf("# may not unshare here\n");
		else
			CHECK_INT(WEXITSTATUS(status), 5);
	}
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
