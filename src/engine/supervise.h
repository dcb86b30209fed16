/* SPDX-License-Identifier: MIT */
/*
 * The supervisor: the process that the user started, which runs a command under a lock. The
 * supervisor watches signals, the terminal, the keeper, the guard and the clock in poll(), and does
 * nothing that could block. README.md shows a run from its start to its end.
 *
 * Calling sequence, in a command: signals_init(), then supervise_run() or supervise_acquire(), once
 * in a process.
 */
#pragma once

#include "run.h"

struct signals;

/*
 * Returns when nothing is left: the command's tree is dead, the lock released, keeper and guard
 * gone. Inside a hold of the same lock, it runs the command under that.
 */
void supervise_run(const struct run_request *run, const struct run_hooks *hooks,
		   const struct signals *signals, struct run_result *result);

/*
 * Acquires, or acquires inside a hold that the environment tells of, which stays as it is.
 * A keeper stays behind as a daemon if there is a process to hold for, or the
 * backend's locks need one.
 */
void supervise_acquire(const struct acquire_request *acquire, const struct run_hooks *hooks,
		       const struct signals *signals, struct acquire_result *result);
