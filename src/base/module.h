/* SPDX-License-Identifier: MIT */
/*
 * Parts of the program that are loaded only when they are needed: shared objects with a library
 * that loads slowly or that not every host has.
 */
#pragma once

struct error;

/* What a module exports as dlock_module begins with this. */
struct module {
	const char *version;		/* the DLOCK_VERSION that it was built from */
	/*
	 * The name and the version of the client library, for people. The version is that of the
	 * library which is loaded, or of its headers where the library cannot be asked.
	 */
	const char *(*library)(void);
};

/*
 * Loads the shared object dlock-NAME.so, and returns the address of its dlock_module. The object is
 * beside the program (in a build tree), in ../lib/dlock (in an installed tree, which may have been
 * moved as a whole), or in LIBDIR/dlock of the Makefile; of a privileged program (set-user-ID) only
 * there. These are paths and no DT_RPATH, because with that the dynamic linker would look there for
 * the C library, too, at each start. The object stays loaded until the process ends. NULL with
 * ERROR_INTERNAL when the object cannot be loaded, has no such symbol, or was built from another
 * version; its errnum is ENOENT when the object is in none of these places.
 */
const void *module_load(const char *name, struct error *err);
