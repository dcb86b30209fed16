/* SPDX-License-Identifier: MIT */
/* Guesses what a user meant by a mistyped word, or by a word of another program. */
#pragma once

#include <stdbool.h>

/* Is typed the word with one mistake: a letter wrong, missing or too many, or two swapped? */
bool suggest_meant(const char *typed, const char *word);

/* How dlock says what another program means by this command or option. NULL: nothing is known. */
const char *suggest_advice(const char *word);
