/* SPDX-License-Identifier: MIT */
/*
 * A run and an acquisition. The calling process becomes the supervisor, which README.md shows from
 * its start to its end.
 *
 * Calling sequence, in a command: signals_init(), then supervise_run() or supervise_acquire(), once
 * in a process.
 */
#pragma once

#include "request.h"

struct signals;

/*
 * Run the command under the lock, or inside an outer hold of it. Returns when the command's tree is
 * dead, the lock is released, and keeper and guard have ended.
 */
void supervise_run(const struct run_request *run, const struct run_hooks *hooks,
		   const struct signals *signals, struct run_result *result);

/*
 * Acquire, or join the outer hold of the environment. A keeper stays as a daemon if there is a
 * process to hold for, or if the backend's locks live with a process.
 */
void supervise_acquire(const struct run_request *run, const struct run_hooks *hooks,
		       const struct signals *signals, struct acquire_result *result);
