/* SPDX-License-Identifier: MIT */
/* Where lock files are, and how they are opened in directories where others can write, too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;

/* A file name less ".lock" and what may follow it. */
#define FILE_ENCODED_SIZE 251

/*
 * The default directory: for root /run/dlock; for others /run/lock/dlock-UID if /run/lock is a
 * sticky directory where everybody can write; else, and where those cannot be made, /tmp/dlock-UID.
 * It is made when missing, and refused unless it is this user's alone. The caller frees the text;
 * NULL with *err.
 */
char *file_path_default(struct error *err);

#define FILE_DEFAULT_SIZE 40

/*
 * Write the default directory of a user: number 0 is the one that is tried first, and number 1 the
 * one where that cannot be made. False: there is no directory of this number.
 */
bool file_path_of_user(uid_t user, int number, char path[static FILE_DEFAULT_SIZE]);

/*
 * The file's name for a lock's name. '%', '/' and a leading '.' become %XX. Where that
 * would be too long for a file name, the name stands as it is behind a leading \001, and \002
 * stands for a slash: control bytes, which no lock's name has.
 */
void file_path_encode(const char *name, char encoded[static FILE_ENCODED_SIZE]);

/* The name for a directory entry NAME.lock; false when it is no lock file. */
bool file_path_decode(const char *entry, char *name, size_t size);

/*
 * Opens the lock file of name (slot 0) or of one of its slots (from 1), made when
 * missing. A symbolic link, anything but a regular file, or a file with a second
 * hard link is refused. The descriptor, or -1 with *err.
 */
int file_path_open(const char *directory, const char *name, int slot, struct error *err);

/* Says in *err that there is no such directory, and how to make it. Returns -1. */
int file_path_missing(const char *directory, struct error *err);

/*
 * False if there is certainly no lock file of this name, nor something in its place. When that
 * cannot be seen, opening the file says why.
 */
bool file_path_exists(const char *directory, const char *name);

/* Removes the lock file of name. Only for a lock that nobody else can want. */
void file_path_remove(const char *directory, const char *name);

/* Is fd still the file that has this name? False after another one took its place. */
bool file_path_current(const char *directory, const char *name, int fd);
