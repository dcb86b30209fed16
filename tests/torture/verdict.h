/* SPDX-License-Identifier: MIT */
/* What a round must not show beyond what its history says: see README.md, "What is demanded". */
#pragma once

#include "history.h"
#include "lane.h"

/*
 * lane_find()s each status of a contender that nothing explains, each waiter that another one has
 * passed, and each one that began too late after the lock was free. HISTORY is the lane's, judged.
 */
void verdict_round(struct lane *lane, const struct history *history);
