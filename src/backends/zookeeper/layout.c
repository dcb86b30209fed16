/* SPDX-License-Identifier: MIT */
/* Names of directories, names of entries and their order, and the data of nodes: layout.h. */
#include "layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lock/hold.h"
#include "lock/uri.h"

/* ---- directories ---- */

/*
 * Does the server refuse the character that these bytes encode? Its PathUtils.validatePath()
 * looks at UTF-16, where all characters beyond U+FFFF are surrogates.
 */
static bool is_refused(const unsigned char *c, size_t length)
{
	unsigned code;

	if (length != 3)
		return length == 4;
	code = (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
	return (code >= 0xe000 && code <= 0xf8ff) || code >= 0xfff0;
}

void zk_path_encode(const char *name, char component[static ZK_COMPONENT_SIZE])
{
	bool dots = !strcmp(name, ".") || !strcmp(name, ".."), escape;
	size_t left = strlen(name), length;
	char *out = component;

	for (; left; name += length, left -= length) {
		length = text_char(name, left, NULL);
		if (!length)
			length = 1;	/* no valid UTF-8: bytes stand for themselves */
		escape = *name == '/' || *name == '%' || dots ||
			 is_refused((const unsigned char *)name, length);
		for (size_t i = 0; i < length; i++)
			out += sprintf(out, escape ? "%%%02X" : "%c", (unsigned char)name[i]);
	}
	*out = '\0';
}

bool zk_path_decode(const char *component, char *name, size_t size)
{
	char again[ZK_COMPONENT_SIZE];
	size_t length = strlen(component);
	ptrdiff_t decoded;

	if (length >= size)
		return false;
	memcpy(name, component, length + 1);
	decoded = uri_decode(name, length);
	if (decoded <= 0 || decoded > (ZK_COMPONENT_SIZE - 1) / 3)
		return false;
	name[decoded] = '\0';
	zk_path_encode(name, again);
	return !strcmp(again, component);
}

void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE])
{
	char text[96], id[ROW_ID_SIZE];

	snprintf(text, sizeof(text), "dlock node %.64s", token);
	row_id(text, id);
	snprintf(uuid, ZK_UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16,
		 id + 20);
}

/* ---- names of entries ---- */

/* Read a number in the form "%010d". */
static bool read_number(const char *text, int32_t *number)
{
	char again[24];

	*number = (int32_t)strtol(text, NULL, 10);
	snprintf(again, sizeof(again), "%010" PRId32, *number);
	return !strcmp(again, text);
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

/* Find the uuid in the name of an entry or shadow. NULL: there is none. */
static const char *find_uuid(const char *name)
{
	/* Curator calls such names protected. */
	const char *uuid = skip_prefix(name, "_c_");

	return uuid && strlen(uuid) >= ZK_UUID_SIZE && uuid[ZK_UUID_SIZE - 1] == '-' ? uuid : NULL;
}

/* Read what dlock writes between the uuid and the mark: "dlock-", or "slots-S-". */
static bool read_own(struct zk_entry *entry, const char *mark)
{
	const char *own = entry->uuid ? entry->uuid + ZK_UUID_SIZE : mark;
	char again[32];

	if (own >= mark)
		return true;
	entry->shadow = skip_prefix(own, "dlock-") == mark;
	if (sscanf(own, "slots-%d", &entry->slots) != 1)
		return true;
	snprintf(again, sizeof(again), "slots-%d-", entry->slots);
	entry->mode = HOLD_SLOT;
	return entry->slots >= 1 && skip_prefix(own, again) == mark;
}

bool zk_entry_parse(struct zk_entry *entry, const char *name)
{
	*entry = (struct zk_entry){ .name = name, .uuid = find_uuid(name) };
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		/* A number can only follow the last one of equal marks. */
		for (const char *mark = name; (mark = strstr(mark, marks[i].text)); mark++)
			if (read_number(mark + strlen(marks[i].text), &entry->number)) {
				entry->mode = marks[i].mode;
				return read_own(entry, mark);
			}
	return false;
}

bool zk_entry_has_uuid(const struct zk_entry *entry, const char *uuid)
{
	return entry->uuid && !strncmp(entry->uuid, uuid, ZK_UUID_SIZE - 1);
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
	char prefix[ZK_PREFIX_SIZE];

	zk_entry_name(entry->mode, 0, entry->uuid, true, prefix);
	snprintf(name, ZK_PREFIX_SIZE, "%.68s%010" PRId32, prefix,
		 (int32_t)((uint32_t)entry->number + 1));
}

/* ---- the order of entries ---- */

/*
 * Order serial numbers (RFC 1982) by their distances from the first one: this works while all are
 * within 2^31 of it.
 */
static int compare_entries(const void *a, const void *b, void *first)
{
	const struct zk_entry *p = a, *q = b;
	const uint32_t base = *(const uint32_t *)first;
	const int32_t to_p = (int32_t)((uint32_t)p->number - base);
	const int32_t to_q = (int32_t)((uint32_t)q->number - base);

	if (to_p != to_q)
		return to_p < to_q ? -1 : 1;
	if (p->czxid != q->czxid)
		return p->czxid < q->czxid ? -1 : 1;
	return strcmp(p->name, q->name);
}

bool zk_entries_sort(struct zk_entry *entries, size_t count)
{
	bool same = false;
	uint32_t base;

	if (!count)
		return false;
	base = (uint32_t)entries[0].number;
	qsort_r(entries, count, sizeof(*entries), compare_entries, &base);
	for (size_t i = 1; i < count && !same; i++)
		same = entries[i].number == entries[i - 1].number;
	return same;
}

ptrdiff_t zk_entries_blocker(const struct zk_entry *entries, ptrdiff_t i)
{
	return hold_blocker(&entries[0].mode, sizeof(*entries), i, entries[i].slots);
}

ptrdiff_t zk_entries_watched(const struct zk_entry *entries, ptrdiff_t i, ptrdiff_t blocker)
{
	/* Only slots before a slot: as long as the last S of them are there, it waits. */
	return blocker >= 0 && entries[blocker].mode == HOLD_SLOT && entries[i].mode == HOLD_SLOT
		       ? i - entries[i].slots
		       : blocker;
}

/* ---- data ---- */

void zk_record_write(char data[static ZK_RECORD_SIZE], const char *uuid, int64_t taken_ms,
		     const char *text)
{
	snprintf(data, ZK_RECORD_SIZE, "taken=%" PRId64 "&%s%s%s%s", taken_ms,
		 uuid ? "uuid=" : "", uuid ? uuid : "", uuid ? "&" : "", text);
}

void zk_record_read(struct zk_record *record, const char *data, const char *uuid)
{
	char own[ZK_UUID_SIZE] = "";
	int64_t taken_ms = 0;
	int length = 0;

	/* The length is set only if all before it is there. */
	if (data && sscanf(data, "taken=%" SCNd64 "&%n", &taken_ms, &length) == 1 && length)
		sscanf(data + length, "uuid=%36[^&]", own);
	record->foreign = !length;
	record->taken_ms = record->foreign || taken_ms < 0 ? 0 : taken_ms;
	record->mine = own[0] && !strcmp(own, uuid);
}
