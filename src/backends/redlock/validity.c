/* SPDX-License-Identifier: MIT */
/* The arithmetic of Redlock: validity.h. */
#include "validity.h"

#include <stdlib.h>

bool redlock_decided(int nodes, struct redlock_votes votes)
{
	const int quorum = nodes / 2 + 1, minority = nodes - quorum;

	if (votes.granted + votes.busy < quorum)
		return votes.failed > minority;
	return votes.trusted >= quorum || votes.busy + votes.failed > minority;
}

static int compare_left(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	/* -1, without end, is the greatest of all. */
	return ((uint64_t)*x > (uint64_t)*y) - ((uint64_t)*x < (uint64_t)*y);
}

int64_t redlock_free_in(int64_t left_ms[], size_t count, int wanted)
{
	if (wanted <= 0)
		return 0;
	if ((size_t)wanted > count)
		return INT64_MAX;
	qsort(left_ms, count, sizeof(left_ms[0]), compare_left);
	return left_ms[wanted - 1] < 0 ? INT64_MAX : left_ms[wanted - 1];
}
