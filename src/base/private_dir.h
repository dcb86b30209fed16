/* SPDX-License-Identifier: MIT */
/* Directories that are closed to other users, in places where other users can write. */
#pragma once

#include <stdbool.h>

struct error;

/*
 * Makes path with mode 0700 unless it exists. Refuses a path that is not a directory, above all a
 * symbolic link, that belongs to another user, or that other users can enter. 0, or -1 with *err.
 */
int private_dir_make(const char *path, struct error *err);

/*
 * After private_dir_make() has failed: would it fail in every other process, too, so that all of
 * them use another directory? Not when it has refused the path, and not when there was no space,
 * for the next process may find some.
 */
bool private_dir_impossible(const struct error *err);
