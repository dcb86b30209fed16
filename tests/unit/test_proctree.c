/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proctable.h"
#include "base/proctree.h"
#include "unit.h"

/* Of a condition that comes about by itself: 10 s in all. */
#define TRIES 5000
#define PAUSE_US 2000

#define ENTRY "PROCTREE_TEST=0123456789abcdef"

static const struct proctree_scope everything = { .group = 0 };

static void nothing(void *arg)
{
	(void)arg;
}

/* Counts TERM, and ends with the number at USR1. */
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

static void counter(void *ready)
{
	ssize_t told;

	signal(SIGTERM, count_term);
	signal(SIGUSR1, end_with_count);
	told = write(*(const int *)ready, "", 1);
	(void)told;
	unit_sleep(NULL);
}

/* A group of its own with a child in it, and a grandchild in a session of its own. */
static void family(void *ready)
{
	ssize_t told;

	setpgid(0, 0);
	if (!fork())
		unit_sleep(NULL);
	if (!fork()) {
		setsid();
		told = write(*(const int *)ready, "", 1);
		(void)told;
		unit_sleep(NULL);
	}
	unit_sleep(NULL);
}

/* Waits for n bytes. */
static void await(const int ends[2], int n)
{
	char byte;

	while (n-- > 0 && read(ends[0], &byte, 1) == 1)
		;
}

static int count(const struct proctree_scope *scope)
{
	return proctree_signal(scope, 0, NULL, NULL);
}

static bool becomes(const struct proctree_scope *scope, int want)
{
	for (int i = 0; i < TRIES && count(scope) != want; i++)
		usleep(PAUSE_US);
	return count(scope) == want;
}

static void test_descendants(void)
{
	struct proctree_report report;
	int ends[2];
	pid_t root, lone;

	unit_case("descendants");
	CHECK(proctable_usable());
	CHECK_INT(count(&everything), 0);
	if (pipe(ends))
		return;
	root = unit_start(family, &ends[1]);
	lone = unit_start(unit_sleep, NULL);
	await(ends, 1);
	CHECK_INT(count(&everything), 4);
	CHECK_INT(count(&(struct proctree_scope){ .spare = { root } }), 1);
	CHECK_INT(count(&(struct proctree_scope){ .spare = { lone, 0, root } }), 0);
	CHECK_INT(proctree_kill(&(struct proctree_scope){ .spare = { lone } }, NULL, &report), 0);
	CHECK_INT(report.alive, 0);
	CHECK_INT(count(&everything), 1);
	CHECK_INT(waitpid(root, NULL, WNOHANG), -1);	/* reaped */
	CHECK_INT(waitpid(lone, NULL, WNOHANG), 0);
	CHECK_INT(proctree_kill(&everything, NULL, NULL), 0);
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
	close(ends[0]);
	close(ends[1]);
}

static void test_memory(void)
{
	struct proctree_memory memory = { .sent = NULL };
	struct proctree_scope scope = everything;
	pid_t first, second, skipped;
	int ends[2], status;

	unit_case("memory");
	if (pipe(ends))
		return;
	first = unit_start(counter, &ends[1]);
	skipped = unit_start(counter, &ends[1]);
	setpgid(skipped, skipped);
	await(ends, 2);
	scope.skip_group = skipped;
	CHECK_INT(proctree_signal(&scope, SIGTERM, &memory, NULL), 2);
	second = unit_start(counter, &ends[1]);
	await(ends, 1);
	scope.skip_group = 0;
	CHECK_INT(proctree_signal(&scope, SIGTERM, &memory, NULL), 3);
	CHECK_INT(proctree_signal(&scope, SIGTERM, &memory, NULL), 3);
	CHECK_INT(proctree_signal(&scope, SIGCONT, &memory, NULL), 3);
	proctree_signal(&scope, SIGUSR1, &memory, NULL);
	CHECK_INT(waitpid(first, &status, 0), first);
	CHECK_INT(WEXITSTATUS(status), 1);
	CHECK_INT(waitpid(second, &status, 0), second);
	CHECK_INT(WEXITSTATUS(status), 1);
	CHECK_INT(waitpid(skipped, &status, 0), skipped);
	CHECK_INT(WEXITSTATUS(status), 0);
	proctree_memory_finish(&memory);
	/* Without one: once for each call, however often it looks. */
	first = unit_start(counter, &ends[1]);
	await(ends, 1);
	proctree_signal(&everything, SIGTERM, NULL, NULL);
	proctree_signal(&everything, SIGUSR1, NULL, NULL);
	CHECK_INT(waitpid(first, &status, 0), first);
	CHECK_INT(WEXITSTATUS(status), 1);
	close(ends[0]);
	close(ends[1]);
}

static void run_with_entry(void *entry)
{
	char *argv[] = { (char[]){ "sleep" }, (char[]){ "300" }, NULL };
	char *envp[] = { (char[]){ "A=" ENTRY }, (char[]){ "B=2" }, entry, NULL };

	setsid();
	execvpe("sleep", argv, envp);
	_exit(127);
}

static void test_carriers(void)
{
	struct proctree_scope scope = { .carriers = true, .entry = ENTRY };
	char with[] = ENTRY "+1", other[] = ENTRY, shorter[] = ENTRY;
	pid_t carrier, root;
	int ends[2];

	unit_case("carriers");
	other[sizeof(other) - 2] = '0';
	shorter[sizeof(shorter) - 2] = '\0';
	carrier = unit_start(run_with_entry, with);
	unit_start(run_with_entry, other);
	unit_start(run_with_entry, shorter);
	CHECK(becomes(&scope, 1));
	CHECK_INT(count(&everything), 3);
	scope.spare[1] = carrier;
	CHECK_INT(count(&scope), 0);
	scope.spare[1] = 0;
	if (pipe(ends))
		return;
	root = unit_start(family, &ends[1]);
	await(ends, 1);
	scope.group = root;
	scope.session = getsid(0) + 1;	/* not that of the group: the number is used again */
	CHECK_INT(count(&scope), 1);
	scope.session = getsid(0);
	CHECK_INT(count(&scope), 4);	/* what left the group is below it */
	scope.entry = NULL;
	CHECK_INT(count(&scope), 3);
	scope.group = getpgrp();	/* never this process itself */
	scope.spare[0] = getppid();
	CHECK(proctree_signal(&scope, 0, NULL, NULL) >= 0);
	scope = (struct proctree_scope){ .carriers = true, .entry = ENTRY, .group = root,
					 .session = getsid(0) };
	CHECK_INT(proctree_kill(&scope, NULL, NULL), 0);
	CHECK_INT(count(&everything), 2);
	CHECK_INT(proctree_kill(&everything, NULL, NULL), 0);
	close(ends[0]);
	close(ends[1]);
}

static void *other_thread(void *ready)
{
	ssize_t told = write(*(const int *)ready, "", 1);

	(void)told;
	unit_sleep(NULL);
	return NULL;
}

static void dead_main(void *ready)
{
	pthread_t thread;

	pthread_create(&thread, NULL, other_thread, ready);
	pthread_exit(NULL);
}

static void test_dead_main(void)
{
	struct proctable table = { .rows = NULL };
	const struct proctable_row *row;
	int ends[2];
	pid_t pid, zombie;

	unit_case("a main thread that has ended");
	if (pipe(ends))
		return;
	pid = unit_start(dead_main, &ends[1]);
	zombie = unit_start(nothing, NULL);
	close(ends[1]);
	await(ends, 1);
	for (int i = 0; i < TRIES; i++) {
		proctable_read(&table);
		row = proctable_find(&table, pid);
		if (row && row->thread != pid)
			break;
		usleep(PAUSE_US);
	}
	row = proctable_find(&table, pid);
	CHECK(row && row->thread > 0 && row->thread != pid);
	CHECK(becomes(&everything, 1));
	CHECK_INT(proctree_kill(&everything, NULL, NULL), 0);
	CHECK_INT(waitpid(pid, NULL, WNOHANG), -1);
	CHECK_INT(waitpid(zombie, NULL, WNOHANG), -1);
	proctable_finish(&table);
	close(ends[0]);
}

/* Forks, and the parent ends, over and over, as fast as it can: no look sees it twice. */
static void runaway(void *arg)
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
	unit_case("a process that forks and ends all the time");
	unit_start(runaway, NULL);
	CHECK_INT(proctree_kill(&everything, NULL, NULL), 0);
	CHECK_INT(count(&everything), 0);
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_inherited(void)
{
	struct proctree_inherited inherited;
	struct proctree_scope scope = { .inherited = &inherited };
	pid_t old, young;
	int ends[2];

	unit_case("inherited children");
	CHECK_INT(proctree_inherit(&inherited), 0);
	CHECK_INT(inherited.count, 0);
	if (pipe(ends))
		return;
	old = unit_start(family, &ends[1]);
	await(ends, 1);
	CHECK_INT(proctree_inherit(&inherited), 0);
	CHECK_INT(inherited.count, 3);
	young = unit_start(unit_sleep, NULL);
	CHECK_INT(count(&scope), 1);
	CHECK_INT(proctree_kill(&scope, NULL, NULL), 0);
	CHECK_INT(waitpid(young, NULL, WNOHANG), -1);
	CHECK_INT(count(&everything), 3);
	/* What was below one that has ended is still known. */
	kill(old, SIGKILL);
	CHECK(becomes(&everything, 2));
	CHECK_INT(count(&scope), 0);
	CHECK_INT(proctree_kill(&scope, NULL, NULL), 0);
	CHECK_INT(waitpid(old, NULL, 0), old);	/* nobody else has reaped it */
	proctree_forget(&inherited);
	CHECK_INT(proctree_kill(&everything, NULL, NULL), 0);
	close(ends[0]);
	close(ends[1]);
}

static void become_nobody(void *ready)
{
	ssize_t told;

	if (setresuid(65534, 65534, 65534))
		_exit(1);
	told = write(*(const int *)ready, "", 1);
	(void)told;
	unit_sleep(NULL);
}

/* As another user, who may signal one of two. */
static void refused(void *arg)
{
	const pid_t *pids = arg;
	struct proctree_scope scope = { .carriers = true, .session = pids[2] };
	struct proctree_report report;
	int good = 0;

	if (setresuid(65534, 65534, 65534))
		_exit(99);
	scope.group = pids[0];
	good += proctree_kill(&scope, NULL, &report) == 1;
	good += report.alive == 1 && report.refused == 1;
	good += report.refused_pid == pids[0] && report.refused_user == 0;
	scope.group = pids[1];
	good += proctree_kill(&scope, NULL, &report) == 0;
	good += report.refused == 0;
	_exit(good);
}

static void test_refused(void)
{
	pid_t pids[3] = { 0, 0, getsid(0) };
	int ends[2], status;

	unit_case("a process that may not be signalled");
	if (getuid()) {
		printf("# needs root\n");
		return;
	}
	if (pipe(ends))
		return;
	pids[0] = unit_start(unit_sleep, NULL);
	setpgid(pids[0], pids[0]);
	pids[1] = unit_start(become_nobody, &ends[1]);
	setpgid(pids[1], pids[1]);
	await(ends, 1);
	CHECK_INT(waitpid(unit_start(refused, pids), &status, 0) > 0, true);
	CHECK_INT(WEXITSTATUS(status), 5);
	CHECK_INT(proctree_kill(&everything, NULL, NULL), 0);
	close(ends[0]);
	close(ends[1]);
}

/* The /proc that was there before shows the PID namespace above; an empty directory nothing. */
static void namespaced(void *arg)
{
	int good = 0;
	pid_t child;

	(void)arg;
	child = unit_start(unit_sleep, NULL);
	good += !proctable_usable();
	good += proctree_signal(&everything, SIGKILL, NULL, NULL) == -1;
	good += kill(child, 0) == 0;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL))
		_exit(99);
	good += !proctable_usable();
	umount("/proc");
	if (mount("proc", "/proc", "proc", 0, NULL))
		_exit(99);
	good += proctable_usable();
	good += proctree_signal(&everything, SIGKILL, NULL, NULL) >= 0;
	good += waitpid(child, NULL, 0) == child;
	_exit(good);
}

static void enter(void *arg)
{
	int status;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		_exit(98);
	if (waitpid(unit_start(namespaced, arg), &status, 0) < 0)
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
	CHECK(waitpid(unit_start(enter, NULL), &status, 0) > 0);
	if (WEXITSTATUS(status) == 98)
		printf("# may not unshare here\n");
	else
		CHECK_INT(WEXITSTATUS(status), 7);
}

int main(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	test_descendants();
	test_memory();
	test_carriers();
	test_dead_main();
	test_runaway();
	test_inherited();
	test_refused();
	test_namespace();
	return unit_done();
}
