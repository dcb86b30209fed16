/* SPDX-License-Identifier: MIT */
/*
 * Does a hold cover a request? All backends use this one rule, and only find out in which mode a
 * token holds the lock. The rule applies to a run or an acquisition inside a hold, and to a
 * verification. No I/O.
 *
 *	held \ asked	exclusive	shared		M slots		any
 *	exclusive	yes		yes		yes		yes
 *	shared		no		yes		no		yes
 *	N slots		no		no		if N is M	yes
 *
 * An exclusive hold keeps everybody else out, and so it covers all other modes. A hold of N slots
 * does not cover a request of M slots, not even when N is less: whoever asks for M slots means a
 * lock with M slots.
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
 * *err (ERROR_USAGE) says why, with both numbers of slots if these differ. Only the mode and the
 * slots of request are read.
 */
enum outcome hold_mode_covers(enum hold_mode held, int held_slots, const struct request *request,
			      struct error *err);

/*
 * Does request agree with the holders of a lock on the number of its slots? True also when request
 * asks for no slot, or they hold none (0). False with *err (ERROR_USAGE).
 */
bool hold_mode_slots_agree(int held_slots, const struct request *request, struct error *err);
