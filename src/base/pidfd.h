/* SPDX-License-Identifier: MIT */
/*
 * Waits for the end of a process that is not a child, and signals it, but never a later process
 * with the same number: pidfd_open(2) and pidfd_send_signal(2).
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct error;

struct pidfd {
	int fd;			/* readable when it has ended; close-on-exec, and never closed */
	pid_t pid;
};

/*
 * Set *process to the process that has this number now. Returns 0, or -1 with *err: there is no
 * such process, or it has ended (ERROR_USAGE), or the kernel refuses pidfd_open(2)
 * (ERROR_INTERNAL). The caller prefixes the message with the pid.
 */
int pidfd_init(struct pidfd *process, pid_t pid, struct error *err);

bool pidfd_ended(const struct pidfd *process);

/* As kill(2), with ESRCH when the process has ended. sig 0: are signals allowed? */
int pidfd_signal(const struct pidfd *process, int sig);

/* As pidfd_open(2): a descriptor that becomes readable when the process ends, or -1 with errno. */
int pidfd_open_once(pid_t pid);
