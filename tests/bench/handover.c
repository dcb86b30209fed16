/* SPDX-License-Identifier: MIT */
/*
 * Times hand-overs of a lock: end of the holder's command to start of the waiter's, on
 * CLOCK_MONOTONIC, which all processes of a host share.
 *
 * handover ROUNDS SETTLE_MS DIR ::: LABEL LOCKER... [::: LABEL LOCKER...]...
 *	In turn, ROUNDS times each: LOCKER with "COMMAND..." appended holds the lock,
 *	another one waits for SETTLE_MS, the first command is told to end. Prints "LABEL
 *	MEDIAN P10 P90" in microseconds.
 * handover hold DIR	the holder's command: says "ready" in DIR/out, waits for a byte
 *			in DIR/go, says when it ended.
 * handover mark DIR	the waiter's command: says when it started.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 16
#define MOST_ARGUMENTS 32
#define WARM_UP 5

extern char **environ;

struct contender {
	char *label;
	char **argv;
	int argc;
	double *us;
};

struct message {
	char what[8];
	int64_t ns;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "handover: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_pipe(const char *dir, const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

static void tell(int fd, const char *what, int64_t ns)
{
	struct message message = { .ns = ns };

	snprintf(message.what, sizeof(message.what), "%s", what);
	if (write(fd, &message, sizeof(message)) != (ssize_t)sizeof(message))
		die("write");
}

static int64_t expect(int fd, const char *what)
{
	struct message message;

	if (read(fd, &message, sizeof(message)) != (ssize_t)sizeof(message))
		die("read");
	if (strcmp(message.what, what) != 0) {
		fprintf(stderr, "handover: '%s' came before '%s'\n", message.what, what);
		exit(1);
	}
	return message.ns;
}

static int command_hold(const char *dir)
{
	int out = open_pipe(dir, "out", O_WRONLY), go = open_pipe(dir, "go", O_RDONLY);
	char byte;

	tell(out, "ready", 0);
	if (read(go, &byte, 1) != 1)
		return 1;
	tell(out, "end", now_ns());
	_exit(0);
}

static pid_t start(const struct contender *c, char *self, char *verb, char *dir)
{
	char *argv[MOST_ARGUMENTS + 4];
	int n = c->argc, failure;
	pid_t pid;

	memcpy(argv, c->argv, (size_t)n * sizeof(*argv));
	argv[n++] = self;
	argv[n++] = verb;
	argv[n++] = dir;
	argv[n] = NULL;
	failure = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (failure) {
		errno = failure;
		die(argv[0]);
	}
	return pid;
}

static void reap(pid_t pid, const char *label)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status) {
		fprintf(stderr, "handover: %s: wait status %#x\n", label, status);
		exit(1);
	}
}

static double one_round(const struct contender *c, char *self, char *dir, int out, int go,
			long settle_ms)
{
	const struct timespec settle = { settle_ms / 1000, settle_ms % 1000 * 1000000 };
	pid_t holder = start(c, self, "hold", dir), waiter;
	int64_t ended, started;

	expect(out, "ready");
	waiter = start(c, self, "mark", dir);
	nanosleep(&settle, NULL);
	if (write(go, "", 1) != 1)
		die("write");
	ended = expect(out, "end");
	started = expect(out, "start");
	reap(holder, c->label);
	reap(waiter, c->label);
	return (double)(started - ended) / 1e3;
}

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int parse(int argc, char **argv, struct contender *list, int rounds)
{
	int count = 0;

	for (int i = 4; i < argc; i++) {
		if (!strcmp(argv[i], ":::")) {
			if (count == MOST || i + 2 >= argc)
				return 0;
			list[count++] = (struct contender){
				.label = argv[i + 1], .argv = argv + i + 2, .argc = -1,
				.us = calloc((size_t)rounds, sizeof(double)),
			};
		} else if (count && list[count - 1].argc < MOST_ARGUMENTS) {
			list[count - 1].argc++;
		}
	}
	return count;
}

int main(int argc, char **argv)
{
	struct contender list[MOST];
	int64_t born = now_ns();
	int rounds, count, out, go;
	char self[512];

	if (argc == 3 && !strcmp(argv[1], "hold"))
		return command_hold(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "mark")) {
		tell(open_pipe(argv[2], "out", O_WRONLY), "start", born);
		return 0;
	}
	rounds = argc > 1 ? atoi(argv[1]) : 0;
	count = rounds > 0 ? parse(argc, argv, list, rounds) : 0;
	if (!count || !realpath("/proc/self/exe", self))
		return 2;
	for (int i = 0; i < 2; i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", argv[3], i ? "go" : "out");
		if (mkfifo(path, 0600) && errno != EEXIST)
			die(path);
	}
	/* Both ends, so that no open blocks and nothing reads an end of file. */
	out = open_pipe(argv[3], "out", O_RDWR);
	go = open_pipe(argv[3], "go", O_RDWR);
	for (int round = -WARM_UP; round < rounds; round++)
		for (int i = 0; i < count; i++) {
			struct contender *c = &list[(i + round + WARM_UP) % count];
			double us = one_round(c, self, argv[3], out, go, atol(argv[2]));

			if (round >= 0)
				c->us[round] = us;
		}
	for (int i = 0; i < count; i++) {
		double *us = list[i].us;

		qsort(us, (size_t)rounds, sizeof(*us), ascending);
		printf("%s %.1f %.1f %.1f\n", list[i].label, us[rounds / 2], us[rounds / 10],
		       us[rounds - 1 - rounds / 10]);
		free(us);
	}
	return 0;
}
