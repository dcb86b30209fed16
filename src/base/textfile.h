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
	 * Others can read it: all of them, or the group. As in libpq, the group
	 * does not count in a file that root owns (root:app 0640 is how a
	 * service gets a secret that it cannot change).
	 */
	bool exposed;
};

/*
 * Reads a whole file, and never blocks on one that is not regular. Returns 0,
 * and the caller calls textfile_finish(); 1 when it is optional and there is none;
 * or -1 with ERROR_USAGE that names path.
 */
int textfile_read(struct textfile *file, const char *path, bool optional, struct error *err);
void textfile_finish(struct textfile *file);	/* wipes; accepts a zeroed one */

#endif
