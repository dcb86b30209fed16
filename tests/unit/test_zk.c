/* SPDX-License-Identifier: MIT */
/* Tests names of nodes and the order of entries of the ZooKeeper backend. */
#include <stdlib.h>

#include "backends/zookeeper/layout.h"
#include "unit.h"

#define U "01234567-89ab-cdef-0123-456789abcdef"

/* ---- names of nodes */

static const struct {
	const char *name;
	enum hold_mode mode;
	int32_t number;
	int slots;
	bool shadow;
} good[] = {
	{ "_c_" U "-lock-0000000000", HOLD_EXCLUSIVE, 0, 0, false },
	{ "_c_" U "-lock-2147483647", HOLD_EXCLUSIVE, INT32_MAX, 0, false },
	{ "_c_" U "-lock--2147483648", HOLD_EXCLUSIVE, INT32_MIN, 0, false },
	{ "_c_" U "-lock--000000001", HOLD_EXCLUSIVE, -1, 0, false },
	{ "_c_" U "-__READ__0000000007", HOLD_SHARED, 7, 0, false },
	{ "_c_" U "-__WRIT__0000000007", HOLD_EXCLUSIVE, 7, 0, false },
	{ "_c_" U "-slots-3-lock-0000000007", HOLD_SLOT, 7, 3, false },
	{ "_c_" U "-dlock-__WRIT__0000000008", HOLD_EXCLUSIVE, 8, 0, true },
	{ "_c_" U "-dlock-lock-0000000008", HOLD_EXCLUSIVE, 8, 0, true },
	/* Curator without protection; what else stands before the mark is not looked at */
	{ "lock-0000000009", HOLD_EXCLUSIVE, 9, 0, false },
	{ "my-lock-0000000009", HOLD_EXCLUSIVE, 9, 0, false },
	{ "0123456789abcdef0123456789abcdef__lock__0000000010", HOLD_EXCLUSIVE, 10, 0, false },
	{ "0123456789abcdef0123456789abcdef__rlock__-000000010", HOLD_SHARED, -10, 0, false },
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
	struct zk_entry entry;
	char name[ZK_PREFIX_SIZE + 16], again[ZK_PREFIX_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("%s", good[i].name);
		CHECK(zk_entry_parse(&entry, good[i].name));
		CHECK_STR(entry.name, good[i].name);
		CHECK_INT(entry.number, good[i].number);
		CHECK_INT(entry.mode, good[i].mode);
		CHECK_INT(entry.slots, good[i].slots);
		CHECK_INT(entry.shadow, good[i].shadow);
		CHECK_INT(zk_entry_has_uuid(&entry, U), !strncmp(good[i].name, "_c_", 3));
		CHECK(!zk_entry_has_uuid(&entry, "ffffffff-89ab-cdef-0123-456789abcdef"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("'%s'", bad[i]);
		CHECK(!zk_entry_parse(&entry, bad[i]));
	}
	for (int mode = HOLD_EXCLUSIVE; mode <= HOLD_SLOT; mode++)
		for (int shadow = 0; shadow < 2; shadow++) {
			zk_entry_name((enum hold_mode)mode, 4321, U, shadow, again);
			snprintf(name, sizeof(name), "%s%010d", again, -12);
			unit_case("%s", name);
			CHECK(zk_entry_parse(&entry, name));
			CHECK_INT(entry.shadow, shadow);
			CHECK(shadow || entry.mode == (enum hold_mode)mode);
			CHECK_INT(entry.slots, mode == HOLD_SLOT && !shadow ? 4321 : 0);
			CHECK_INT(entry.number, -12);
			CHECK(zk_entry_has_uuid(&entry, U));
		}
}

/* The shadow has the next number. */
static void test_shadows(void)
{
	static const char *const names[][2] = {
		{ "_c_" U "-lock-0000000007", "_c_" U "-dlock-__WRIT__0000000008" },
		{ "_c_" U "-slots-3-lock-0000000009", "_c_" U "-dlock-__WRIT__0000000010" },
		{ "_c_" U "-__READ__-000000001", "_c_" U "-dlock-lock-0000000000" },
		{ "_c_" U "-lock-2147483647", "_c_" U "-dlock-__WRIT__-2147483648" },
	};
	char shadow[ZK_PREFIX_SIZE];
	struct zk_entry entry;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		unit_case("shadow of %s", names[i][0]);
		CHECK(zk_entry_parse(&entry, names[i][0]));
		zk_entry_shadow(&entry, shadow);
		CHECK_STR(shadow, names[i][1]);
	}
}

/* ---- the order */

/* Below 0 when an entry with the number a comes before one with b. */
static int compare(int32_t a, int32_t b)
{
	struct zk_entry entries[] = { { .name = "x", .number = a }, { .name = "x", .number = b } };

	if (zk_entries_sort(entries, 2))
		return 0;
	return entries[0].number == a ? -1 : 1;
}

static void test_numbers(void)
{
	unit_case("numbers");
	CHECK(compare(1, 2) < 0);
	CHECK(compare(2, 1) > 0);
	CHECK_INT(compare(-7, -7), 0);
	CHECK(compare(-1, 0) < 0);
	CHECK(compare(INT32_MAX, INT32_MIN) < 0);
	CHECK(compare(INT32_MIN, INT32_MAX) > 0);
	CHECK(compare(INT32_MAX - 5, INT32_MIN + 5) < 0);
	CHECK(compare(5, INT32_MIN) < 0);
}

/* Every start order leads to the same one; those of equal numbers were made in turn. */
static void check_sorted(const int32_t *numbers, const int64_t *czxids, size_t count, bool same)
{
	struct zk_entry entries[8];

	for (size_t turn = 0; turn < count; turn++) {
		for (size_t i = 0; i < count; i++) {
			size_t from = (i * 3 + turn) % count;

			entries[i] = (struct zk_entry){ .name = "x", .number = numbers[from],
						       .czxid = czxids ? czxids[from] : 0 };
		}
		CHECK_INT(zk_entries_sort(entries, count), same);
		for (size_t i = 0; i < count; i++) {
			CHECK_INT(entries[i].number, numbers[i]);
			CHECK_INT(entries[i].czxid, czxids ? czxids[i] : 0);
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
	check_sorted(plain, NULL, ARRAY_SIZE(plain), false);
	unit_case("order across the overflow");
	check_sorted(over, NULL, ARRAY_SIZE(over), false);
	unit_case("order of equal numbers");
	check_sorted(same, czxids, ARRAY_SIZE(same), true);
	unit_case("nobody");
	CHECK(!zk_entries_sort(NULL, 0));
}

/* ---- who waits for whom: each letter is an entry, x, r, or 1 to 9 slots */

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

static size_t line_up(const char *line, struct zk_entry *entries)
{
	size_t count = strlen(line);

	for (size_t i = 0; i < count; i++) {
		entries[i] = (struct zk_entry){ .name = "", .number = (int32_t)i };
		entries[i].mode = line[i] == 'x' ? HOLD_EXCLUSIVE :
				 line[i] == 'r' ? HOLD_SHARED : HOLD_SLOT;
		entries[i].slots = entries[i].mode == HOLD_SLOT ? line[i] - '0' : 0;
	}
	return count;
}

static void test_lines(void)
{
	struct zk_entry entries[8];

	for (size_t k = 0; k < ARRAY_SIZE(lines); k++) {
		size_t count = line_up(lines[k].line, entries);

		for (size_t i = 0; i < count; i++) {
			unit_case("entry %zu of %s", i, lines[k].line);
			CHECK_INT(zk_entries_blocker(entries, (ptrdiff_t)i), lines[k].blockers[i]);
		}
	}
}

/* ---- no end of an entry that lets a waiter in is missed */

/* Copy the entries whose bits are set. */
static size_t pick_entries(const struct zk_entry *all, unsigned bits, struct zk_entry *some)
{
	size_t count = 0;

	for (unsigned i = 0; bits >> i; i++)
		if (bits >> i & 1)
			some[count++] = all[i];
	return count;
}

/*
 * The last of the entries has read a queue with those of the set bits, and set its watches.
 * Whichever others have ended: as long as none that it watches has, it may not hold. Returns how
 * often it may.
 */
static int count_misses(const struct zk_entry *all, unsigned bits)
{
	struct zk_entry some[8];
	const ptrdiff_t me = (ptrdiff_t)pick_entries(all, bits, some) - 1;
	const ptrdiff_t blocker = zk_entries_blocker(some, me);
	const ptrdiff_t first = zk_entries_watched(some, me, blocker);
	unsigned watched = 0;
	int misses = 0;

	if (blocker < 0)
		return 0;
	if (first < 0 || first > blocker)
		return 1;
	for (ptrdiff_t i = first; i <= blocker; i++)
		watched |= 1U << some[i].number;
	for (unsigned left = bits; left; left = (left - 1) & bits)
		if ((left & watched) == watched && (left & 1U << some[me].number)) {
			struct zk_entry later[8];
			const size_t count = pick_entries(all, left, later);

			misses += zk_entries_blocker(later, (ptrdiff_t)count - 1) < 0;
		}
	return misses;
}

/* All queues of up to six entries: x, r and slots. */
static void test_watches(void)
{
	static const char kinds[] = "xr1", *slots = "123";
	struct zk_entry entries[8];
	int misses = 0;
	char line[8];

	unit_case("watches");
	for (int n = 2; n <= 6; n++)
		for (int code = 0; code < 729; code++)
			for (int s = 0; s < 3; s++) {
				for (int i = 0, rest = code; i < n; i++, rest /= 3)
					line[i] = rest % 3 == 2 ? slots[s] : kinds[rest % 3];
				line[n] = '\0';
				line_up(line, entries);
				for (unsigned bits = 0; bits < 1U << (n - 1); bits++)
					misses += count_misses(entries, bits | 1U << (n - 1));
			}
	CHECK_INT(misses, 0);
}

/* ---- the data of a node */

static void test_record(void)
{
	static const char *const rubbish[] = {
		"", "&", "=", "&&&=&", "taken", "taken=", "taken=&", "taken=x&", "xtaken=0&",
		"taken=0", ("taken=0uuid=" U "&"), ("uuid=" U "&taken=0&"), "taken=-1",
		"taken=99999999999999999999", "taken=x", "127.0.0.1", "uuid=",
		"host=web2&user=root&cmd=backup&pid=4312", "since=1e3",
	};
	char data[ZK_RECORD_SIZE], longest[HOLDER_TEXT_SIZE];
	struct zk_record record;

	unit_case("record");
	zk_record_write(data, NULL, 1795232714787, "host=web2");
	zk_record_read(&record, data, U);
	CHECK(!record.foreign);
	CHECK_INT(record.taken_ms, 1795232714787);
	CHECK(!record.mine);
	CHECK(strstr(data, "&host=web2"));
	zk_record_read(&record, "taken=-5&", U);
	CHECK(!record.foreign);
	CHECK_INT(record.taken_ms, 0);
	unit_case("record with uuid");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	zk_record_write(data, U, INT64_MAX, longest);
	CHECK(strstr(data, longest));
	zk_record_read(&record, data, U);
	CHECK(record.mine);
	CHECK_INT(record.taken_ms, INT64_MAX);
	zk_record_read(&record, data, "ffffffff-89ab-cdef-0123-456789abcdef");
	CHECK(!record.mine);
	for (size_t i = 0; i < ARRAY_SIZE(rubbish); i++) {
		unit_case("record '%s'", rubbish[i]);
		zk_record_read(&record, rubbish[i], U);
		CHECK(record.foreign);
		CHECK_INT(record.taken_ms, 0);
		CHECK(!record.mine);
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
	test_shadows();
	test_numbers();
	test_order();
	test_lines();
	test_watches();
	test_record();
	test_paths();
	return unit_done();
}
