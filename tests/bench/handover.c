/* SPDX-License-Identifier: MIT */
/*
 * handover ROUNDS SETTLE_MS DIR STAMP ::: LABEL LOCKER... [::: LABEL LOCKER...]...
 *
 * Times hand-overs of a lock: end of the holder's command to start of the waiter's. In rounds
 * of another order each, ROUNDS times each, LOCKER with a command appended takes the lock,
 * another one waits for SETTLE_MS, and the first one's command ends. Prints "LABEL MEDIAN P10 P90"
 * in microseconds. STAMP is the program of stamp.c.
 */
#include "bench.h"

#define MOST 16
#define WARM_UP 5
#define ROUND_SECONDS 30

struct contender {
	char *label;
	char **argv;
	int64_t *ns;
};

struct place {
	long settle_ms;
	char *dir, *stamp;
	int out, go;
};

static int64_t one_round(const struct contender *c, const struct place *place)
{
	pid_t holder, waiter;
	int64_t ended, started;

	/* A locker that fails never says anything. */
	alarm(ROUND_SECONDS);
	holder = start_program(c->argv, place->stamp, "hold", place->dir);
	receive_time(place->out, "ready");
	waiter = start_program(c->argv, place->stamp, "mark", place->dir);
	rest_ms(place->settle_ms);
	if (write(place->go, "", 1) != 1)
		exit_failed("write");
	ended = receive_time(place->out, "end");
	started = receive_time(place->out, "start");
	reap_program(holder, c->label);
	reap_program(waiter, c->label);
	alarm(0);
	return started - ended;
}

int main(int argc, char **argv)
{
	struct contender list[MOST];
	int rounds = argc > 5 ? atoi(argv[1]) : 0, count = 0, order[MOST];
	struct place place;

	if (rounds < 1)
		return 2;
	for (int i = 5; i < argc; i++) {
		if (strcmp(argv[i], ":::") != 0)
			continue;
		argv[i] = NULL;
		if (count == MOST || i + 2 >= argc)
			return 2;
		list[count].label = argv[i + 1];
		list[count].argv = argv + i + 2;
		list[count].ns = calloc((size_t)rounds, sizeof(int64_t));
		if (!list[count++].ns)
			exit_failed("memory");
	}
	place = (struct place){ atol(argv[2]), argv[3], argv[4],
				open_pipe(argv[3], "out", O_RDWR),
				open_pipe(argv[3], "go", O_RDWR) };
	for (int round = -WARM_UP; round < rounds; round++) {
		shuffle_order(order, count);
		for (int i = 0; i < count; i++) {
			struct contender *c = &list[order[i]];
			int64_t ns = one_round(c, &place);

			if (round >= 0)
				c->ns[round] = ns;
		}
	}
	for (int i = 0; i < count; i++) {
		print_quantiles(list[i].label, list[i].ns, rounds);
		free(list[i].ns);
	}
	return 0;
}
