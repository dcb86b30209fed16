/* SPDX-License-Identifier: MIT */
/*
 * --metrics FILE of run: a file for the textfile collector of Prometheus' node_exporter. Each run
 * replaces the whole file, which describes that run alone, so all metrics are gauges and none is a
 * counter. The file is written once, at the end of the run, whether or not the command has run:
 * after the release, which must not wait for a file system. A process that is killed before that
 * leaves the file of an earlier run, which becomes too old.
 */
#pragma once

#include <stdint.h>

#include "engine/run.h"

/*
 * Replaces the file in one step, with mode 0644, whatever the umask says, because the collector is
 * another user. Until the end the text is in a file ".NAME.XXXXXX" of the same directory. What is
 * at path and is no regular file stays: root would replace /dev/null. name: of the lock.
 * began_at_ms: when dlock began, ms since the epoch. result: zeroed if there was no run. 0, or -1
 * with *err, and the old content stays.
 */
int metrics_write(const char *path, const char *name, int64_t began_at_ms,
		  const struct run_result *result, int exit_status, struct error *err);
