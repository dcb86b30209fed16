/* SPDX-License-Identifier: MIT */
/* Small text files that may carry a secret: dlock.conf, ?password-file=. */
#ifndef DLOCK_TEXTFILE_H
#define DLOCK_TEXTFILE_H

#include <stdbool.h>
#include <stddef.h>

struct error;

#define TEXTFILE_MAX_BYTES 65536

struct textfile {
	char *text;		/* NUL-terminated, without any other NUL */
	size_t length;
	/*
	 * Other users can read the file: all of them, or the group. As in libpq, the group of a
	 * file that root owns does not count: with root:app 0640 a service gets a secret that it
	 * cannot change.
	 */
	bool exposed;
};

/*
 * Reads a whole file. Refuses a file that is not regular, and does not block on it. 0: the caller
 * calls textfile_finish(); 1: there is no such file, and it is optional; -1 with ERROR_USAGE that
 * names path.
 */
int textfile_read(struct textfile *file, const char *path, bool optional, struct error *err);
void textfile_finish(struct textfile *file);	/* wipes; accepts a zeroed one */

#endif
