/* SPDX-License-Identifier: MIT */
#include "base/error.h"
#include "lock/token.h"
#include "unit.h"

#define MANY 100000
#define HERE UINT64_C(0x123456789abcdef0)
#define ELSEWHERE UINT64_C(0x123456789abcdef1)

static void test_form(void)
{
	struct error err = { .kind = ERROR_NONE };

	CHECK_INT(token_check("0123456789abcdef0123456789abcdef", &err), 0);
	CHECK_INT(err.kind, ERROR_NONE);
	CHECK_INT(token_check("0123456789abcdef0123456789abcde", &err), -1);
	CHECK_INT(err.kind, ERROR_USAGE);
	CHECK_INT(token_check("0123456789abcdef0123456789abcdef0", &err), -1);
	CHECK_INT(token_check("0123456789ABCDEF0123456789abcdef", &err), -1);
	CHECK_INT(token_check("", &err), -1);
}

/* The mark is of a run, or is not; a token that was altered has not the run's. */
static void test_mark(void)
{
	size_t odd = 0, unmarked = 0, marked = 0, altered = 0;
	struct error err = { .kind = ERROR_NONE };
	char token[TOKEN_SIZE];

	for (int i = 0; i < MANY; i++) {
		odd += token_make(token, "a", HERE, false, &err) || token_check(token, &err);
		marked += token_is_of_run(token);
	}
	for (int i = 0; i < 1000; i++) {
		odd += token_make(token, "a", HERE, true, &err) || token_check(token, &err);
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
	CHECK_INT(token_check(token, &err), 0);
}

int main(void)
{
	test_form();
	test_mark();
	test_scope();
	return unit_done();
}
