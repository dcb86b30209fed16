/* SPDX-License-Identifier: MIT */
/* What the measuring programs share. They end with a message when anything fails. */
#pragma once

#include <dirent.h>
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

#define MOST_ARGUMENTS 32

extern char **environ;

static inline void exit_failed(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* CLOCK_MONOTONIC: the same for all processes of a host. */
static inline int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline void rest_ms(long ms)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* argv with up to three words more (NULL ends them), through posix_spawn. */
static inline pid_t start_program(char *const argv[], char *a, char *b, char *c)
{
	char *words[MOST_ARGUMENTS + 4], *more[] = { a, b, c };
	int n = 0, failure;
	pid_t pid;

	while (n < MOST_ARGUMENTS && argv[n]) {
		words[n] = argv[n];
		n++;
	}
	for (int i = 0; i < 3 && more[i]; i++)
		words[n++] = more[i];
	words[n] = NULL;
	failure = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);
	if (failure) {
		errno = failure;
		exit_failed(words[0]);
	}
	return pid;
}

static inline void reap_program(pid_t pid, const char *label)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status) {
		fprintf(stderr, "bench: %s: wait status %#x\n", label, status);
		exit(1);
	}
}

static inline int compare_ascending(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * Puts 0 to count - 1 into another order each time (Fisher and Yates), always the same orders.
 * In turn each would come behind the same other one, which leaves a server warm, or has let it
 * grow cold.
 */
static inline void shuffle_order(int order[], int count)
{
	for (int i = 0; i < count; i++)
		order[i] = i;
	for (int i = count - 1; i > 0; i--) {
		int other = rand() % (i + 1), swapped = order[i];

		order[i] = order[other];
		order[other] = swapped;
	}
}

/* "LABEL MEDIAN P10 P90" in microseconds */
static inline void print_quantiles(const char *label, int64_t *ns, int count)
{
	qsort(ns, (size_t)count, sizeof(*ns), compare_ascending);
	printf("%s %.1f %.1f %.1f\n", label, (double)ns[count / 2] / 1e3,
	       (double)ns[count / 10] / 1e3, (double)ns[count - 1 - count / 10] / 1e3);
}

/* ---- what processes and servers need ---- */

struct usage {
	int processes;
	double pss_kb, cpu_us;
};

static inline double ask_number(const char *command)
{
	FILE *answer = popen(command, "re");
	double number = 0;

	if (!answer)
		exit_failed(command);
	if (fscanf(answer, "%lf", &number) != 1)
		number = 0;
	pclose(answer);
	return number;
}

/* The first number behind key (or in the first line) of /proc/PID/NAME. */
static inline double proc_number(long pid, const char *name, const char *key)
{
	char path[64], line[256];
	double number = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/%s", pid, name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key))) {
			number = strtod(line + strlen(key), NULL);
			break;
		}
	fclose(file);
	return number;
}

static inline long parent_of(long pid)
{
	return (long)proc_number(pid, "status", "PPid:");
}

/* Of all descendants of these processes and themselves. */
static inline struct usage measure_usage(const pid_t *pids, int count, int pss)
{
	struct usage usage = { 0 };
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	struct timespec cpu;
	clockid_t clock;

	if (!proc)
		exit_failed("/proc");
	while ((entry = readdir(proc))) {
		long pid = strtol(entry->d_name, NULL, 10), up = pid;
		int ours = 0;

		for (; up > 1 && !ours; up = parent_of(up))
			for (int i = 0; i < count && !ours; i++)
				ours = pids[i] == up;
		if (!ours)
			continue;
		usage.processes++;
		/* Of all of its threads, also those that have ended. */
		if (!clock_getcpuclockid((pid_t)pid, &clock) && !clock_gettime(clock, &cpu))
			usage.cpu_us += (double)cpu.tv_sec * 1e6 + (double)cpu.tv_nsec / 1e3;
		if (pss)
			usage.pss_kb += proc_number(pid, "smaps_rollup", "Pss:");
	}
	closedir(proc);
	return usage;
}

/* ---- words that commands under a lock send through DIR/out; DIR/go lets them go on ---- */

struct message {
	char what[8];
	int64_t ns;
};

static inline int open_pipe(const char *dir, const char *name, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	/* Both ends are kept open, so that no open blocks and nothing reads its end. */
	if (flags == O_RDWR && mkfifo(path, 0600) && errno != EEXIST)
		exit_failed(path);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		exit_failed(path);
	return fd;
}

static inline void send_time(int fd, const char *what, int64_t ns)
{
	struct message message = { .ns = ns };

	snprintf(message.what, sizeof(message.what), "%s", what);
	if (write(fd, &message, sizeof(message)) != (ssize_t)sizeof(message))
		exit_failed("write");
}

static inline int64_t receive_time(int fd, const char *what)
{
	struct message message;

	if (read(fd, &message, sizeof(message)) != (ssize_t)sizeof(message))
		exit_failed("read");
	if (strcmp(message.what, what) != 0) {
		fprintf(stderr, "bench: '%s' came before '%s'\n", message.what, what);
		exit(1);
	}
	return message.ns;
}
