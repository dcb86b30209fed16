/* SPDX-License-Identifier: MIT */
/* Directories that are this user's alone, in places where others can write. */
#ifndef DLOCK_PRIVATE_DIR_H
#define DLOCK_PRIVATE_DIR_H

struct error;

/*
 * Makes path, mode 0700, unless it is there; refuses what is no directory, not ours
 * or open to others, a symbolic link above all. 0, or -1 with *err.
 */
int private_dir_make(const char *path, struct error *err);

#endif
