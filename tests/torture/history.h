/* SPDX-License-Identifier: MIT */
/*
 * The judge of histories. The commands that ran under one lock (tools/witness.c) and their starter
 * have written the history. Its lines are in any order; times are milliseconds of CLOCK_BOOTTIME
 * with six decimals, taken by the process before it wrote the line:
 *
 *	TIME begin HOLD PID FENCE MODE	the command of HOLD runs; MODE is x (exclusive), s (shared),
 *					or a number of slots; FENCE is a number, or - for none
 *	TIME beat HOLD PID		the command, or something that it started, is alive
 *	TIME end HOLD PID		this process is about to exit
 *	TIME exit HOLD STATUS		dlock has exited, as was seen from outside
 *	# anything			for people
 *
 * A hold lasts from its begin to the last sign of life of any of its processes. The judge
 * demands:
 *	- holds that do not go together (by their modes) do not overlap, and of N slots no more
 *	  than N holds do;
 *	- of two holds that do not go together, the one that began after the other's last sign of
 *	  life has the greater fence; no two holds have the same one;
 *	- no process of a hold lives on after its dlock has exited, and no process after its end.
 * A stamp was taken by a process that was running: what the judge finds has happened, however
 * slow the machine was.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* One hold, as it was judged. Times in ns, 0: no such line. */
struct hold {
	char name[64];
	int64_t begin_ns, last_ns, exit_ns;
	long long pid;			/* of the command */
	int64_t end_ns;			/* the command's own end */
	unsigned long long fence;	/* 0: none */
	int slots;			/* 0: exclusive, -1: shared */
};

struct history {
	struct hold *holds;
	size_t count, capacity;
};

/* What history_check() calls with each thing that it finds, a line without its newline. */
typedef void history_tell(void *context, const char *finding);

/*
 * Judges LENGTH bytes at TEXT. Returns how many findings there were, -1 when memory is gone.
 * *history (may be NULL) gets the holds in the order of their begins, to be freed by
 * history_free().
 */
int history_check(const char *text, size_t length, struct history *history, history_tell *tell,
		  void *context);

void history_free(struct history *history);
