/* SPDX-License-Identifier: MIT */
/*
 * The directory of a lock, in which its places are, and the root above all directories. Both are
 * made when the first place finds that they are missing. A server of ZooKeeper 3.5.3 or newer
 * removes an empty directory by itself; on older servers, dlock removes it with
 * zk_tidy_directory().
 */
#pragma once

#include <stdbool.h>

#include "call.h"

struct error;
struct zk_backend;

/* Writes the path of a lock's directory. */
void zk_directory(const struct zk_backend *zk, const char *name, char path[static ZK_PATH_SIZE]);

/* Make the root, or a directory in it and the root if it is missing. 0, or -1 with *err. */
int zk_make_root(struct zk_backend *zk, struct error *err);
int zk_make_directory(struct zk_backend *zk, const char *path, struct error *err);

/*
 * The data of a directory that is no container, for before 3.5.3 there are none. "&" and pairs may
 * follow, which an earlier dlock has written.
 */
#define ZK_OWN_DIRECTORY "dlock"
/* Is this the data of such a directory? */
bool zk_is_own_directory(const struct zk_call *data);

/* Removes a directory, which the server refuses unless it is empty. */
void zk_remove_directory(struct zk_backend *zk, const char *path);
/* The same, only for a directory that no server removes. */
void zk_tidy_directory(struct zk_backend *zk, const char *path, const struct Stat *stat);
