/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "name.h"

/* One more row of size bytes, zeroed; NULL and *rows as before when there is no memory. */
static void *add_row(void **rows, size_t *count, size_t size)
{
	void *grown = realloc(*rows, (*count + 1) * size);

	if (!grown)
		return NULL;
	*rows = grown;
	return memset((char *)grown + (*count)++ * size, 0, size);
}

struct hold_view *lock_view_add_hold(struct lock_view *view)
{
	void *rows = view->holds, *row = add_row(&rows, &view->hold_count, sizeof(*view->holds));

	view->holds = rows;
	return row;
}

struct waiter_view *lock_view_add_waiter(struct lock_view *view)
{
	void *rows = view->waiters;
	void *row = add_row(&rows, &view->waiter_count, sizeof(*view->waiters));

	view->waiters = rows;
	return row;
}

void lock_view_finish(struct lock_view *view)
{
	free(view->holds);
	free(view->waiters);
	*view = (struct lock_view){ 0 };
}

const char *lock_view_describe(const struct lock_view *view,
			       char text[static HOLDER_DESCRIPTION_SIZE])
{
	static const struct hold_view unknown = { .age_ms = -1 };
	const struct hold_view *hold = view->hold_count ? &view->holds[0] : &unknown;

	return holder_describe(&hold->holder, hold->age_ms, text, HOLDER_DESCRIPTION_SIZE);
}

int name_list_add(struct name_list *list, const char *name, size_t length)
{
	char *copy = strndup(name, length), **grown;
	struct error ignored;

	if (!copy)
		return -1;
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->names[i], copy))
			goto drop;
	if (name_check(copy, &ignored))
		goto drop;
	grown = realloc(list->names, (list->count + 1) * sizeof(*grown));
	if (!grown) {
		free(copy);
		return -1;
	}
	list->names = grown;
	list->names[list->count++] = copy;
	return 0;
drop:
	free(copy);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void name_list_sort(struct name_list *list)
{
	if (list->count)
		qsort(list->names, list->count, sizeof(*list->names), compare_names);
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
	void *rows = findings->rows;
	struct finding *row = add_row(&rows, &findings->count, sizeof(*row));
	va_list args;

	findings->rows = rows;
	if (!row)
		return;
	row->severity = severity;
	snprintf(row->topic, sizeof(row->topic), "%s", topic);
	snprintf(row->remedy, sizeof(row->remedy), "%s", remedy ? remedy : "");
	va_start(args, format);
	vsnprintf(row->text, sizeof(row->text), format, args);
	va_end(args);
}

void findings_finish(struct findings *findings)
{
	free(findings->rows);
	*findings = (struct findings){ 0 };
}
