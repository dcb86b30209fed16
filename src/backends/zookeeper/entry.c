/* SPDX-License-Identifier: MIT */
/* Parsing, writing and ordering the entries of the queue: entry.h. */
#include "entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read a number in the form "%010d". */
static bool read_number(const char *text, int32_t *number)
{
	char again[16], *end;
	long value;

	if (strlen(text) < 10 || strlen(text) > 11)
		return false;
	value = strtol(text, &end, 10);
	if (*end || value < INT32_MIN || value > INT32_MAX)
		return false;
	*number = (int32_t)value;
	snprintf(again, sizeof(again), "%010" PRId32, *number);
	return !strcmp(again, text);
}

/* The last occurrence of mark in name. */
static const char *find_last(const char *name, const char *mark)
{
	const char *found = NULL;

	for (const char *c = name; (c = strstr(c, mark)); c++)
		found = c;
	return found;
}

static const struct mark {
	const char *text;
	enum hold_mode mode;
} marks[] = {
	{ "__READ__", HOLD_SHARED },
	{ "__WRIT__", HOLD_EXCLUSIVE },
	{ "__rlock__", HOLD_SHARED },
	{ "__lock__", HOLD_EXCLUSIVE },
	{ "lock-", HOLD_EXCLUSIVE },
};

/* Returns the text behind prefix, or NULL if text does not begin with it. */
static const char *skip_prefix(const char *text, const char *prefix)
{
	const size_t length = strlen(prefix);

	return strncmp(text, prefix, length) ? NULL : text + length;
}

const char *zk_entry_uuid(const struct zk_entry *entry)
{
	/* Curator calls such names protected. */
	const char *uuid = skip_prefix(entry->name, "_c_");

	return uuid && strlen(uuid) >= ZK_UUID_SIZE && uuid[ZK_UUID_SIZE - 1] == '-' ? uuid : NULL;
}

/* Read what dlock writes between the uuid and the mark: "dlock-", or "slots-S-". */
static bool read_own(struct zk_entry *entry, const char *mark)
{
	const char *uuid = zk_entry_uuid(entry), *own;
	char again[24];
	long slots;

	if (!uuid || uuid + ZK_UUID_SIZE >= mark)
		return true;
	own = uuid + ZK_UUID_SIZE;
	entry->shadow = skip_prefix(own, "dlock-") == mark;
	if (!skip_prefix(own, "slots-"))
		return true;
	slots = strtol(skip_prefix(own, "slots-"), NULL, 10);
	if (slots < 1 || slots > INT32_MAX)
		return false;
	snprintf(again, sizeof(again), "slots-%ld-", slots);
	if (skip_prefix(own, again) != mark)
		return false;
	entry->mode = HOLD_SLOT;
	entry->slots = (int)slots;
	return true;
}

bool zk_entry_parse(struct zk_entry *entry, const char *name)
{
	*entry = (struct zk_entry){ .name = name };
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *mark = find_last(name, marks[i].text);

		if (!mark || !read_number(mark + strlen(marks[i].text), &entry->number))
			continue;
		entry->mode = marks[i].mode;
		return read_own(entry, mark);
	}
	return false;
}

bool zk_entry_has_uuid(const struct zk_entry *entry, const char *uuid)
{
	const char *here = zk_entry_uuid(entry);

	return here && !strncmp(here, uuid, ZK_UUID_SIZE - 1);
}

void zk_entry_name(enum hold_mode mode, int slots, const char *uuid, bool shadow,
		   char name[static ZK_PREFIX_SIZE])
{
	if (shadow)
		snprintf(name, ZK_PREFIX_SIZE, "_c_%.36s-dlock-%s", uuid,
			 mode == HOLD_SHARED ? "lock-" : "__WRIT__");
	else if (mode == HOLD_SLOT)
		snprintf(name, ZK_PREFIX_SIZE, "_c_%.36s-slots-%d-lock-", uuid, slots);
	else
		snprintf(name, ZK_PREFIX_SIZE, "_c_%.36s-%s", uuid,
			 mode == HOLD_SHARED ? "__READ__" : "lock-");
}

void zk_entry_shadow(const struct zk_entry *entry, char name[static ZK_PREFIX_SIZE])
{
	size_t length;

	zk_entry_name(entry->mode, 0, zk_entry_uuid(entry), true, name);
	length = strlen(name);
	snprintf(name + length, ZK_PREFIX_SIZE - length, "%010" PRId32,
		 (int32_t)((uint32_t)entry->number + 1));
}

int32_t zk_number_compare(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a - (uint32_t)b);
}

/*
 * Order serial numbers by their distances from the first one: this works while all are within 2^31
 * of it.
 */
static int compare_entries(const void *a, const void *b, void *first)
{
	const struct zk_entry *p = a, *q = b;
	int32_t base = *(const int32_t *)first;
	int32_t to_p = zk_number_compare(p->number, base);
	int32_t to_q = zk_number_compare(q->number, base);

	if (to_p != to_q)
		return to_p < to_q ? -1 : 1;
	if (p->czxid != q->czxid)
		return p->czxid < q->czxid ? -1 : 1;
	return strcmp(p->name, q->name);
}

bool zk_entries_sort(struct zk_entry *entries, size_t count)
{
	bool same = false;
	int32_t base;

	if (!count)
		return false;
	base = entries[0].number;
	qsort_r(entries, count, sizeof(*entries), compare_entries, &base);
	for (size_t i = 1; i < count && !same; i++)
		same = entries[i].number == entries[i - 1].number;
	return same;
}

ptrdiff_t zk_entries_blocker(const struct zk_entry *entries, ptrdiff_t i)
{
	const struct zk_entry *entry = &entries[i];
	ptrdiff_t j, slots = 0;

	switch (entry->mode) {
	case HOLD_SHARED:
		for (j = i - 1; j >= 0 && entries[j].mode == HOLD_SHARED; j--)
			;
		return j;
	case HOLD_SLOT:
		for (j = i - 1; j >= 0 && entries[j].mode == HOLD_SLOT; j--)
			slots++;
		if (j >= 0 || slots < entry->slots)
			return j;
		return i - 1;
	default:
		return i - 1;
	}
}

ptrdiff_t zk_entries_unblocked(const struct zk_entry *entries, ptrdiff_t count)
{
	ptrdiff_t i = 0;

	while (i < count && zk_entries_blocker(entries, i) < 0)
		i++;
	return i;
}
