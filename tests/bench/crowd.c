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
#include "bench.h"

#define IN_LINE_SECONDS 120
#define AT_ONCE 25
#define ALL_SECONDS 600

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
