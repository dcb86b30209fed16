/* SPDX-License-Identifier: MIT */
#include "suggest.h"

#include <stddef.h>
#include <string.h>

/* No command and no option is longer. */
#define LONGEST 24

static int least(int a, int b)
{
	return a < b ? a : b;
}

/*
 * The number of single mistakes between two words of at most LONGEST letters (optimal string
 * alignment, as in L. Boytsov, "Indexing methods for approximate dictionary searching", 2011).
 */
static int distance(const char *a, const char *b)
{
	int d[LONGEST + 1][LONGEST + 1];
	const int m = (int)strlen(a), n = (int)strlen(b);

	for (int i = 0; i <= m; i++)
		d[i][0] = i;
	for (int j = 0; j <= n; j++)
		d[0][j] = j;
	for (int i = 1; i <= m; i++) {
		for (int j = 1; j <= n; j++) {
			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
					d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[m][n];
}

bool suggest_meant(const char *typed, const char *word)
{
	const size_t length = strlen(word);

	if (strlen(typed) > LONGEST || length > LONGEST)
		return false;
	return distance(typed, word) <= (length > 5 ? 2 : 1);
}

/* The options of flock(1), and how dlock says what they do. */
static const struct {
	const char *letter, *name, *advice;
} flock_rows[] = {
	{ "-c", "--command", "put the command behind '--': dlock run NAME -- sh -c 'COMMAND'" },
	{ "-x", "--exclusive", "a lock is exclusive unless --shared is given" },
	{ "-e", "--exclusive", "a lock is exclusive unless --shared is given" },
	{ "-u", "--unlock", "'dlock release' gives back what 'dlock acquire' took" },
	{ "-w", "--timeout", "the option is --wait" },
	{ "-n", "--nb", "the option is --nonblock" },
	{ "-o", "--close", "the command never gets the lock's descriptor" },
	{ "-F", "--no-fork", "dlock stays, to end the command when the lock is lost" },
};

#define FLOCK_ROWS (sizeof(flock_rows) / sizeof(flock_rows[0]))

const char *suggest_for_flock(const char *option)
{
	for (size_t i = 0; i < FLOCK_ROWS; i++)
		if (!strcmp(option, flock_rows[i].letter) || !strcmp(option, flock_rows[i].name))
			return flock_rows[i].advice;
	return NULL;
}

const char *suggest_near_flock(const char *name)
{
	for (size_t i = 0; i < FLOCK_ROWS; i++)
		if (suggest_meant(name, flock_rows[i].name + 2))
			return flock_rows[i].advice;
	return NULL;
}
