/* SPDX-License-Identifier: MIT */
/*
 * crowd N SECONDS DIR STAMP IN_LINE REQUESTS LOCKER...
 *
 * One holder and N waiters on one lock, who come 25 at a time. IN_LINE is a shell command
 * that prints how many wait, REQUESTS one that prints how many requests the server has had.
 * Once all N wait, looks at them for SECONDS (0: not at all), then lets the holder's command
 * end and waits until all have had the lock, each for as long as true takes. Prints
 *
 *	N REQUESTS/S/WAITER CPU_US/S/WAITER PSS_KB/WAITER PROCESSES/WAITER \
 *		US/HAND-OVER REQUESTS/HAND-OVER
 */
#include <dirent.h>

#include "bench.h"

#define IN_LINE_SECONDS 120
#define AT_ONCE 25
#define ALL_SECONDS 600

struct usage {
	int processes;
	double pss_kb, cpu_us;
};

static double ask_number(const char *command)
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
static double proc_number(long pid, const char *name, const char *key)
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

static long parent_of(long pid)
{
	return (long)proc_number(pid, "status", "PPid:");
}

/* Of all descendants of these processes and themselves. */
static struct usage measure_usage(const pid_t *pids, int count, int pss)
{
	struct usage usage = { 0 };
	DIR *proc = opendir("/proc");
	struct dirent *entry;

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
		usage.cpu_us += proc_number(pid, "schedstat", "") / 1e3;
		if (pss)
			usage.pss_kb += proc_number(pid, "smaps_rollup", "Pss:");
	}
	closedir(proc);
	return usage;
}

static void wait_in_line(const char *command, int count)
{
	int64_t until = now_ns() + IN_LINE_SECONDS * INT64_C(1000000000);
	double waiting;

	while ((waiting = ask_number(command)) < count) {
		if (now_ns() > until) {
			fprintf(stderr, "bench: only %.0f of %d wait\n", waiting, count);
			exit(1);
		}
		rest_ms(10);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 7 ? atoi(argv[1]) : 0, seconds, out, go;
	const char *in_line = argv[5], *requests = argv[6];
	struct usage before = { 0 }, after = { 0 };
	double idle = 0, busy, elapsed;
	int64_t began, ended;
	pid_t holder, *pids;

	if (n < 1)
		return 2;
	seconds = atoi(argv[2]);
	out = open_pipe(argv[3], "out", O_RDWR);
	go = open_pipe(argv[3], "go", O_RDWR);
	pids = calloc((size_t)n, sizeof(*pids));
	if (!pids)
		exit_failed("memory");
	alarm(ALL_SECONDS);
	holder = start_program(argv + 7, argv[4], "hold", argv[3]);
	receive_time(out, "ready");
	for (int i = 0; i < n; i++) {
		/* How many a server can greet in a second is not what is asked here. */
		if (i && i % AT_ONCE == 0)
			wait_in_line(in_line, i);
		pids[i] = start_program(argv + 7, "true", NULL, NULL);
	}
	wait_in_line(in_line, n);
	rest_ms(seconds ? 2000 : 30);
	if (seconds) {
		/* Memory first: it takes time to read, and CPU of others only. */
		after = measure_usage(pids, n, 1);
		before = measure_usage(pids, n, 0);
		idle = ask_number(requests);
		began = now_ns();
		rest_ms(seconds * 1000L);
		idle = ask_number(requests) - idle;
		elapsed = (double)(now_ns() - began) / 1e9;
		before.cpu_us = measure_usage(pids, n, 0).cpu_us - before.cpu_us;
		idle /= elapsed * n;
		before.cpu_us /= elapsed * n;
	}
	busy = ask_number(requests);
	if (write(go, "", 1) != 1)
		exit_failed("write");
	began = receive_time(out, "end");
	for (int i = 0; i < n; i++)
		reap_program(pids[i], "a waiter");
	ended = now_ns();
	reap_program(holder, "the holder");
	busy = ask_number(requests) - busy;
	printf("%d %.3f %.1f %.0f %.1f %.1f %.2f\n", n, idle, before.cpu_us, after.pss_kb / n,
	       (double)after.processes / n, (double)(ended - began) / 1e3 / n, busy / n);
	free(pids);
	return 0;
}
