/* SPDX-License-Identifier: MIT */
/* The containers for what is known of locks: rows, and names. */
#include "backend.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "name.h"

void row_id(const char *token, char id[static ROW_ID_SIZE])
{
	unsigned char digest[SHA256_SIZE];

	sha256(token, strlen(token), digest);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		snprintf(id + 2 * i, 3, "%02x", digest[i]);
}

struct row *rows_add(struct rows *rows, bool holds, const char *text, size_t length)
{
	struct row **list = holds ? &rows->holds : &rows->waiters, *row;
	size_t *count = holds ? &rows->hold_count : &rows->waiter_count;

	*list = memory_resize(*list, *count + 1, sizeof(**list));
	row = &(*list)[(*count)++];
	*row = (struct row){ .age_ms = -1, .left_ms = -1 };
	holder_decode(&row->holder, text, length);
	return row;
}

int64_t rows_age(int64_t since_ms)
{
	const int64_t now_ms = clock_wall_ms();

	return since_ms <= 0 ? -1 : since_ms > now_ms ? 0 : now_ms - since_ms;
}

int64_t rows_ahead(const struct rows *rows)
{
	for (size_t i = 0; i < rows->waiter_count; i++)
		if (rows->waiters[i].mine)
			return (int64_t)i;
	return -1;
}

void rows_finish(struct rows *rows)
{
	free(rows->holds);
	free(rows->waiters);
	name_list_finish(&rows->names);
	name_list_finish(&rows->ignored);
	*rows = (struct rows){ 0 };
	/* The queue may be long, and a process that has read it often sleeps next. */
	malloc_trim(0);
}

void name_list_add(struct name_list *list, const char *name, size_t length)
{
	char *copy = memory_copy_part(name, length);
	struct error ignored;

	if (name_check(copy, &ignored)) {
		free(copy);
		return;
	}
	list->names = memory_resize(list->names, list->count + 1, sizeof(*list->names));
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
