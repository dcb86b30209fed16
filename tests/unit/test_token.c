/* SPDX-License-Identifier: MIT */
/* Tests src/lock/token.c. */
#include "base/error.h"
#include "lock/token.h"
#include "unit.h"

#define MANY 100000
#define HERE UINT64_C(0x123456789abcdef0)
#define ELSEWHERE UINT64_C(0x123456789abcdef1)

#define PLAIN "0123456789abcdef0123456789abcdef"

static void test_form(void)
{
	static const struct {
		const char *text;
		int level;		/* -1: it is malformed */
	} rows[] = {
		{ PLAIN, 0 }, { PLAIN "+1", 1 }, { PLAIN "+10", 10 }, { PLAIN "+999999", 999999 },
		{ "", -1 }, { "0123456789abcdef0123456789abcde", -1 }, { PLAIN "0", -1 },
		{ "0123456789ABCDEF0123456789abcdef", -1 }, { PLAIN "+", -1 }, { PLAIN "+0", -1 },
		{ PLAIN "+01", -1 }, { PLAIN "+1000000", -1 }, { PLAIN "+4294967297", -1 },
		{ PLAIN "+18446744073709551617", -1 }, { PLAIN "+1+1", -1 }, { PLAIN "+-1", -1 },
		{ PLAIN "+ 1", -1 }, { PLAIN "+1 ", -1 }, { PLAIN "-1", -1 }, { PLAIN "++1", -1 },
		{ PLAIN "+a", -1 }, { "+1", -1 }, { PLAIN PLAIN, -1 },
	};
	char token[TOKEN_SIZE], text[TOKEN_TEXT_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = { .kind = ERROR_NONE };
		int level = -1;

		unit_case("%s", rows[i].text);
		CHECK_INT(token_read(rows[i].text, token, &level, &err),
			  rows[i].level < 0 ? -1 : 0);
		CHECK_INT(level, rows[i].level);
		CHECK_INT(err.kind, rows[i].level < 0 ? ERROR_USAGE : ERROR_NONE);
		if (rows[i].level < 0)
			continue;
		CHECK_STR(token, PLAIN);
		token_write(token, level, text);
		CHECK_STR(text, rows[i].text);
	}
}

/* Has the token the form of one that has no level? */
static bool is_plain(const char *token)
{
	struct error err = { .kind = ERROR_NONE };
	char same[TOKEN_SIZE];
	int level = -1;

	return !token_read(token, same, &level, &err) && !level;
}

/* The mark is of a run, or is not; a token that was altered has not the run's. */
static void test_mark(void)
{
	size_t odd = 0, unmarked = 0, marked = 0, altered = 0;
	struct error err = { .kind = ERROR_NONE };
	char token[TOKEN_SIZE];

	for (int i = 0; i < MANY; i++) {
		odd += token_make(token, "a", HERE, false, &err) || !is_plain(token);
		marked += token_is_of_run(token);
	}
	for (int i = 0; i < 1000; i++) {
		odd += token_make(token, "a", HERE, true, &err) || !is_plain(token);
		unmarked += !token_is_of_run(token);
		/* another token than the one that was made */
		token[i % 28] = token[i % 28] == 'a' ? 'b' : 'a';
		altered += token_is_of_run(token);
	}
	CHECK_INT(odd, 0);
	CHECK_INT(marked, 0);
	CHECK_INT(unmarked, 0);
	/* some 1000 / 65536 by chance */
	CHECK(altered < 5);
	/* the tokens that tests and other programs make up */
	CHECK(!token_is_of_run("0123456789abcdef0123456789abcdef"));
	CHECK(!token_is_of_run("00000000000000000000000000000000"));
}

static void test_scope(void)
{
	struct error err = { .kind = ERROR_NONE };
	char token[TOKEN_SIZE], other[TOKEN_SIZE];

	for (int of_run = 0; of_run < 2; of_run++) {
		CHECK_INT(token_make(token, "nightly", HERE, of_run, &err), 0);
		CHECK_INT(token_scope(token, "nightly", HERE), TOKEN_OF_LOCK);
		CHECK_INT(token_scope(token, "nightly", ELSEWHERE), TOKEN_OF_NAME);
		CHECK_INT(token_scope(token, "nightl", HERE), TOKEN_OF_OTHER);
		CHECK_INT(token_scope(token, "Nightly", ELSEWHERE), TOKEN_OF_OTHER);
		/* Both halves are random: file: shows the first, and knows a hold by it. */
		CHECK_INT(token_make(other, "nightly", HERE, of_run, &err), 0);
		CHECK(strncmp(other, token, 12) != 0);
		CHECK(strncmp(other + 20, token + 20, 8) != 0);
	}
	CHECK_INT(token_scope("0123456789abcdef0123456789abcdef", "nightly", HERE),
		  TOKEN_OF_OTHER);
	CHECK_INT(token_make_random(token, &err), 0);
	CHECK(is_plain(token));
}

int main(void)
{
	test_form();
	test_mark();
	test_scope();
	return unit_done();
}
