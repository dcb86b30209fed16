/* SPDX-License-Identifier: MIT */
/* Tests the modes of src/lock/hold.c. */
#include "base/error.h"
#include "lock/hold.h"
#include "unit.h"

struct way {
	enum hold_mode mode;
	int slots;
	const char *text;	/* in messages */
};

static const struct way ways[] = {
	{ HOLD_EXCLUSIVE, 0, "an exclusive hold" },
	{ HOLD_SHARED, 0, "--shared" },
	{ HOLD_SLOT, 1, "--slots 1" },
	{ HOLD_SLOT, 3, "--slots 3" },
	{ HOLD_SLOT, 5, "--slots 5" },
	{ HOLD_ANY, 0, "" },
};

#define HELD (ARRAY_SIZE(ways) - 1)

/* A row for each way to hold, a column for each way to ask. */
static const char *const table[HELD] = {
	"yyyyyy",
	"nynnny",
	"nnynny",
	"nnnyny",
	"nnnnyy",
};

static void test_covers(void)
{
	for (size_t held = 0; held < HELD; held++) {
		for (size_t asked = 0; asked < ARRAY_SIZE(ways); asked++) {
			const struct request request = { .mode = ways[asked].mode,
							 .slots = ways[asked].slots };
			const bool covers = table[held][asked] == 'y';
			struct error err = { .kind = ERROR_NONE };

			unit_case("held %s, asked %s", ways[held].text, ways[asked].text);
			CHECK_INT(hold_mode_covers(ways[held].mode, ways[held].slots, &request,
						   &err), covers ? OUTCOME_HELD : OUTCOME_BUSY);
			CHECK_INT(err.kind, covers ? ERROR_NONE : ERROR_USAGE);
			if (covers)
				continue;
			CHECK_HAS(err.message, ways[held].text);
			CHECK_HAS(err.message, ways[asked].text);
		}
	}
}

static void test_text(void)
{
	static const struct {
		const char *text;
		enum hold_mode mode;
		int slots;
		bool written;	/* and not only read */
	} rows[] = {
		{ "x", HOLD_EXCLUSIVE, 0, true },
		{ "s", HOLD_SHARED, 0, true },
		{ "1", HOLD_SLOT, 1, true },
		{ "2147483647", HOLD_SLOT, 2147483647, true },
		{ "", HOLD_EXCLUSIVE, 0, false },
		{ "0", HOLD_EXCLUSIVE, 0, false },
		{ "-1", HOLD_EXCLUSIVE, 0, false },
		{ "4294967297", HOLD_EXCLUSIVE, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char buf[TEXT_DIGITS_SIZE];
		enum hold_mode mode;
		int slots;

		unit_case("mode '%s'", rows[i].text);
		hold_mode_read(rows[i].text, &mode, &slots);
		CHECK_INT(mode, rows[i].mode);
		CHECK_INT(slots, rows[i].slots);
		if (rows[i].written)
			CHECK_STR(hold_mode_text(mode, slots, buf), rows[i].text);
	}
}

static void test_agree(void)
{
	struct request request = { .mode = HOLD_SLOT, .slots = 3 };
	struct error err = { .kind = ERROR_NONE };

	unit_case("slots of others");
	CHECK(hold_mode_slots_agree(3, &request, &err));
	CHECK_INT(err.kind, ERROR_NONE);
	CHECK(!hold_mode_slots_agree(5, &request, &err));
	CHECK_INT(err.kind, ERROR_USAGE);
	CHECK_HAS(err.message, "--slots 3");
	CHECK_HAS(err.message, "--slots 5");
	request.mode = HOLD_SHARED;
	CHECK(hold_mode_slots_agree(5, &request, &err));
}

int main(void)
{
	test_text();
	test_covers();
	test_agree();
	return unit_done();
}
