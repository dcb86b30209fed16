/* SPDX-License-Identifier: MIT */
/*
 * interleave RUNS ::: LABEL COMMAND [ARG]... [::: LABEL COMMAND [ARG]...]...
 *
 * Runs the commands in turn, RUNS times each after a few to warm up, each round
 * beginning with another one, and prints "LABEL MEDIAN P10 P90" in microseconds from
 * posix_spawn to the reaped child. A command that fails ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 64
#define WARM_UP 10

extern char **environ;

struct contender {
	char *label;
	char **argv;
	int64_t *ns;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t run_once(const struct contender *c)
{
	int64_t start = now_ns();
	int failure, status;
	pid_t pid;

	failure = posix_spawnp(&pid, c->argv[0], NULL, NULL, c->argv, environ);
	if (failure) {
		fprintf(stderr, "interleave: %s: %s\n", c->argv[0], strerror(failure));
		exit(1);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status) {
		fprintf(stderr, "interleave: %s: wait status %#x\n", c->label, status);
		exit(1);
	}
	return now_ns() - start;
}

static int ascending(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	struct contender list[MOST];
	int count = 0, runs = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], ":::") != 0)
			continue;
		argv[i] = NULL;
		if (count == MOST || i + 2 >= argc)
			return 2;
		list[count++] = (struct contender){ .label = argv[i + 1],
						    .argv = argv + i + 2 };
	}
	if (runs < 1 || !count)
		return 2;
	for (int i = 0; i < count; i++) {
		list[i].ns = calloc((size_t)runs, sizeof(int64_t));
		if (!list[i].ns)
			return 1;
	}
	for (int run = -WARM_UP; run < runs; run++)
		for (int i = 0; i < count; i++) {
			struct contender *c = &list[(i + run + WARM_UP) % count];
			int64_t ns = run_once(c);

			if (run >= 0)
				c->ns[run] = ns;
		}
	for (int i = 0; i < count; i++) {
		int64_t *ns = list[i].ns;

		qsort(ns, (size_t)runs, sizeof(*ns), ascending);
		printf("%s %.1f %.1f %.1f\n", list[i].label, (double)ns[runs / 2] / 1e3,
		       (double)ns[runs / 10] / 1e3, (double)ns[runs - 1 - runs / 10] / 1e3);
		free(ns);
	}
	return 0;
}
