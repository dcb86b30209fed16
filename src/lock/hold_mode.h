/* SPDX-License-Identifier: MIT */
/*
 * Does a hold give what is asked for? One rule for all backends, which only say how a token
 * holds: for a run inside a run, an acquisition that counts, and a verification. No I/O.
 *
 *	held \ asked	exclusive	shared		M slots		any
 *	exclusive	yes		yes		yes		yes
 *	shared		no		yes		no		yes
 *	N slots		no		no		if N is M	yes
 *
 * An exclusive hold keeps everybody else out, and so gives all that the others give. Two
 * numbers of slots never agree, also when the hold has fewer: who counts on M slots counts on
 * a lock that another number does not describe.
 */
#ifndef DLOCK_HOLD_MODE_H
#define DLOCK_HOLD_MODE_H

#include "backend.h"

struct error;

/*
 * HELD: a hold of this mode, of held_slots with HOLD_SLOT, covers request; BUSY: it does not,
 * and *err (ERROR_USAGE) says why, with both numbers when slots disagree. Of request only mode
 * and slots are read.
 */
enum outcome hold_mode_covers(enum hold_mode held, int held_slots, const struct request *request,
			      struct error *err);

/*
 * For one who wants a slot where others have theirs: do they agree on how many there are?
 * true, also when request asks for no slot; or false with *err (ERROR_USAGE).
 */
bool hold_mode_slots_agree(int held_slots, const struct request *request, struct error *err);

#endif
