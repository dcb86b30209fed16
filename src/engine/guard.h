/* SPDX-License-Identifier: MIT */
/*
 * The guard: the command's parent, and the subreaper of the command's tree. The guard ends the tree
 * before the lease ends. It does I/O only on its sockets, and never blocks in a send while it has a
 * deadline, so that nothing can delay it:
 *
 *	supervisor ──┬── keeper
 *	             └── guard ── COMMAND ── …
 *
 * The guard has a process group of its own, so that a signal to dlock's job (a shell's "kill -9
 * %1") does not kill supervisor and guard together. The command's tree dies whichever of the three
 * processes is killed. If the supervisor is dead, the guard ends the whole tree. If the guard is
 * dead, the supervisor, which is the next subreaper, inherits the tree and ends it. If both are
 * dead, the command is, too (PR_SET_PDEATHSIG), and with --contain all of its tree. If the keeper
 * is dead, guard and supervisor enforce the end of the lease. When all three are stopped, a timer
 * of the kernel continues the guard in time to end the tree; if that does not help, another one
 * kills the guard at the end of the lease (kernel_timer.h), and the command dies with it
 * (PR_SET_PDEATHSIG).
 *
 * Calling sequence, in the supervisor: guard_start(); guard_run() when the lock was acquired; then
 * guard_event() whenever its fd is readable; child_end() at the end.
 */
#pragma once

#include <stdbool.h>

#include "child.h"
#include "message.h"

struct job;

/*
 * Fork the guard, which copies *job and waits for guard_run(). Returns 0, or -1 with
 * ERROR_INTERNAL.
 */
int guard_start(struct child *guard, const struct job *job, struct error *err);

/*
 * Order the guard to start the command. locked: the lock is held, with the fence in shared memory.
 * The guard keeps hold_fd, unless -1, open until the tree is dead.
 */
void guard_run(const struct child *guard, bool locked, int hold_fd);

/* Pass sig on to the command, or with group to its process group. Does not wait. */
void guard_signal(const struct child *guard, int sig, bool group);

/* Receive the next event. False: there is none. */
bool guard_event(struct child *guard, struct guard_event *event);
