/* SPDX-License-Identifier: MIT */
/* Where lock files are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;

/* A path that the kernel takes has room for any file name behind a directory of this length. */
#define FILE_NAME_SIZE 300
#define FILE_DIRECTORY_MAX (4096 - FILE_NAME_SIZE)

#define FILE_DEFAULT_SIZE 40

/*
 * Find the default directory, and create it if make is set: /run/dlock for root, and for others
 * /run/lock/dlock-UID if /run/lock is a sticky directory where everybody can write; otherwise, or
 * if that cannot be made, /tmp/dlock-UID.
 * Refuses a directory that others can write or own. Returns its path, in static memory, or "" and
 * sets *err.
 */
char *file_path_default(bool make, struct error *err);

/*
 * Write the default directory of a user: number 0 is tried first, and number 1 after it. False:
 * there is no directory of this number.
 */
bool file_path_of_user(uid_t user, int number, char path[static FILE_DEFAULT_SIZE]);

/*
 * Return the path of a lock's file, for free(): DIRECTORY/NAME.lock. In the name '%', '/' and a
 * leading '.' become %XX. If this is too long for a file name, the name is unchanged behind a
 * leading \001, with \002 for a slash: control bytes, which no lock's name has.
 */
char *file_path_make(const char *directory, const char *name);

/* Write the lock's name for a directory entry NAME.lock. False: it is no lock file. */
bool file_path_decode(const char *entry, char *name, size_t size);
