/* SPDX-License-Identifier: MIT */
/*
 * All backends, one row each. The engine and the commands reach a backend only through here: they
 * find its driver by the scheme of a URI, open an object of it, and call the slots of its table
 * (lock/backend.h).
 */
#ifndef DLOCK_REGISTRY_H
#define DLOCK_REGISTRY_H

#include <stdbool.h>

#include "lock/backend.h"

/* A row of the registry. */
struct backend_driver {
	const char *const *schemes;	/* NULL-terminated */
	const char *module;		/* shared object with the ops; NULL: built in */
	const struct backend_ops *ops;	/* built in; NULL with module NULL: compiled out */
	/*
	 * The backend needs no network and has no lease: the supervisor itself does everything,
	 * without a keeper. The hold lives in a descriptor that dlock's processes share.
	 */
	bool local;
	const char *summary;		/* for --help */
};

/* All drivers, also those without a backend in this build. Ends with a row without schemes. */
extern const struct backend_driver backend_drivers[];

/* The driver for a scheme, or NULL with ERROR_USAGE that lists all schemes. */
const struct backend_driver *backend_find(const char *scheme, struct error *err);

/*
 * Opens uri with driver: loads the module if needed, applies ?timeout= and
 * ?connect-timeout=. The caller closes with backend_close(). NULL with *err.
 */
struct backend *backend_open(const struct backend_driver *driver,
			     const struct uri *uri, struct error *err);
void backend_close(struct backend *backend);

#endif
