/* SPDX-License-Identifier: MIT */
/* Names and data of nodes in a directory where other clients may write: one a line. */
#include "fuzz.h"

#include "backends/zookeeper/path.h"
#include "backends/zookeeper/place.h"
#include "backends/zookeeper/state.h"

enum { MOST = 64 };

static void name_of_node(const char *name, struct zk_place *places, size_t *count)
{
	struct zk_place place;

	if (!zk_place_parse(&place, name))
		return;
	INVARIANT(place.mode == HOLD_SLOT ? place.slots > 0 : place.slots == 0);
	INVARIANT(!place.twin || place.maker == ZK_DLOCK);
	zk_place_has_uuid(&place, "01234567-89ab-cdef-0123-456789abcdef");
	if (!place.twin && *count < MOST) {
		place.czxid = (int64_t)*count + 1;
		places[(*count)++] = place;
	}
}

static void data_of_node(const char *text, size_t length)
{
	char again[ZK_STATE_SIZE];
	struct zk_state state, same;

	zk_state_read(&state, text, length);
	INVARIANT(state.since_ms >= 0 && state.until_ms >= 0);
	INVARIANT(state.min_ms >= 0 && state.ttl_ms >= 0);
	if (state.phase == ZK_UNKNOWN)
		return;
	zk_state_read(&same, again, zk_state_write(&state, again));
	INVARIANT(same.phase == state.phase);
	INVARIANT(same.since_ms == state.since_ms && same.until_ms == state.until_ms);
	INVARIANT(same.min_ms == state.min_ms && same.ttl_ms == state.ttl_ms);
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
	struct zk_place places[MOST];
	size_t count = 0;

	while ((line = strsep(&rest, "\n"))) {
		name_of_node(line, places, &count);
		data_of_node(line, strlen(line));
		part_of_path(line);
	}
	zk_places_sort(places, count);
	for (ptrdiff_t i = 0; i < (ptrdiff_t)count; i++) {
		ptrdiff_t blocker = zk_places_blocker(places, i);

		/* one that waits, waits for somebody before it; the first one holds */
		INVARIANT(blocker >= -1 && blocker < i);
		INVARIANT(zk_places_ahead(places, i) >= 0 && zk_places_ahead(places, i) <= i);
		zk_places_any(places, i);
		zk_places_disagree(places, i);
	}
	/* never an exclusive holder beside another one */
	for (ptrdiff_t i = 1; i < (ptrdiff_t)count; i++)
		INVARIANT(places[i].mode != HOLD_EXCLUSIVE || zk_places_blocker(places, i) >= 0);
	free(text);
	return 0;
}
