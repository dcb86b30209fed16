/* SPDX-License-Identifier: MIT */
/* Names and data of nodes in a directory where other clients may write: one a line. */
#include "fuzz.h"

#include "backends/zookeeper/layout.h"

enum { MOST = 64 };

static void name_of_node(const char *name, struct zk_entry *entries, size_t *count)
{
	struct zk_entry entry;

	if (!zk_entry_parse(&entry, name))
		return;
	INVARIANT(entry.mode == HOLD_SLOT ? entry.slots > 0 : entry.slots == 0);
	zk_entry_has_uuid(&entry, "01234567-89ab-cdef-0123-456789abcdef");
	if (!entry.shadow && *count < MOST) {
		entry.czxid = (int64_t)*count + 1;
		entries[(*count)++] = entry;
	}
}

static void data_of_node(const char *text)
{
	char again[ZK_RECORD_SIZE];
	struct zk_record record, same;

	zk_record_read(&record, text, "01234567-89ab-cdef-0123-456789abcdef");
	INVARIANT(record.taken_ms >= 0);
	if (record.foreign)
		return;
	zk_record_write(again, NULL, record.taken_ms, "");
	zk_record_read(&same, again, "");
	INVARIANT(!same.foreign && same.taken_ms == record.taken_ms);
}

static void part_of_path(const char *component)
{
	char name[ZK_COMPONENT_SIZE], again[ZK_COMPONENT_SIZE];

	if (!zk_path_decode(component, name, sizeof(name)))
		return;
	INVARIANT(name[0] && strlen(name) <= 200);
	zk_path_encode(name, again);
	INVARIANT(!strcmp(again, component));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *line;
	struct zk_entry entries[MOST];
	size_t count = 0;

	while ((line = strsep(&rest, "\n"))) {
		name_of_node(line, entries, &count);
		data_of_node(line);
		part_of_path(line);
	}
	zk_entries_sort(entries, count);
	for (ptrdiff_t i = 0; i < (ptrdiff_t)count; i++) {
		ptrdiff_t blocker = zk_entries_blocker(entries, i);

		/* one that waits, waits for somebody before it; the first one holds */
		INVARIANT(blocker >= -1 && blocker < i);
		INVARIANT(blocker < 0 || (zk_entries_watched(entries, i, blocker) >= 0 &&
					  zk_entries_watched(entries, i, blocker) <= blocker));
	}
	/* never an exclusive holder beside another one */
	for (ptrdiff_t i = 1; i < (ptrdiff_t)count; i++)
		INVARIANT(entries[i].mode != HOLD_EXCLUSIVE || zk_entries_blocker(entries, i) >= 0);
	free(text);
	return 0;
}
