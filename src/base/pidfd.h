/* SPDX-License-Identifier: MIT */
/*
 * Waits for the end of a process that is not a child, and signals that process, but never a later
 * process with the same number. This uses pidfd_open(2) and pidfd_send_signal(2). Where the kernel
 * is too old for them or a seccomp profile refuses them, the process is known by its number and its
 * start time, and must be polled.
 *
 *	pidfd_init(&process, pid, &err)
 *	poll() until pidfd_look(&process, until_ms): process.fd is readable when it has ended
 *	pidfd_ended(&process), pidfd_signal(&process, SIGTERM)
 *	pidfd_finish(&process)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

struct pidfd {
	int fd;				/* close-on-exec; -1: pidfd_open() is refused */
	pid_t pid;
	unsigned long long start_ticks;	/* of the process; 0: not known */
};

/*
 * *process becomes the process that has this number now. 0, or -1 with ERROR_USAGE: there is no
 * such process, it has ended, or it could not be told from one that gets the number later. The
 * message is what comes after "PID: ".
 */
int pidfd_init(struct pidfd *process, pid_t pid, struct error *err);
void pidfd_finish(struct pidfd *process);

bool pidfd_ended(const struct pidfd *process);

/* until_ms, or an earlier time at which the caller must call pidfd_ended() once more. */
int64_t pidfd_look(const struct pidfd *process, int64_t until_ms);

/* As kill(2), with ESRCH when the process has ended. sig 0: are signals allowed? */
int pidfd_signal(const struct pidfd *process, int sig);

/* As pidfd_open(2): a descriptor that becomes readable when the process ends, or -1 with errno. */
int pidfd_open_once(pid_t pid);
