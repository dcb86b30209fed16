/* SPDX-License-Identifier: MIT */
/* Directories that are closed to other users, in directories where other users can write. */
#pragma once

#include <stdbool.h>

struct error;

/*
 * Make path with mode 0700 unless it exists. Refuses a path that is not a directory, such as a
 * symbolic link, that belongs to another user, or that other users can enter. 0, or -1 with *err.
 */
int private_dir_make(const char *path, struct error *err);

/*
 * After private_dir_make() has failed: would it fail in every other process, so that all of them
 * use another directory? Not if it has refused the path, or if there was no space, because the next
 * process may find some.
 */
bool private_dir_impossible(const struct error *err);
