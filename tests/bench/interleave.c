/* SPDX-License-Identifier: MIT */
/*
 * interleave RUNS ::: LABEL COMMAND [ARG]... [::: LABEL COMMAND [ARG]...]...
 *
 * Runs the commands RUNS times each after a few to warm up, in rounds of another order each,
 * and prints "LABEL MEDIAN P10 P90" in microseconds from posix_spawn to the reaped child. A
 * command that fails ends it.
 */
#include "bench.h"

#define MOST 64
#define WARM_UP 10

struct contender {
	char *label;
	char **argv;
	int64_t *ns;
};

static int64_t run_once(const struct contender *c)
{
	int64_t began = now_ns();

	reap_program(start_program(c->argv, NULL, NULL, NULL), c->label);
	return now_ns() - began;
}

int main(int argc, char **argv)
{
	struct contender list[MOST];
	int count = 0, runs = argc > 1 ? atoi(argv[1]) : 0, order[MOST];

	if (runs < 1)
		return 2;
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], ":::") != 0)
			continue;
		argv[i] = NULL;
		if (count == MOST || i + 2 >= argc)
			return 2;
		list[count].label = argv[i + 1];
		list[count].argv = argv + i + 2;
		list[count].ns = calloc((size_t)runs, sizeof(int64_t));
		if (!list[count++].ns)
			exit_failed("memory");
	}
	for (int run = -WARM_UP; run < runs; run++) {
		shuffle_order(order, count);
		for (int i = 0; i < count; i++) {
			struct contender *c = &list[order[i]];
			int64_t ns = run_once(c);

			if (run >= 0)
				c->ns[run] = ns;
		}
	}
	for (int i = 0; i < count; i++) {
		print_quantiles(list[i].label, list[i].ns, runs);
		free(list[i].ns);
	}
	return 0;
}
