/* SPDX-License-Identifier: MIT */
/* The hints for words that dlock does not know. */
#include "suggest.h"

#include <stddef.h>
#include <string.h>

/* Words of flock(1) and of other lock programs, and how dlock says what they mean. */
static const struct {
	const char *words, *advice;
} rows[] = {
	{ "list ls", "'dlock status' shows locks" },
	{ "lock", "to take a lock: 'dlock run NAME -- COMMAND' or 'dlock acquire NAME'" },
	{ "unlock -u --unlock", "'dlock release' gives back what 'dlock acquire' took" },
	{ "-c --command", "put the command behind '--': dlock run NAME -- sh -c 'COMMAND'" },
	{ "-x -e --exclusive", "a lock is exclusive unless --shared is given" },
	{ "--timeout", "the option is --wait" },
	{ "--nb", "the option is --nonblock" },
	{ "-o --close", "the command never gets the lock's descriptor" },
	{ "-F --no-fork", "dlock stays, to end the command when the lock is lost" },
};

const char *suggest_advice(const char *word)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *at = strstr(rows[i].words, word);

		if (at && (at == rows[i].words || at[-1] == ' ') &&
		    strcspn(at, " ") == strlen(word))
			return rows[i].advice;
	}
	return NULL;
}

bool suggest_meant(const char *typed, const char *word)
{
	size_t a, b;

	for (; *typed && *typed == *word; typed++)
		word++;
	for (a = strlen(typed), b = strlen(word); a && b && typed[a - 1] == word[b - 1]; a--)
		b--;
	return a + b == 1 || (a == 1 && b == 1) ||
	       (a == 2 && b == 2 && typed[0] == word[1] && typed[1] == word[0]);
}
