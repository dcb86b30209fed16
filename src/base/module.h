/* SPDX-License-Identifier: MIT */
/*
 * Parts of the program that are loaded only when they are needed: shared objects with a library
 * that loads slowly or that not every host has.
 */
#pragma once

struct error;

/*
 * Loads the shared object called file, and returns the address of its symbol. The object is looked
 * for beside the program (in a build tree), then in ../lib/dlock (in an installed tree, which may
 * have been moved as a whole), and last in the directory that was fixed at build time. A privileged
 * program (set-user-ID) looks only in the last one, because its own path may be a link that
 * somebody else made. The environment has no influence. The object stays loaded until the process
 * ends. NULL with ERROR_INTERNAL when the object cannot be loaded or has no such symbol; its errnum
 * is ENOENT when the object is in none of these places.
 */
const void *module_load(const char *file, const char *symbol, struct error *err);
