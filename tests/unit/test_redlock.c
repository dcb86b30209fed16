/* SPDX-License-Identifier: MIT */
/* Tests src/backends/redlock/validity.c. */
#include "unit.h"

#include "backends/redlock/validity.h"

/* All ways in which five nodes may answer. */
static void check_decisions(void)
{
	for (int n = 0; n < 6 * 6 * 6 * 6; n++) {
		const struct redlock_votes votes = {
			n % 6, n / 6 % 6, n / 36 % 6, n / 216
		};
		const bool had = votes.trusted >= 3;
		const bool lost = votes.failed >= 3 ||
				  (votes.busy + votes.failed >= 3 &&
				   votes.busy + votes.granted >= 3);

		if (votes.trusted > votes.granted ||
		    votes.granted + votes.busy + votes.failed > 5)
			continue;
		unit_case("%d of %d granted, %d busy, %d failed", votes.trusted, votes.granted,
			  votes.busy, votes.failed);
		CHECK(redlock_decided(5, votes) == (had || lost));
		CHECK(!had || !lost);
	}
}

int main(void)
{
	int64_t rests[] = { 700, -1, 100, 300 }, endless[] = { -1, -1, 5 }, none[] = { 0 };

	check_decisions();

	CHECK_INT(redlock_free_in(rests, 4, 0), 0);
	CHECK_INT(redlock_free_in(rests, 4, 1), 100);
	CHECK_INT(redlock_free_in(rests, 4, 3), 700);
	CHECK_INT(redlock_free_in(rests, 4, 4), INT64_MAX);
	CHECK_INT(redlock_free_in(rests, 4, 5), INT64_MAX);
	CHECK_INT(redlock_free_in(endless, 3, 1), 5);
	CHECK_INT(redlock_free_in(endless, 3, 2), INT64_MAX);
	CHECK_INT(redlock_free_in(none, 0, 1), INT64_MAX);
	return unit_done();
}
