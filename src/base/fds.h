/* SPDX-License-Identifier: MIT */
/*
 * Closes the descriptors of a process that outlives its caller. If such a process kept the caller's
 * pipes open, readers of these pipes would wait for it.
 */
#pragma once

/*
 * Closes the descriptors from 3 on that the program was started with. It knows them by the missing
 * close-on-exec flag, which all of its own descriptors have.
 */
void fds_close_inherited(void);

/* Replaces standard input, output and error by /dev/null. */
void fds_drop_standard(void);

/*
 * Opens something under those of the numbers 0 to 2 that are closed, so that no file that is opened
 * later is mistaken for standard input, output or error. Reading and writing fail with EBADF as on
 * a closed descriptor, and an exec closes them.
 */
void fds_fill_standard(void);
