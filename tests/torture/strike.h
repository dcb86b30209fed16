/* SPDX-License-Identifier: MIT */
/* Faults as they strike: signals to processes, words to the lane's proxy, a clock that is set. */
#pragma once

#include "lane.h"

/* How many faults of each kind have struck, and how many found nobody. */
struct strike_counts {
	unsigned struck[FAULT_KINDS], roles[ROLES], missed;
};

extern struct strike_counts strike_counts;

/* Fault I of the lane's round begins, or ends. */
void strike_fire(struct lane *lane, int i);
void strike_end(struct lane *lane, int i);

/* Looks at the processes of all rounds, unless that was done within the last MS. */
void strike_look(int ms);

/* SIGKILL to whatever is left of the lane's round. */
void strike_all(struct lane *lane);

/* A word to the lane's proxy. */
void strike_proxy(const struct lane *lane, const char *word);
