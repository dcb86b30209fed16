/* SPDX-License-Identifier: MIT */
/*
 * A process that is not our child: waiting for its end, and signalling it and no other that is
 * given its number later. By pidfd_open(2) and pidfd_send_signal(2); where the kernel is too old
 * for these, or a seccomp profile refuses them, by the process' number and the time of its start,
 * which must be looked at again and again.
 *
 *	pidfd_init(&process, pid, &err)
 *	poll: process.fd is readable when it has ended, but until pidfd_look(&process, until_ms)
 *	pidfd_ended(&process), pidfd_signal(&process, SIGTERM)
 */
#ifndef DLOCK_PIDFD_H
#define DLOCK_PIDFD_H

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
 * Stands for the process that has this number now. 0, or -1 with ERROR_USAGE: there is none, it
 * has ended, or it could not be told from one that gets its number later. The message is what
 * comes after "PID: ".
 */
int pidfd_init(struct pidfd *process, pid_t pid, struct error *err);
void pidfd_finish(struct pidfd *process);

bool pidfd_ended(const struct pidfd *process);

/* Until when to sleep at most, before pidfd_ended() is to be asked. */
int64_t pidfd_look(const struct pidfd *process, int64_t until_ms);

/* As kill(2); sig 0 tells whether signals would be allowed. ESRCH when it has ended. */
int pidfd_signal(const struct pidfd *process, int sig);

/* A descriptor that becomes readable when this process ends, or -1 with errno: nothing else. */
int pidfd_open_once(pid_t pid);

#endif
