/* SPDX-License-Identifier: MIT */
/* What /proc says of one process (proc(5)). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Is there a /proc, and is it that of this process' PID namespace? In the /proc of another
 * namespace the numbers stand for other processes.
 */
bool process_proc_usable(void);

/* The number of its parent; 0: there is none that /proc shows, or no such process. */
pid_t process_parent(pid_t pid);

/* The name of the program, cut to 15 bytes by the kernel. False: not known, and *buf is "". */
bool process_name(pid_t pid, char *buf, size_t size);

/* The effective user of the process; (uid_t)-1: not known. */
uid_t process_user(pid_t pid);

/* Has the process ended? It may not be reaped yet. */
bool process_is_dead(pid_t pid);
