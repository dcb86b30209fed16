/* SPDX-License-Identifier: MIT */
/* The end of a run, when the command's tree is dead: the release, and what follows a loss. */
#pragma once

#include "supervisor.h"

/* Release, and find out whether the lock was held until now: s->lost. */
void supervisor_release(struct supervisor *s);

/* Run the command of --on-lost-run, after the loss and the end of all other processes. */
void run_on_lost(const struct supervisor *s);
