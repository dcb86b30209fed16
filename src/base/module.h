/* SPDX-License-Identifier: MIT */
/*
 * Parts of the program that are loaded only when they are needed: shared objects with a library
 * that loads slowly or that not every host has.
 */
#pragma once

struct error;

/* The beginning of the object that a module exports as dlock_module. */
struct module {
	const char *version;		/* the DLOCK_VERSION that it was built from */
	/*
	 * Returns the name and the version of the client library, for people. The version is that
	 * of the loaded library, or of its headers if the library does not report one.
	 */
	const char *(*library)(void);
};

/*
 * Load the shared object dlock-NAME.so, and return the address of its dlock_module. The object is
 * beside the program (in a build tree), in ../lib/dlock (in an installed tree, which may have been
 * moved as a whole), or in LIBDIR/dlock of the Makefile; for a set-user-ID program only there. A
 * DT_RPATH instead would slow each start: the dynamic linker would search it for the C library. The
 * object stays loaded until the process ends. Returns NULL with ERROR_INTERNAL when the object
 * cannot be loaded, has no such symbol, or was built from another version; errnum is ENOENT when it
 * is in none of these directories.
 */
const void *module_load(const char *name, struct error *err);

/* How names of hosts are found, if not by all that this host has: the end of a message, or "". */
extern const char module_names[];
