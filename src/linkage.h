/* SPDX-License-Identifier: MIT */
/*
 * How this program was put together. The `dlock` that people start is linked statically:
 * without the dynamic loader, and with fewer pages to copy at each fork, it is an eighth
 * faster, and waiters take less memory. It has the backends file, redis and zookeeper: to
 * load ZooKeeper's client took as long as a fifth of a run. What needs a loader, MySQL's
 * client with its OpenSSL and its plugins, or the name service switch of the C library, is
 * in dlock-full, the same program linked dynamically, which the static one turns into
 * (exec) as soon as it knows that the URI asks for it. linkage_static.c and linkage_dynamic.c
 * implement this; where the C library has no archive, dlock itself is the dynamic one, and
 * ZooKeeper's client in a module, too.
 */
#ifndef DLOCK_LINKAGE_H
#define DLOCK_LINKAGE_H

struct backend_driver;
struct backend_module;
struct error;
struct uri;

/*
 * Called before anything is begun that an exec would lose. Returns 0 when this program can
 * serve uri; becomes dlock-full with argv, its arguments from its own name on, when that
 * can; else -1 with ERROR_INTERNAL.
 */
int linkage_suit(const struct backend_driver *driver, const struct uri *uri, char **argv,
	      struct error *err);

/*
 * The module that driver->module names, loaded for as long as the process lives; NULL with
 * ERROR_INTERNAL.
 */
const struct backend_module *linkage_module(const char *name, struct error *err);

/*
 * Calls try with the places where a file called name, which belongs to the program, may be,
 * until that returns something: beside the program when it runs from its build tree, then in
 * ../lib/dlock (bin/dlock and lib/dlock move together when a tree is relocated), last in the
 * directory fixed at build time. A privileged program (set-user-ID) looks in the fixed one
 * only, for its own path may be a link that somebody else made; nothing here reads the
 * environment. NULL when nothing was found.
 */
void *linkage_find(const char *name, void *(*try)(const char *path, void *context), void *context);

#endif
