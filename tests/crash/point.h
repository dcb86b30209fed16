/* SPDX-License-Identifier: MIT */
#pragma once

#include "trace.h"

/*
 * One point: contenders for one lock, each a `dlock run` with tests/crash/tree.c as its
 * command, and up to two strikes among them. Each contender is started when the one before
 * it has settled, and ends when all wait in line; the first is told to end last. Checked:
 *
 *  - no process of one tree is alive when the command of another begins;
 *  - fences grow in the order in which commands began;
 *  - who was not struck ran its command once, to its end, and ended with 0;
 *  - who ended with 0 ran its command to its end;
 *  - the last one is served within a TTL and SLACK_MS;
 *  - no process is left within that time of the last one's end.
 *
 * A point runs in a process of its own, which ends when it is done: it is the subreaper and
 * the tracer of all that it starts.
 */

#define CONTENDERS 3
#define SLACK_MS 6000

enum verdict {
	VERDICT_PASSED,
	VERDICT_NOT_REACHED,	/* all is well, but a strike did not happen */
	VERDICT_FAILED,
};

/* The same for all points. */
struct setting {
	const char *dlock, *tree, *uri;
	const char *dir;		/* for lock files of trees */
	const char *options[16];	/* of dlock run; NULL at the end */
	int ttl_ms;
	int stop_ms;			/* what is stopped goes on after so long */
	bool contained;			/* the options have --contain */
	bool verbose;
};

struct point {
	char lock[128];			/* its name */
	long index;			/* among all points */
	int contenders;
	int traced;			/* bit N: contender N */
	bool leave;			/* the first command leaves a process behind */
	bool kill_stopped;		/* what is stopped is killed, and does not go on */
	struct strike strikes[2];
	int strike_count;
};

/* What the parent learns; in memory that it shares. */
struct result {
	enum verdict verdict;
	bool unsafe;		/* failed, in what no delay of a process may bring about */
	int late_ms;		/* by how much the tester woke up too late, at most */
	double running;		/* how many processes ran on this machine, on average */
	bool kept;		/* the last one was served when what was stopped went on */
	struct process processes[TRACE_PROCESSES];	/* of traced contenders */
	int process_count;
};

/* Writes what happened to standard output, unless all is well. */
void point_run(const struct setting *setting, const struct point *point, struct result *result);
