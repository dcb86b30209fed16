/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "name.h"

#define PINGS 10
/* With more difference, people see that fences and ages do not fit the clock of their host. */
#define CLOCK_SKEW_MS 1000

struct hold_view *lock_view_add_hold(struct lock_view *view)
{
	struct hold_view *hold;

	view->holds = memory_resize(view->holds, view->hold_count + 1, sizeof(*hold));
	hold = &view->holds[view->hold_count++];
	*hold = (struct hold_view){ .age_ms = -1, .expires_ms = -1 };
	return hold;
}

struct waiter_view *lock_view_add_waiter(struct lock_view *view)
{
	struct waiter_view *waiter;

	view->waiters = memory_resize(view->waiters, view->waiter_count + 1, sizeof(*waiter));
	waiter = &view->waiters[view->waiter_count++];
	*waiter = (struct waiter_view){ .waiting_ms = -1 };
	return waiter;
}

void lock_view_finish(struct lock_view *view)
{
	free(view->holds);
	free(view->waiters);
	name_list_finish(&view->ignored);
	*view = (struct lock_view){ 0 };
}

const struct hold_view *lock_view_first(const struct lock_view *view)
{
	static const struct hold_view unknown = { .age_ms = -1 };

	return view->hold_count ? &view->holds[0] : &unknown;
}

void name_list_add(struct name_list *list, const char *name, size_t length)
{
	char *copy = memory_copy_part(name, length);
	struct error ignored;

	if (name_check(copy, &ignored)) {
		free(copy);
		return;
	}
	/* The room doubles whenever it is full. */
	if (!(list->count & (list->count - 1)))
		list->names = memory_resize(list->names, list->count ? 2 * list->count : 1,
					    sizeof(*list->names));
	list->names[list->count++] = copy;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void name_list_sort(struct name_list *list)
{
	size_t kept = 0;

	if (list->count)
		qsort(list->names, list->count, sizeof(*list->names), compare_names);
	for (size_t i = 0; i < list->count; i++) {
		if (kept && !strcmp(list->names[kept - 1], list->names[i]))
			free(list->names[i]);
		else
			list->names[kept++] = list->names[i];
	}
	list->count = kept;
}

void name_list_finish(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct name_list){ 0 };
}

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
	/* Half of the time that a request has. */
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
