/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "backends/zookeeper/path.h"
#include "backends/zookeeper/place.h"
#include "backends/zookeeper/state.h"
#include "unit.h"

#define U "01234567-89ab-cdef-0123-456789abcdef"

/* ---- names of nodes */

static const struct {
	const char *name;
	enum hold_mode mode;
	enum zk_maker maker;
	int32_t number;
	int slots;
	bool twin;
} good[] = {
	{ "_c_" U "-lock-0000000000", HOLD_EXCLUSIVE, ZK_CURATOR, 0, 0, false },
	{ "_c_" U "-lock-2147483647", HOLD_EXCLUSIVE, ZK_CURATOR, INT32_MAX, 0, false },
	{ "_c_" U "-lock--2147483648", HOLD_EXCLUSIVE, ZK_CURATOR, INT32_MIN, 0, false },
	{ "_c_" U "-lock--000000001", HOLD_EXCLUSIVE, ZK_CURATOR, -1, 0, false },
	{ "_c_" U "-__READ__0000000007", HOLD_SHARED, ZK_CURATOR, 7, 0, false },
	{ "_c_" U "-__WRIT__0000000007", HOLD_EXCLUSIVE, ZK_CURATOR, 7, 0, false },
	{ "_c_" U "-slots-3-lock-0000000007", HOLD_SLOT, ZK_DLOCK, 7, 3, false },
	{ "_c_" U "-dlock-__WRIT__0000000008", HOLD_EXCLUSIVE, ZK_DLOCK, 8, 0, true },
	{ "_c_" U "-dlock-lock-0000000008", HOLD_EXCLUSIVE, ZK_DLOCK, 8, 0, true },
	/* Curator without protection; what else stands before the mark is not looked at */
	{ "lock-0000000009", HOLD_EXCLUSIVE, ZK_CURATOR, 9, 0, false },
	{ "my-lock-0000000009", HOLD_EXCLUSIVE, ZK_CURATOR, 9, 0, false },
	{ "0123456789abcdef0123456789abcdef__lock__0000000010", HOLD_EXCLUSIVE, ZK_KAZOO, 10,
	  0, false },
	{ "0123456789abcdef0123456789abcdef__rlock__-000000010", HOLD_SHARED, ZK_KAZOO, -10,
	  0, false },
};

static const char *const bad[] = {
	"", "lock", "lock-", "notes", "lock-1", "lock-00000000001", "lock-2147483648",
	"lock--2147483649", "lock-000000000x", "lock- 000000001", "lock-+000000001",
	"lock-0000000001 ", "lock--000000000", "lock-99999999999", "__lock__", "0000000001",
	"_c_" U "-lock-", "_c_" U "-lease-0000000001", "_c_" U "-slots-0-lock-0000000001",
	"_c_" U "-slots-03-lock-0000000001", "_c_" U "-slots--3-lock-0000000001",
	"_c_" U "-slots-3x-lock-0000000001", "_c_" U "-slots-99999999999-lock-0000000001",
};

static void test_names(void)
{
	struct zk_place place;
	char name[ZK_PREFIX_SIZE + 16], again[ZK_PREFIX_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("%s", good[i].name);
		CHECK(zk_place_parse(&place, good[i].name));
		CHECK_STR(place.name, good[i].name);
		CHECK_INT(place.number, good[i].number);
		CHECK_INT(place.mode, good[i].mode);
		CHECK_INT(place.maker, good[i].maker);
		CHECK_INT(place.slots, good[i].slots);
		CHECK_INT(place.twin, good[i].twin);
		CHECK_INT(zk_place_has_uuid(&place, U), !strncmp(good[i].name, "_c_", 3));
		CHECK(!zk_place_has_uuid(&place, "ffffffff-89ab-cdef-0123-456789abcdef"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("'%s'", bad[i]);
		CHECK(!zk_place_parse(&place, bad[i]));
	}
	for (int mode = HOLD_EXCLUSIVE; mode <= HOLD_SLOT; mode++)
		for (int twin = 0; twin < 2; twin++) {
			zk_place_name((enum hold_mode)mode, 4321, U, twin, again);
			snprintf(name, sizeof(name), "%s%010d", again, -12);
			unit_case("%s", name);
			CHECK(zk_place_parse(&place, name));
			CHECK_INT(place.twin, twin);
			CHECK(twin || place.mode == (enum hold_mode)mode);
			CHECK_INT(place.slots, mode == HOLD_SLOT && !twin ? 4321 : 0);
			CHECK_INT(place.number, -12);
			CHECK(zk_place_has_uuid(&place, U));
		}
}

/* ---- the order */

static void test_numbers(void)
{
	unit_case("numbers");
	CHECK(zk_number_compare(1, 2) < 0);
	CHECK(zk_number_compare(2, 1) > 0);
	CHECK_INT(zk_number_compare(-7, -7), 0);
	CHECK(zk_number_compare(-1, 0) < 0);
	CHECK(zk_number_compare(INT32_MAX, INT32_MIN) < 0);
	CHECK(zk_number_compare(INT32_MIN, INT32_MAX) > 0);
	CHECK(zk_number_compare(INT32_MAX - 5, INT32_MIN + 5) < 0);
	CHECK(zk_number_compare(5, INT32_MIN) < 0);
}

/* Every start order leads to the same one; those of equal numbers were made in turn. */
static void sorted(const int32_t *numbers, const int64_t *czxids, size_t count, bool same)
{
	struct zk_place places[8];

	for (size_t turn = 0; turn < count; turn++) {
		for (size_t i = 0; i < count; i++) {
			size_t from = (i * 3 + turn) % count;

			places[i] = (struct zk_place){ .name = "x", .number = numbers[from],
						       .czxid = czxids ? czxids[from] : 0 };
		}
		CHECK_INT(zk_places_sort(places, count), same);
		for (size_t i = 0; i < count; i++) {
			CHECK_INT(places[i].number, numbers[i]);
			CHECK_INT(places[i].czxid, czxids ? czxids[i] : 0);
		}
	}
}

static void test_order(void)
{
	static const int32_t plain[] = { -2, -1, 0, 1, 2 };
	static const int32_t over[] = { INT32_MAX - 1, INT32_MAX, INT32_MIN, INT32_MIN + 1,
					INT32_MIN + 9 };
	static const int32_t same[] = { INT32_MAX - 1, INT32_MAX, INT32_MAX, INT32_MAX };
	static const int64_t czxids[] = { 100, 7, 8, 9 };

	unit_case("order");
	sorted(plain, NULL, ARRAY_SIZE(plain), false);
	unit_case("order across the overflow");
	sorted(over, NULL, ARRAY_SIZE(over), false);
	unit_case("order of equal numbers");
	sorted(same, czxids, ARRAY_SIZE(same), true);
	unit_case("nobody");
	CHECK(!zk_places_sort(NULL, 0));
}

/* ---- who waits for whom: each letter is a place, x, r, or 1 to 9 slots */

static const struct {
	const char *line;
	int blockers[8];	/* of each; -1: it holds */
} lines[] = {
	{ "x", { -1 } },
	{ "xxx", { -1, 0, 1 } },
	{ "rrr", { -1, -1, -1 } },
	{ "rrxrrx", { -1, -1, 1, 2, 2, 4 } },
	{ "xrr", { -1, 0, 0 } },
	{ "222", { -1, -1, 1 } },
	{ "3333x3", { -1, -1, -1, 2, 3, 4 } },
	{ "x2", { -1, 0 } },
	{ "2x", { -1, 0 } },
	{ "r2", { -1, 0 } },
	{ "2r", { -1, 0 } },
	{ "1111", { -1, 0, 1, 2 } },
};

static size_t line_up(const char *line, struct zk_place *places)
{
	size_t count = strlen(line);

	for (size_t i = 0; i < count; i++) {
		places[i] = (struct zk_place){ .name = "", .number = (int32_t)i };
		places[i].mode = line[i] == 'x' ? HOLD_EXCLUSIVE :
				 line[i] == 'r' ? HOLD_SHARED : HOLD_SLOT;
		places[i].slots = places[i].mode == HOLD_SLOT ? line[i] - '0' : 0;
	}
	return count;
}

static void test_lines(void)
{
	struct zk_place places[8];

	for (size_t k = 0; k < ARRAY_SIZE(lines); k++) {
		size_t count = line_up(lines[k].line, places);

		for (size_t i = 0; i < count; i++) {
			unit_case("place %zu of %s", i, lines[k].line);
			CHECK_INT(zk_places_blocker(places, (ptrdiff_t)i), lines[k].blockers[i]);
		}
	}
	unit_case("how many do not hold before it");
	line_up("xxx", places);
	CHECK_INT(zk_places_ahead(places, 0), 0);
	CHECK_INT(zk_places_ahead(places, 1), 0);
	CHECK_INT(zk_places_ahead(places, 2), 1);
	line_up("rrxr", places);
	CHECK_INT(zk_places_ahead(places, 2), 0);
	CHECK_INT(zk_places_ahead(places, 3), 1);
	line_up("2222", places);
	CHECK_INT(zk_places_ahead(places, 2), 0);
	CHECK_INT(zk_places_ahead(places, 3), 1);
	unit_case("slots that disagree");
	line_up("2r3", places);
	CHECK_INT(zk_places_disagree(places, 2), 2);
	CHECK_INT(zk_places_disagree(places, 1), 0);
	line_up("22", places);
	CHECK_INT(zk_places_disagree(places, 1), 0);
}

/* ---- what is in the twin */

static void test_state(void)
{
	const struct zk_state full = { .phase = ZK_KEPT, .since_ms = 1795232714787,
				       .until_ms = INT64_MAX, .min_ms = 1, .ttl_ms = 30000 };
	static const char *const rubbish[] = {
		"", "&", "=", "&&&=&", "state", "state=", "state=heldx", "state=hel",
		"ttl=0", "ttl=-1", "ttl=99999999999999999999", "ttl=x", "127.0.0.1",
		"host=web2&user=root&cmd=backup&pid=4312", "since=1e3",
	};
	char text[ZK_STATE_SIZE];
	struct zk_state state;

	unit_case("state");
	zk_state_read(&state, text, zk_state_write(&full, text));
	CHECK_INT(state.phase, full.phase);
	CHECK_INT(state.since_ms, full.since_ms);
	CHECK_INT(state.until_ms, full.until_ms);
	CHECK_INT(state.min_ms, full.min_ms);
	CHECK_INT(state.ttl_ms, full.ttl_ms);
	for (int phase = ZK_TRYING; phase <= ZK_KEPT; phase++) {
		zk_state_write(&(struct zk_state){ .phase = (enum zk_phase)phase }, text);
		zk_state_read(&state, text, strlen(text));
		CHECK_INT(state.phase, phase);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rubbish); i++) {
		unit_case("state '%s'", rubbish[i]);
		zk_state_read(&state, rubbish[i], strlen(rubbish[i]));
		CHECK_INT(state.phase, ZK_UNKNOWN);
		CHECK_INT(state.since_ms, 0);
	}
}

/* ---- paths */

static const struct {
	const char *name, *component;
} paths[] = {
	{ "nightly", "nightly" }, { "a/b", "a%2Fb" }, { "a%2Fb", "a%252Fb" }, { ".", "%2E" },
	{ "..", "%2E%2E" }, { "...", "..." }, { ".lock", ".lock" }, { " a ", " a " },
	{ "\xc3\x9cn\xc3\xaf", "\xc3\x9cn\xc3\xaf" },
	{ "\xf0\x9f\x94\x92", "%F0%9F%94%92" },		/* beyond U+FFFF */
	{ "\xee\x80\x80", "%EE%80%80" },			/* U+E000 */
	{ "\xef\xa3\xbf", "%EF%A3%BF" },			/* U+F8FF */
	{ "\xef\xa4\x80", "\xef\xa4\x80" },			/* U+F900 */
	{ "\xef\xbf\xbd", "%EF%BF%BD" },			/* U+FFFD */
};

static const char *const no_paths[] = {
	"", ".", "..", "a%2fb", "%", "%4", "%zz", "%61", "%00", "a%2E",
};

static void test_paths(void)
{
	char component[ZK_COMPONENT_SIZE], name[ZK_COMPONENT_SIZE], longest[201];
	char uuid[ZK_UUID_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		unit_case("%s", paths[i].component);
		zk_path_encode(paths[i].name, component);
		CHECK_STR(component, paths[i].component);
		CHECK(zk_path_decode(component, name, sizeof(name)));
		CHECK_STR(name, paths[i].name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no_paths); i++) {
		unit_case("component '%s'", no_paths[i]);
		CHECK(!zk_path_decode(no_paths[i], name, sizeof(name)));
	}
	unit_case("the longest");
	memset(longest, '/', 200);
	longest[200] = '\0';
	zk_path_encode(longest, component);
	CHECK_INT(strlen(component), 600);
	CHECK(zk_path_decode(component, name, sizeof(name)));
	CHECK_STR(name, longest);
	CHECK(!zk_path_decode(component, name, 100));
	/* printf 'dlock node TOKEN' | sha256sum */
	unit_case("uuid");
	zk_uuid("0123456789abcdef0123456789abcdef", uuid);
	CHECK_STR(uuid, "160680e2-b483-8c75-92f8-bbd9d0c0f1e2");
}

int main(void)
{
	test_names();
	test_numbers();
	test_order();
	test_lines();
	test_state();
	test_paths();
	return unit_done();
}
