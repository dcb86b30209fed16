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
#include <stdint.h>
#include <sys/types.h>

#include "child.h"

struct error;
struct supervisor;

/* How late the guard may be before the supervisor ends it, and acts. */
#define GUARD_GRACE_MS 500

/* Events are dropped while a supervisor does not read them, except for the last one. */
enum guard_event_type {
	GUARD_STOPPED,		/* value: the signal that stopped the command */
	GUARD_ENDING,		/* the command is stopped, or not begun: struct shared, endings */
	GUARD_EXITED,		/* value: wait status of the command */
	GUARD_LEFTOVERS,	/* value: number of processes that the command left; they are */
				/* ended, waited for or left */
	GUARD_STUCK,		/* value: pid of a process that it may not signal */
	GUARD_EMPTY,		/* the tree is dead */
	GUARD_GONE,		/* the guard's process has ended */
};

struct guard_event {
	enum guard_event_type type;
	int value;
	bool last;		/* the tree is dead */
};

enum guard_order_type {
	GUARD_ORDER_RUN,
	GUARD_ORDER_SIGNAL,
};

struct guard_order {
	enum guard_order_type type;
	int sig;
	bool group;		/* the signal is for the command's process group */
	bool locked;
	uint64_t fence;		/* 0: unknown */
};

/* Run the guard's process. fd: to the supervisor. */
void guard_main(const struct supervisor *s, int fd) __attribute__((noreturn));

/*
 * Fork the guard, which copies *s and waits for guard_run(). Returns 0, or -1 with ERROR_INTERNAL.
 */
int guard_start(struct child *guard, const struct supervisor *s, struct error *err);

/*
 * Order the guard to start the command. locked: the lock is held, with this fence if it is not 0.
 * The guard keeps hold_fd, unless -1, open until the tree is dead.
 */
void guard_run(const struct child *guard, bool locked, uint64_t fence, int hold_fd);

/* Pass sig on to the command, or with group to its process group. Does not wait. */
void guard_signal(const struct child *guard, int sig, bool group);

/*
 * Let the guard act as if the supervisor were dead: it ends the command's tree, and sends no more
 * events. Accepts a guard that is not there.
 */
void guard_hang_up(const struct child *guard);

/* Receive the next event. False: there is none. */
bool guard_event(struct child *guard, struct guard_event *event);
