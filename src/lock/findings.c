/* SPDX-License-Identifier: MIT */
/* Findings of `dlock check`: findings.h. */
#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "backend.h"

#define PINGS	      10
/* With a larger difference, people notice that fences and ages disagree with their clock. */
#define CLOCK_SKEW_MS 1000

void findings_add(struct findings *findings, enum severity severity, const char *topic,
		  const char *remedy, const char *format, ...)
{
	struct finding *row;
	va_list args;

	findings->rows = memory_resize(findings->rows, findings->count + 1, sizeof(*row));
	row = &findings->rows[findings->count++];
	row->severity = severity;
	snprintf(row->topic, sizeof(row->topic), "%s", topic);
	snprintf(row->remedy, sizeof(row->remedy), "%s", remedy ? remedy : "");
	va_start(args, format);
	vsnprintf(row->text, sizeof(row->text), format, args);
	va_end(args);
}

void findings_add_rules(struct findings *findings, const struct finding_rule rules[],
			size_t count)
{
	const char *topic = "";

	for (size_t i = 0; i < count; i++) {
		if (!rules[i].applies || !strcmp(rules[i].topic, topic))
			continue;
		topic = rules[i].topic;
		findings_add(findings, rules[i].severity, topic, rules[i].remedy, "%s%.180s%s",
			     rules[i].before, rules[i].fact, rules[i].behind);
	}
}

int findings_add_round_trip(struct findings *findings, struct backend *backend,
			    int (*ping)(struct backend *backend, struct error *err),
			    const char *where, struct error *err)
{
	int64_t start, took, least = INT64_MAX, most = 0, sum = 0;
	bool slow;

	/* The first request may have to connect and log in. */
	if (ping(backend, err))
		return -1;
	for (int i = 0; i < PINGS; i++) {
		start = clock_read_us(CLOCK_BOOTTIME);
		if (ping(backend, err))
			return -1;
		took = clock_read_us(CLOCK_BOOTTIME) - start;
		least = took < least ? took : least;
		most = took > most ? took : most;
		sum += took;
	}
	/* Half of the timeout of a request. */
	slow = most > backend->timeout_ms * 500;
	findings_add(findings, slow ? FINDING_WARNING : FINDING_OK, "round-trip",
		     slow ? "raise ?timeout=, and take a longer --ttl" : NULL,
		     "%.2f ms on average, %.2f to %.2f%s", (double)sum / PINGS / 1000,
		     (double)least / 1000, (double)most / 1000, where);
	return 0;
}

void findings_add_skew(struct findings *findings, int64_t skew_ms)
{
	const bool off = llabs(skew_ms) > CLOCK_SKEW_MS;

	findings_add(findings, off ? FINDING_NOTE : FINDING_OK, "clock",
		     off ? "synchronise the clocks (NTP); leases do not depend on it" : NULL,
		     "%+lld ms from the clock of this host", (long long)skew_ms);
}

void findings_finish(struct findings *findings)
{
	free(findings->rows);
	*findings = (struct findings){ 0 };
}
