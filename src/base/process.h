/* SPDX-License-Identifier: MIT */
/*
 * Reads about one process from /proc (proc(5)). Waits for the end of a process that is not a child,
 * and signals it, but never a later process with the same number: pidfd_open(2) and
 * pidfd_send_signal(2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;

/*
 * Is there a /proc of this process' PID namespace? In that of another namespace the numbers belong
 * to other processes.
 */
bool process_proc_usable(void);

/* Return the pid of the parent; 0: /proc shows none, or there is no such process. */
pid_t process_parent(pid_t pid);

/* Read the name of the program, which the kernel cuts to 15 bytes. False: *buf is "". */
bool process_name(pid_t pid, char *buf, size_t size);

/* Return the effective user of the process; (uid_t)-1: unknown. */
uid_t process_user(pid_t pid);

/* Has the process ended? It may not be reaped yet. */
bool process_is_dead(pid_t pid);

/*
 * Has this process a child, or with a group one in this group, perhaps a zombie? The number of an
 * empty group may pass to a process of somebody else.
 */
bool process_has_child(pid_t group);

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
