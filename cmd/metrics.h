/* SPDX-License-Identifier: MIT */
/*
 * --metrics FILE of run: a file for the textfile collector of Prometheus' node_exporter. The file
 * tells of the last run that has written it, and each run replaces it as a whole; so all metrics in
 * it are gauges, and none is a counter. It is written once, when all else of the run is over: after
 * the release, which must not wait for a file system, and whether or not the command has run. A
 * process that is killed before that leaves the file of the run before, which becomes too old.
 */
#pragma once

#include <stdint.h>

#include "engine/supervise.h"

struct metrics {
	const char *name;		/* of the lock */
	int64_t began_at_ms;		/* when dlock began, ms since the epoch */
	const struct run_result *result;	/* zeroed where it has not come to a run */
	int exit_status;
};

/* Replaces the file, with mode 0644, for the collector is another user. 0, or -1 with *err. */
int metrics_write(const char *path, const struct metrics *metrics, struct error *err);
