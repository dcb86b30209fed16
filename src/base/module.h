/* SPDX-License-Identifier: MIT */
/*
 * Parts of the program that are loaded when they are needed: shared objects that bring along
 * a library which is slow to load, or which not everybody has.
 */
#ifndef DLOCK_MODULE_H
#define DLOCK_MODULE_H

struct error;

/*
 * Loads the shared object called file, and returns the address of its symbol. The file is looked
 * for beside the program (a build tree), then in ../lib/dlock (bin/dlock and lib/dlock move
 * together when a tree is relocated), last in the directory fixed at build time. A privileged
 * program (set-user-ID) looks in the fixed one only, for its own path may be a link that somebody
 * else made. Nothing here reads the environment. The object stays loaded until the process ends.
 * NULL with ERROR_INTERNAL when no such file can be loaded, or when it has no such symbol.
 */
const void *module_load(const char *file, const char *symbol, struct error *err);

#endif
