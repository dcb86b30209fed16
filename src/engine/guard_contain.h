/* SPDX-License-Identifier: MIT */
/*
 * --contain: the command runs in a PID namespace of its own, whose init (process 1) is ours:
 *
 *	guard ── init ── COMMAND ── …
 *
 * When init dies the kernel kills all processes of the namespace, with any group, session or user.
 * Init dies with the guard (PR_SET_PDEATHSIG), which the kernel kills at the end of the lease when
 * it is stopped (kernel_timer.h), and by the guard's one kill(). Init cannot have such a timer: the
 * kernel drops a timer's SIGKILL to a namespace's process 1.
 *
 * Init reaps orphans, reports the command's state to the guard, and ends with the last process of
 * the namespace. A user who may not make a PID namespace alone gets it inside a user namespace,
 * where only this user exists.
 */
#pragma once

#include "guard_command.h"

/*
 * Fork the init of a new PID namespace, which starts the command there, and set g->child and
 * g->report_fd. Returns 0, or -1 with start_failed.
 */
int start_contained(struct guarding *g, bool foreground);

/* Read all reports of the namespace, and update *g. */
void read_reports(struct guarding *g);
