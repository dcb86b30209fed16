/* SPDX-License-Identifier: MIT */
/* How a command ends: its error message, its output, its exit status. */
#pragma once

struct error;

/* Prints "dlock: message" on stderr. Returns the exit status that goes with the error. */
int complain(const struct error *err);

/*
 * Writes out what was printed on stdout. 0, or -1 when any of it could not be written: then
 * output_finish() says why, and the exit status is that of an error.
 */
int output_flush(void);

/* The end of every command, which main() calls: writes out stdout. Returns the exit status. */
int output_finish(int status);
