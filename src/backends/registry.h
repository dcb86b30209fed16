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
	/* Another name of this scheme, and nothing more. NULL: scheme is one of its own. */
	const char *alias_of;
	const char *module;		/* its name, where the ops are; NULL: they are built in */
	const struct backend_ops *ops;	/* built in; NULL with module NULL: compiled out */
	/* As in struct module, of a backend that is built in; NULL: it needs no library. */
	const char *(*library)(void);
	/*
	 * The backend needs no network and has no lease: the supervisor itself does everything,
	 * without a keeper. The hold lives in a descriptor that dlock's processes share.
	 */
	bool local;
	/* The path of a URI that has none, in static memory; "": it cannot be used. May be NULL. */
	char *(*default_path)(void);
};

/* All rows, also those without a backend in this build. Ends with one without a scheme. */
extern const struct backend_driver backend_drivers[];

/*
 * The driver for the scheme of uri, or NULL with ERROR_USAGE that lists the schemes. Completes the
 * URI, so that two URIs that mean the same place have one uri_identity(): it gets the default path,
 * and instead of an alias the scheme that this stands for. Backends know no aliases.
 */
const struct backend_driver *backend_find(struct uri *uri, struct error *err);

/*
 * Opens uri with driver: loads the module if needed, applies ?timeout= and ?connect-timeout=. The
 * caller closes with backend_close(). request: what is going to be acquired, or NULL; a mode that
 * the backend does not have, or --replace-waiters where its queue does not have it, is ERROR_USAGE.
 * NULL with *err.
 */
struct backend *backend_open(const struct backend_driver *driver, const struct uri *uri,
			     const struct request *request, struct error *err);
void backend_close(struct backend *backend);
