/* SPDX-License-Identifier: MIT */
/* The modes of holds: hold_mode.h. */
#include "hold_mode.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

const char *hold_mode_text(enum hold_mode mode, int slots, char buf[static TEXT_DIGITS_SIZE])
{
	if (mode == HOLD_SLOT)
		text_digits(buf, (uint64_t)slots);
	return mode == HOLD_SLOT ? buf : mode == HOLD_SHARED ? "s" : "x";
}

void hold_mode_read(const char *text, enum hold_mode *mode, int *slots)
{
	int64_t number;

	*slots = text_number(text, strlen(text), &number) && number <= INT_MAX ? (int)number : 0;
	*mode = *slots ? HOLD_SLOT : text[0] == 's' ? HOLD_SHARED : HOLD_EXCLUSIVE;
}

/* Room for "--slots 2147483647". */
#define MODE_TEXT_SIZE 24

/* Returns the option for the mode, or a name of the mode that has no option. */
static const char *describe_mode(enum hold_mode mode, int slots, char buf[static MODE_TEXT_SIZE])
{
	switch (mode) {
	case HOLD_SHARED:
		return "--shared";
	case HOLD_SLOT:
		snprintf(buf, MODE_TEXT_SIZE, "--slots %d", slots);
		return buf;
	case HOLD_EXCLUSIVE:
	case HOLD_ANY:
		break;
	}
	return "an exclusive hold";
}

enum outcome hold_mode_covers(enum hold_mode held, int held_slots, const struct request *request,
			      struct error *err)
{
	char have[MODE_TEXT_SIZE], want[MODE_TEXT_SIZE];

	if (held == HOLD_EXCLUSIVE || request->mode == HOLD_ANY)
		return OUTCOME_HELD;
	if (held == request->mode && (held != HOLD_SLOT || held_slots == request->slots))
		return OUTCOME_HELD;
	if (held == HOLD_SLOT && request->mode == HOLD_SLOT)
		error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with the hold of this token, "
			  "which has --slots %d", request->slots, held_slots);
	else
		error_set(err, ERROR_USAGE, 0, "the lock is already held with %s, which does not "
			  "cover %s: ask for the same",
			  describe_mode(held, held_slots, have),
			  describe_mode(request->mode, request->slots, want));
	return OUTCOME_BUSY;
}

bool hold_mode_slots_agree(int held_slots, const struct request *request, struct error *err)
{
	if (request->mode != HOLD_SLOT || !held_slots || held_slots == request->slots)
		return true;
	error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with the present holders, who have "
		  "--slots %d", request->slots, held_slots);
	return false;
}
