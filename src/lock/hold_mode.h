/* SPDX-License-Identifier: MIT */
/*
 * Does a hold cover a request? All backends use this one rule, for a run or an acquisition inside a
 * hold, and for a verification. No I/O.
 *
 *	held \ asked	exclusive	shared		M slots		any
 *	exclusive	yes		yes		yes		yes
 *	shared		no		yes		no		yes
 *	N slots		no		no		if N is M	yes
 *
 * An exclusive hold keeps everybody else out, so it covers all other modes. A hold of N slots does
 * not cover a request of M slots, even if N is less, because that request is for a lock with M
 * slots.
 */
#pragma once

#include "base/text.h"
#include "backend.h"

struct error;

/*
 * A mode as backends store it: "x" (exclusive), "s" (shared) or the number of slots. The first
 * function returns a constant or buf; the second one reads every other text as "x".
 */
const char *hold_mode_text(enum hold_mode mode, int slots, char buf[static TEXT_DIGITS_SIZE]);
void hold_mode_read(const char *text, enum hold_mode *mode, int *slots);

/*
 * HELD: a hold of this mode, with HOLD_SLOT of held_slots, covers request. BUSY: it does not, and
 * *err (ERROR_USAGE) has the reason. Only the mode and the slots of request are read.
 */
enum outcome hold_mode_covers(enum hold_mode held, int held_slots, const struct request *request,
			      struct error *err);

/*
 * Does request agree with the holders on the number of slots? True also if request is for no slot,
 * or they hold none (0). If not, sets *err (ERROR_USAGE).
 */
bool hold_mode_slots_agree(int held_slots, const struct request *request, struct error *err);
