/* SPDX-License-Identifier: MIT */
/* Tests src/base/tree.c. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/tree.h"
#include "unit.h"

/* Of a tree that is to be dead: 10 s in all. */
#define TRIES 5000
#define PAUSE_US 2000

static const struct tree_excluded nothing = { .pids = NULL };

static int count_tree(const struct tree_excluded *excluded)
{
	pid_t refused;

	return tree_signal(excluded, 0, 0, CLOCK_NEVER, &refused);
}

/* Kills the tree, as the guard and the supervisor do. */
static bool kill_all(const struct tree_excluded *excluded)
{
	pid_t refused;

	for (int i = 0; i < TRIES; i++) {
		if (!tree_signal(excluded, 0, SIGKILL, CLOCK_NEVER, &refused))
			return true;
		usleep(PAUSE_US);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	return false;
}

static void write_byte(const int *ready)
{
	const ssize_t told = write(*ready, "", 1);

	(void)told;
}

/* Waits for n bytes. */
static void await_bytes(const int ends[2], int n)
{
	char byte;

	while (n-- > 0 && read(ends[0], &byte, 1) == 1)
		;
}

/* Has a child, and a grandchild that its parent has left, in a session of its own. */
static void run_family(void *ready)
{
	if (!fork())
		unit_sleep(NULL);
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		write_byte(ready);
		unit_sleep(NULL);
	}
	unit_sleep(NULL);
}

/* Returns the pid of a family that is whole. One has ended, and its parent does not reap it. */
static pid_t start_family(int ends[2])
{
	const pid_t root = unit_start(run_family, &ends[1]);
	const struct tree_excluded but_root = { .helper = root };

	await_bytes(ends, 1);
	/* The one that ends leaves its child to this process. */
	for (int i = 0; i < TRIES && count_tree(&but_root) != 1; i++)
		usleep(PAUSE_US);
	return root;
}

static void *fork_one(void *ready)
{
	if (!fork()) {
		write_byte(ready);
		unit_sleep(NULL);
	}
	unit_sleep(NULL);
	return NULL;
}

/* Its only child is that of a thread, and its main thread has ended. */
static void run_threaded(void *ready)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fork_one, ready);
	pthread_exit(NULL);
}

static void test_descendants(void)
{
	/* Not on the stack of a thread that ends before the other one writes. */
	static int ends[2];
	pid_t root;

	unit_case("descendants");
	CHECK(tree_usable());
	CHECK_INT(count_tree(&nothing), 0);
	if (pipe(ends))
		return;
	root = start_family(ends);
	CHECK_INT(count_tree(&nothing), 4);
	CHECK_INT(count_tree(&(struct tree_excluded){ .helper = root }), 1);
	unit_start(run_threaded, &ends[1]);
	await_bytes(ends, 1);
	CHECK_INT(count_tree(&(struct tree_excluded){ .helper = root }), 3);
	CHECK(kill_all(&nothing));
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
	close(ends[0]);
	close(ends[1]);
}

static volatile sig_atomic_t terms;

static void count_term(int sig)
{
	(void)sig;
	terms++;
}

static void end_with_count(int sig)
{
	(void)sig;
	_exit(terms);
}

static void run_counter(void *ready)
{
	signal(SIGTERM, count_term);
	signal(SIGUSR1, end_with_count);
	write_byte(ready);
	unit_sleep(NULL);
}

static void test_signals(void)
{
	pid_t first, skipped, refused;
	int ends[2], status;

	unit_case("a group that is left out, and one that is stopped");
	if (pipe(ends))
		return;
	first = unit_start(run_counter, &ends[1]);
	skipped = unit_start(run_counter, &ends[1]);
	setpgid(skipped, skipped);
	await_bytes(ends, 2);
	kill(first, SIGSTOP);
	CHECK_INT(tree_signal(&nothing, skipped, SIGTERM, CLOCK_NEVER, &refused), 2);
	CHECK_INT(refused, 0);
	/* Each process answers when TERM was handled. */
	usleep(100 * PAUSE_US);
	CHECK_INT(tree_signal(&nothing, 0, SIGUSR1, CLOCK_NEVER, &refused), 2);
	CHECK_INT(waitpid(first, &status, 0), first);
	CHECK_INT(WEXITSTATUS(status), 1);
	CHECK_INT(waitpid(skipped, &status, 0), skipped);
	CHECK_INT(WEXITSTATUS(status), 0);
	close(ends[0]);
	close(ends[1]);
}

/* Forks, and the parent ends, over and over, as fast as it can. */
static void run_runaway(void *arg)
{
	(void)arg;
	prctl(PR_SET_PDEATHSIG, 0);
	setsid();
	for (int i = 0; i < 2000; i++)
		if (fork())
			_exit(0);
	unit_sleep(NULL);
}

static void test_runaway(void)
{
	unit_case("processes that fork and end all the time");
	for (int i = 0; i < 4; i++)
		unit_start(run_runaway, NULL);
	CHECK(kill_all(&nothing));
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_excluded(void)
{
	struct tree_excluded excluded;
	pid_t old;
	int ends[2];

	unit_case("what was there before");
	CHECK_INT(tree_exclude_present(&excluded), 0);
	CHECK_INT(excluded.count, 0);
	if (pipe(ends))
		return;
	old = start_family(ends);
	CHECK_INT(tree_exclude_present(&excluded), 0);
	CHECK_INT(excluded.count, 4);
	unit_start(unit_sleep, NULL);
	CHECK_INT(count_tree(&excluded), 1);
	CHECK(kill_all(&excluded));
	CHECK_INT(kill(old, 0), 0);
	/* What was below one that has ended is still known. */
	kill(old, SIGKILL);
	CHECK_INT(waitpid(old, NULL, 0), old);
	tree_remove_reaped(&excluded, old);
	CHECK_INT(count_tree(&excluded), 0);
	CHECK(count_tree(&nothing) >= 2);
	CHECK(kill_all(&nothing));
	close(ends[0]);
	close(ends[1]);
}

static void become_nobody(void *ready)
{
	if (setresuid(65534, 65534, 65534))
		_exit(1);
	write_byte(ready);
	unit_sleep(NULL);
}

/* A user with a child of root. */
static void run_refusing(void *arg)
{
	int ends[2], status, good = 0;
	pid_t child, other, refused;

	(void)arg;
	if (pipe(ends))
		_exit(99);
	child = unit_start(unit_sleep, NULL);
	other = unit_start(become_nobody, &ends[1]);
	await_bytes(ends, 1);
	if (setresuid(65534, 65534, 65534))
		_exit(99);
	good += tree_signal(&nothing, 0, SIGKILL, CLOCK_NEVER, &refused) == 2 && refused == child;
	good += waitpid(other, &status, 0) == other;
	good += tree_signal(&nothing, 0, SIGKILL, CLOCK_NEVER, &refused) == 1 && refused == child;
	_exit(good);
}

static void test_refused(void)
{
	int status;

	unit_case("a process that may not be signalled");
	if (getuid()) {
		printf("# needs root\n");
		return;
	}
	CHECK(waitpid(unit_start(run_refusing, NULL), &status, 0) > 0);
	CHECK_INT(WEXITSTATUS(status), 3);
	CHECK(kill_all(&nothing));
}

/* The /proc that was there before shows the PID namespace above; an empty directory nothing. */
static void run_namespaced(void *arg)
{
	pid_t child, refused;
	int good = 0;

	(void)arg;
	child = unit_start(unit_sleep, NULL);
	good += !tree_usable();
	good += tree_signal(&nothing, 0, SIGKILL, CLOCK_NEVER, &refused) == -1;
	good += kill(child, 0) == 0;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL))
		_exit(99);
	good += !tree_usable();
	umount("/proc");
	if (mount("proc", "/proc", "proc", 0, NULL))
		_exit(99);
	good += tree_usable();
	good += tree_signal(&nothing, 0, SIGKILL, CLOCK_NEVER, &refused) == 1;
	good += waitpid(child, NULL, 0) == child;
	_exit(good);
}

static void run_nested(void *arg)
{
	int status;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		_exit(98);
	if (waitpid(unit_start(run_namespaced, arg), &status, 0) < 0)
		_exit(97);
	_exit(WEXITSTATUS(status));
}

static void test_namespace(void)
{
	int status;

	unit_case("the /proc of another PID namespace");
	if (getuid()) {
		printf("# needs root\n");
		return;
	}
	CHECK(waitpid(unit_start(run_nested, NULL), &status, 0) > 0);
	if (WEXITSTATUS(status) == 98)
		printf("# may not unshare here\n");
	else
		CHECK_INT(WEXITSTATUS(status), 7);
}

int main(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	test_descendants();
	test_signals();
	test_runaway();
	test_excluded();
	test_refused();
	test_namespace();
	return unit_done();
}
