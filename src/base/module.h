/* SPDX-License-Identifier: MIT */
/*
 * Parts of the program that are loaded only when they are needed: shared objects with a library
 * that loads slowly or that not every host has.
 */
#pragma once

struct error;

/*
 * Loads the shared object called file, and returns the address of its symbol. Looks for it beside
 * the program (in a build tree), in ../lib/dlock (in an installed tree, which may have been moved as
 * a whole), and in LIBDIR/dlock (Makefile); a privileged program (set-user-ID) skips the first two.
 * These are paths and no DT_RPATH, because with that the dynamic linker would look there for the C
 * library, too, at each start. The object stays loaded until the process ends. NULL with
 * ERROR_INTERNAL when the object cannot be loaded or has no such symbol; its errnum is ENOENT when
 * the object is in none of these places.
 */
const void *module_load(const char *file, const char *symbol, struct error *err);
