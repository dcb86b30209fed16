/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of a process that outlives the one that started it: pipes of the caller's that stay
 * open in it would keep who reads from them waiting.
 */
#ifndef DLOCK_FDS_H
#define DLOCK_FDS_H

#include <stdbool.h>
#include <stddef.h>

/* Closes all descriptors from 3 on, but the count ones in keep (-1 among them stands for none). */
void fds_close_all_but(const int *keep, size_t count);

/* Closes those from 3 on that the program was started with: its own are close-on-exec. */
void fds_close_inherited(void);

/* Has standard input, output and error lead nowhere. */
void fds_drop_standard(void);

/*
 * Takes the numbers 0 to 2 where nothing is open there, so that no file that is opened later is
 * mistaken for standard input or output. Reading and writing fail (EBADF), as if they were closed,
 * and after an exec they are.
 */
void fds_fill_standard(void);

#endif
