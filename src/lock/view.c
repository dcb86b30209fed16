/* SPDX-License-Identifier: MIT */
/* Views of a lock, and findings of `dlock check`: view.h. */
#include "view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lease.h"

#define PINGS 10
/* With a larger difference, people notice that fences and ages disagree with their clock. */
#define CLOCK_SKEW_MS 1000

static struct hold_view *add_view(struct hold_view **views, size_t *count)
{
	*views = memory_resize(*views, *count + 1, sizeof(**views));
	return &(*views)[(*count)++];
}

/* Returns when the row ends: for a session, when its process ends it by its record. */
static int64_t expires_in(const struct row *row, const struct holder *holder)
{
	int64_t left_ms = row->left_ms;

	if (left_ms < 0 && row->holds && holder->until_ms) {
		left_ms = holder->until_ms - clock_wall_ms();
		left_ms = left_ms < 0 ? 0 : left_ms;
	}
	return lease_shown(left_ms);
}

static void add_row(struct lock_view *view, const struct row *row)
{
	struct hold_view *to = row->holds ? add_view(&view->holds, &view->hold_count)
					  : add_view(&view->waiters, &view->waiter_count);

	*to = (struct hold_view){ .mode = row->mode, .slots = row->slots, .fence = row->fence,
				  .age_ms = lease_shown(row->age_ms), .mine = row->mine };
	holder_decode(&to->holder, row->text, strlen(row->text));
	to->expires_ms = expires_in(row, &to->holder);
	memcpy(to->id, row->id, ROW_ID_SIZE);
}

void lock_view_make(struct lock_view *view, struct rows *rows)
{
	*view = (struct lock_view){ .fence = rows->fence, .ignored = rows->ignored };
	rows->ignored = (struct name_list){ 0 };
	for (size_t i = 0; i < rows->count; i++)
		add_row(view, &rows->rows[i]);
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
	return view->hold_count ? &view->holds[0] : NULL;
}

int64_t lock_view_ahead(const struct lock_view *view)
{
	for (size_t i = 0; i < view->waiter_count; i++)
		if (view->waiters[i].mine)
			return (int64_t)i;
	return -1;
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
