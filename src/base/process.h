/* SPDX-License-Identifier: MIT */
/* Reads about one process from /proc (proc(5)). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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
