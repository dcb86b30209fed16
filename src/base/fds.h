/* SPDX-License-Identifier: MIT */
/*
 * Closes the descriptors of a process that outlives its caller. Otherwise readers of the caller's
 * pipes would wait for this process.
 */
#pragma once

/*
 * Close the descriptors from 3 on that the program was started with: those without the
 * close-on-exec flag, which all of its own descriptors have. Its own ones must have got the lowest
 * free numbers; one that was moved far above the others is closed, too. Returns 0, or -1 with errno
 * if the kernel refuses close_range().
 */
int fds_close_inherited(void);

/*
 * Open those of the descriptors 0 to 2 that are closed, so that no later file is mistaken for
 * standard input, output or error. Reading and writing fail with EBADF as on a closed descriptor,
 * and an exec closes them.
 */
void fds_fill_standard(void);

/* Replace standard input, output and error by such descriptors. */
void fds_drop_standard(void);
