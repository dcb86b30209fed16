/* SPDX-License-Identifier: MIT */
/*
 * --metrics FILE of run: a file for the textfile collector of Prometheus' node_exporter. Each run
 * replaces the whole file, so all metrics are gauges. The file is written once, at the end of the
 * run, even if no command has run: after the release, which must not wait for a file system. A
 * process that is killed before that leaves the file of an earlier run.
 */
#pragma once

#include "engine/request.h"

struct locks;

/*
 * Replace the file atomically, over a file ".NAME.XXXXXX" in the same directory. The mode is 0644
 * with any umask, because the collector is another user. Refuses a path that is not a regular
 * file: root would replace /dev/null. name: of the lock. began_at_ms: start of dlock, ms since the
 * epoch. result: zeroed if there was no run. Returns 0, or -1 with *err and the old content.
 */
int metrics_write(const char *path, const char *name, int64_t began_at_ms,
		  const struct run_result *result, int exit_status, struct error *err);

/* Print gauges of all these locks, which are at location, for the same collector. */
void metrics_print_locks(const char *location, const struct locks *locks);
