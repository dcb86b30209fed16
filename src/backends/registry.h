/* SPDX-License-Identifier: MIT */
/*
 * All backends, a row for each scheme of URIs. The engine and the commands reach a backend only
 * through the registry: they find the driver by the scheme, open an object, and call the slots of
 * its table (lock/backend.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/backend.h"
#include "lock/uri.h"

/* A row of the registry. */
struct backend_driver {
	const char *scheme;		/* what a URI begins with */
	const char *summary;		/* for --help; an alias needs none */
	uint16_t port;			/* the default; 0: an alias, or no host has a port */
	/* The scheme of which this one is another name; NULL: it is no alias. */
	const char *alias_of;
	const char *module;		/* the name of the module with ops; NULL: built in */
	const struct backend_ops *ops;	/* built in; NULL with module NULL: compiled out */
	/* As in struct module, for a built-in backend; NULL: it needs no library. */
	const char *(*library)(void);
	/*
	 * The backend needs no network and has no lease, and the supervisor does without a keeper.
	 * The hold lives with a descriptor that dlock's processes share. A URI without a path
	 * means the default directory.
	 */
	bool local;
};

/* All rows, also those without a backend in this build. Ends with one without a scheme. */
extern const struct backend_driver backend_drivers[];

/*
 * Find the driver for the scheme of uri. Returns NULL with ERROR_USAGE that lists the schemes.
 * Completes the URI with the default path, and replaces an alias by its scheme, so that two URIs of
 * one location have one uri_identity().
 */
const struct backend_driver *backend_find(struct uri *uri, struct error *err);

/*
 * Open uri with driver: load the module if needed, and apply ?timeout= and ?connect-timeout=. The
 * caller calls backend_close(), and keeps uri until then. request: the planned acquisition, or
 * NULL; a mode that the backend does not support is ERROR_USAGE. Returns NULL
 * and sets *err on failure.
 */
struct backend *backend_open(const struct backend_driver *driver, const struct uri *uri,
			     const struct request *request, struct error *err);
void backend_close(struct backend *backend);
