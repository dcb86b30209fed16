/* SPDX-License-Identifier: MIT */
/*
 * The descendants of this process, found in /proc. With this process a child
 * subreaper, whatever a command started stays in its tree, daemons too.
 */
#ifndef DLOCK_PROCTREE_H
#define DLOCK_PROCTREE_H

#include <sys/types.h>

/*
 * Sends sig (0: only counts) to every living descendant, but for the one called
 * spare and those below it, and those in the process group skip_group (each 0:
 * none). Returns how many living descendants there are, skipped ones included and
 * spared ones not, or -1 with errno when /proc cannot be read.
 */
int proctree_signal(int sig, pid_t spare, pid_t skip_group);

/*
 * Kills and reaps every descendant but spare, which must be a child of this process, or 0. Returns
 * when none is left. Processes in uninterruptible sleep are waited for.
 */
void proctree_kill(pid_t spare);

#endif
