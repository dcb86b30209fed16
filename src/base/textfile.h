/* SPDX-License-Identifier: MIT */
/*
 * Small text files: dlock.conf and ?password-file=, which may contain a secret, and files of /proc.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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
	bool writable;		/* by the group or by all other users */
	uid_t owner;
};

/*
 * Read a whole file. Refuses a file that is not regular, and does not block on it. Returns 0: the
 * caller calls textfile_finish(); 1: there is no such file, and it is optional; -1 with ERROR_USAGE
 * that names path.
 */
int textfile_read(struct textfile *file, const char *path, bool optional, struct error *err);
void textfile_finish(struct textfile *file);	/* wipes; accepts a zeroed one */

/*
 * Read the beginning of a file, as much as fits, and add a NUL. Allocates no memory. False: the
 * file cannot be read or is empty, and buf is "".
 */
bool textfile_start(const char *path, char *buf, size_t size);
