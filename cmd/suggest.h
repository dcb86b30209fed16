/* SPDX-License-Identifier: MIT */
/* What a user may have meant who mistyped a word, or who has written it for another program. */
#pragma once

#include <stdbool.h>

/*
 * Is typed most likely a mistyped word: one letter is wrong, missing, too many, or two neighbours
 * are swapped; in words of more than five letters up to two such mistakes?
 */
bool suggest_meant(const char *typed, const char *word);

/* How dlock says what an option of flock(1) does, "-c" or "--command". NULL: flock has no such. */
const char *suggest_for_flock(const char *option);
/* The same for a mistyped long name, without its hyphens. NULL: flock has nothing like it. */
const char *suggest_near_flock(const char *name);
