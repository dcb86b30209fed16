/* SPDX-License-Identifier: MIT */
/* Guesses what a user meant by a mistyped word, or by an option of another program. */
#pragma once

#include <stdbool.h>

/*
 * Is typed probably a mistyped form of word? Typing mistakes are a letter that is wrong, missing or
 * too many, and two swapped neighbours: at most one of these, or two in a word of more than five
 * letters.
 */
bool suggest_meant(const char *typed, const char *word);

/* How dlock does what an option of flock(1) does, "-c" or "--command". NULL: no such option. */
const char *suggest_for_flock(const char *option);
/* The same for a mistyped long name, without its hyphens. NULL: flock has nothing like it. */
const char *suggest_near_flock(const char *name);
