/* SPDX-License-Identifier: MIT */
/* Writes the file of run --metrics, and status --prometheus, in the text format of Prometheus. */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "json.h"
#include "session.h"

struct metric {
	const char *name, *help;
	int64_t value;		/* -1: not known, left out */
	bool is_ms;		/* written in seconds */
};

/* Each metric is a gauge. */
static void put_head(FILE *file, const char *prefix, const struct metric *metric)
{
	fprintf(file, "# HELP %s%s %s\n# TYPE %s%s gauge\n", prefix, metric->name, metric->help,
		prefix, metric->name);
}

/* Write a sample with the labels name and label, unless its value is not known. */
static void put_sample(FILE *file, const char *prefix, const struct metric *metric,
		       const char *lock, const char *label, const char *label_value)
{
	if (metric->value < 0)
		return;
	/* A label is escaped as in JSON, but for controls, which no label has. */
	fprintf(file, "%s%s{name=", prefix, metric->name);
	json_string(file, lock);
	fprintf(file, ",%s=", label);
	json_string(file, label_value);
	fprintf(file, "} %" PRId64, metric->is_ms ? metric->value / 1000 : metric->value);
	if (metric->is_ms)
		fprintf(file, ".%03d", (int)(metric->value % 1000));
	putc('\n', file);
}

static void put_all(FILE *file, const char *name, int64_t began_at_ms,
		    const struct run_result *result, int exit_status)
{
	const struct run_facts *facts = &result->facts;
	const bool obtained = facts->acquired_ms;
	const int64_t waited_to_ms = obtained ? facts->acquired_ms : facts->over_ms;
	const struct metric rows[] = {
		{ "start_timestamp_seconds", "When dlock run was started, in seconds since 1970.",
		  began_at_ms, true },
		{ "end_timestamp_seconds", "When dlock run ended, in seconds since 1970.",
		  clock_wall_ms(), true },
		{ "exit_status", "The exit status of dlock run, which is that of the command if it "
		  "ran.", exit_status, false },
		{ "obtained", "1 if the lock was obtained, else 0.", obtained, false },
		{ "busy", "1 if the lock was not obtained in the time to wait, else 0.",
		  result->end == RUN_NOT_OBTAINED, false },
		{ "overdue", "1 if the command ran too long and was ended, else 0.",
		  result->end == RUN_OVERDUE, false },
		{ "lost", "1 if the lock was lost while it was held, else 0.",
		  result->end == RUN_LOST, false },
		{ "wait_seconds", "How long dlock waited for the lock.",
		  facts->over_ms ? waited_to_ms - facts->began_ms : -1, true },
		{ "hold_seconds", "How long the lock was held.",
		  obtained ? facts->over_ms - facts->acquired_ms : -1, true },
		{ "fence", "The fence of the lock.",
		  obtained && facts->fence ? (int64_t)facts->fence : -1, false },
	};
	char host[HOLDER_HOST_SIZE];

	holder_host(host);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].value < 0)
			continue;
		put_head(file, "dlock_last_", &rows[i]);
		put_sample(file, "dlock_last_", &rows[i], name, "host", host);
	}
}

enum { LOCK_METRICS = 5 };

/* Fill rows with what is seen of a lock. */
static void measure_lock(const struct rows *view, struct metric rows[static LOCK_METRICS])
{
	int64_t age_ms = -1, left_ms = CLOCK_NEVER, waited_ms = -1;

	for (size_t i = 0; i < view->hold_count; i++) {
		const struct row *hold = &view->holds[i];

		/* Not of a lock that is only kept, whose command has ended. */
		if (!hold->holder.kept_ms && hold->age_ms > age_ms)
			age_ms = hold->age_ms;
		if (hold->left_ms >= 0)
			left_ms = clock_earlier(left_ms, hold->left_ms);
	}
	for (size_t i = 0; i < view->waiter_count; i++)
		if (view->waiters[i].age_ms > waited_ms)
			waited_ms = view->waiters[i].age_ms;
	memcpy(rows, (struct metric[]){
		{ "held", "1 if somebody holds the lock, else 0.", view->hold_count > 0, false },
		{ "age_seconds", "How long the first of its holders has had it.", age_ms, true },
		{ "expires_seconds", "Until the first of its leases ends, unless it is renewed.",
		  left_ms == CLOCK_NEVER ? -1 : left_ms, true },
		{ "waiters", "How many wait for the lock.", (int64_t)view->waiter_count, false },
		{ "oldest_wait_seconds", "How long the one that has waited longest has waited.",
		  waited_ms, true },
	}, LOCK_METRICS * sizeof(*rows));
}

void metrics_print_locks(const char *location, const struct locks *locks)
{
	struct metric rows[LOCK_METRICS];

	/* All samples of a metric stand together. */
	for (int metric = 0; metric < LOCK_METRICS; metric++) {
		measure_lock(&(struct rows){ 0 }, rows);
		put_head(stdout, "dlock_lock_", &rows[metric]);
		for (size_t i = 0; i < locks->names.count; i++) {
			measure_lock(&locks->views[i], rows);
			put_sample(stdout, "dlock_lock_", &rows[metric], locks->names.names[i],
				   "backend", location);
		}
	}
}

int metrics_write(const char *path, const char *name, int64_t began_at_ms,
		  const struct run_result *result, int exit_status, struct error *err)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	struct stat st;
	char *new_path;
	FILE *file;
	int fd, failed;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return error_set(err, ERROR_INTERNAL, 0,
				 "it is not a regular file, and is left as it is");
	new_path = memory_format("%.*s.%s.XXXXXX", (int)(base - path), path, base);
	fd = mkostemp(new_path, O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (file)
		put_all(file, name, began_at_ms, result, exit_status);
	/* Some file systems report only at the end that they have no room. */
	failed = !file || fflush(file) || ferror(file) || fchmod(fd, 0644) || fclose(file) ||
		 rename(new_path, path);
	if (failed)
		error_set(err, ERROR_INTERNAL, errno, "cannot write it");
	if (failed && fd >= 0)
		unlink(new_path);
	free(new_path);
	return failed ? -1 : 0;
}
