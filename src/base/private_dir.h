/* SPDX-License-Identifier: MIT */
/* Directories that are this user's alone, in places where others can write. */
#ifndef DLOCK_PRIVATE_DIR_H
#define DLOCK_PRIVATE_DIR_H

#include <stdbool.h>

struct error;

/*
 * Makes path, mode 0700, unless it is there; refuses what is no directory, not ours
 * or open to others, a symbolic link above all. 0, or -1 with *err.
 */
int private_dir_make(const char *path, struct error *err);

/*
 * After private_dir_make() has failed: is it for a reason that stays, so that another
 * directory may be used in its place? Not when it was refused, nor for want of space,
 * which the next process may find.
 */
bool private_dir_impossible(const struct error *err);

#endif
