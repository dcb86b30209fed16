/* SPDX-License-Identifier: MIT */
#include "base/error.h"
#include "lock/token.h"
#include "unit.h"

/* Of so many random tokens one would look like a run's by chance, all but surely. */
#define MANY 400000

int main(void)
{
	char token[TOKEN_SIZE], run[TOKEN_SIZE], other[TOKEN_SIZE];
	size_t odd = 0, unmarked = 0, marked = 0, altered = 0;
	struct error err = { .kind = ERROR_NONE };

	CHECK_INT(token_make_for_run(run, &err), 0);
	CHECK_INT(token_make_for_run(other, &err), 0);
	CHECK(token_valid(run));
	CHECK(strcmp(run, other) != 0);
	for (int i = 0; i < MANY; i++) {
		odd += token_make(token, &err) || !token_valid(token);
		marked += token_is_of_run(token);
	}
	CHECK_INT(odd, 0);
	CHECK_INT(marked, 0);
	for (int i = 0; i < 1000; i++) {
		odd += token_make_for_run(token, &err) || !token_valid(token);
		unmarked += !token_is_of_run(token);
		/* another token than the one that was made */
		token[i % 28] = token[i % 28] == 'a' ? 'b' : 'a';
		altered += token_is_of_run(token);
	}
	CHECK_INT(odd, 0);
	CHECK_INT(unmarked, 0);
	/* some 1000 / 65536 by chance */
	CHECK(altered < 5);
	/* the tokens that tests and other programs make up */
	CHECK(!token_is_of_run("0123456789abcdef0123456789abcdef"));
	CHECK(!token_is_of_run("00000000000000000000000000000000"));
	return unit_done();
}
