/* SPDX-License-Identifier: MIT */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/textfile.h"
#include "lock/holder.h"

/* The labels of all metrics: {name="...",host="..."}. */
struct labels {
	const char *name;
	char host[HOLDER_HOST_SIZE];
};

/* The value of a label, in which the format escapes '\', '"' and a line's end. */
static void put_label(FILE *file, const char *value)
{
	putc('"', file);
	for (; *value; value++) {
		if (*value == '\n') {
			fputs("\\n", file);
			continue;
		}
		if (*value == '\\' || *value == '"')
			putc('\\', file);
		putc(*value, file);
	}
	putc('"', file);
}

/* All of a metric up to its value. */
static void begin(FILE *file, const struct labels *labels, const char *metric, const char *help)
{
	fprintf(file, "# HELP dlock_last_%s %s\n# TYPE dlock_last_%s gauge\ndlock_last_%s{name=",
		metric, help, metric, metric);
	put_label(file, labels->name);
	fputs(",host=", file);
	put_label(file, labels->host);
	fputs("} ", file);
}

static void put_number(FILE *file, const struct labels *labels, const char *metric, uint64_t value,
		       const char *help)
{
	begin(file, labels, metric, help);
	fprintf(file, "%" PRIu64 "\n", value);
}

static void put_seconds(FILE *file, const struct labels *labels, const char *metric, int64_t ms,
			const char *help)
{
	begin(file, labels, metric, help);
	fprintf(file, "%" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
}

static void put_lock(FILE *file, const struct labels *labels, const struct run_result *result)
{
	const struct run_facts *facts = &result->facts;

	put_number(file, labels, "obtained", facts->obtained_ms != 0,
		   "1 if the lock was obtained, else 0.");
	put_number(file, labels, "busy",
		   result->end == RUN_NOT_OBTAINED && !result->replaced,
		   "1 if the lock was not obtained in the time to wait, else 0.");
	put_number(file, labels, "replaced", result->replaced,
		   "1 if a newer waiter sent this one away, else 0.");
	put_number(file, labels, "overdue", result->end == RUN_OVERDUE,
		   "1 if the command ran too long and was ended, else 0.");
	put_number(file, labels, "lost", result->end == RUN_LOST,
		   "1 if the lock was lost while it was held, else 0.");
	if (facts->over_ms)
		put_seconds(file, labels, "wait_seconds",
			    (facts->obtained_ms ? facts->obtained_ms : facts->over_ms) -
			    facts->began_ms, "How long dlock waited for the lock.");
	if (!facts->obtained_ms)
		return;
	put_seconds(file, labels, "hold_seconds", facts->over_ms - facts->obtained_ms,
		    "How long the lock was held.");
	if (facts->fence)
		put_number(file, labels, "fence", facts->fence, "The fence of the lock.");
}

static void put_all(FILE *file, const struct metrics *metrics)
{
	struct labels labels = { .name = metrics->name };

	holder_host(labels.host);
	put_seconds(file, &labels, "start_timestamp_seconds", metrics->began_at_ms,
		    "When dlock run was started, in seconds since 1970.");
	put_seconds(file, &labels, "end_timestamp_seconds", clock_wall_ms(),
		    "When dlock run ended, in seconds since 1970.");
	put_number(file, &labels, "exit_status", (uint64_t)metrics->exit_status,
		   "The exit status of dlock run, which is that of the command if it ran.");
	put_lock(file, &labels, metrics->result);
}

int metrics_write(const char *path, const struct metrics *metrics, struct error *err)
{
	char *text;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	int failed;

	if (!file)
		memory_gone();
	put_all(file, metrics);
	if (fclose(file))
		memory_gone();
	failed = textfile_replace(path, text, length, err);
	free(text);
	return failed;
}
