/* SPDX-License-Identifier: MIT */
/*
 * All backends, one row each. The engine and the commands reach a backend only through the
 * registry: they find the driver by the scheme of a URI, open an object, and call the slots of its
 * table (lock/backend.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/backend.h"
#include "lock/uri.h"

/* What a URI may begin with. A list of these ends with a row without a name. */
struct backend_scheme {
	const char *name;
	/* Another name of this scheme, and nothing more. NULL: name is a scheme of its own. */
	const char *alias_of;
	const char *summary;		/* for --help; an alias needs none */
	uint16_t port;			/* the default; 0: an alias, or no host has a port */
};

/* A row of the registry. */
struct backend_driver {
	const struct backend_scheme *schemes;
	const char *module;		/* shared object with the ops; NULL: built in */
	const struct backend_ops *ops;	/* built in; NULL with module NULL: compiled out */
	/* As in struct backend_module, of a backend that is built in; NULL: it needs no library. */
	const char *(*library)(void);
	/*
	 * The backend needs no network and has no lease: the supervisor itself does everything,
	 * without a keeper. The hold lives in a descriptor that dlock's processes share. open()
	 * sets place of struct backend.
	 */
	bool local;
};

/* All drivers, also those without a backend in this build. Ends with a row without schemes. */
extern const struct backend_driver backend_drivers[];

/*
 * The driver for the scheme of uri, or NULL with ERROR_USAGE that lists the schemes. Where the
 * scheme is an alias, uri gets the scheme that it stands for: backends know no aliases, and two
 * URIs that differ only in the alias mean the same place (uri_identity()).
 */
const struct backend_driver *backend_find(struct uri *uri, struct error *err);

/*
 * Opens uri with driver: loads the module if needed, applies ?timeout= and
 * ?connect-timeout=. The caller closes with backend_close(). NULL with *err.
 */
struct backend *backend_open(const struct backend_driver *driver,
			     const struct uri *uri, struct error *err);
/*
 * The same for a process that is going to acquire: refuses, with ERROR_USAGE, a mode that the
 * backend does not have, and --replace-waiters where its queue does not have it.
 */
struct backend *backend_open_for(const struct request *request, const struct backend_driver *driver,
				 const struct uri *uri, struct error *err);
void backend_close(struct backend *backend);

/*
 * Writes where the locks of uri are, for people and without a secret: "redis h1.example.com:6379/0"
 * or "file:/run/user/1000/dlock". Talks to no server. Returns buf.
 */
const char *backend_place(const struct backend_driver *driver, const struct uri *uri,
			  char buf[static URI_PLACE_SIZE]);
/*
 * A number for the place of these locks: uri_identity(), of the directory where the URI names none.
 */
uint64_t backend_identity(const struct backend_driver *driver, const struct uri *uri);
/*
 * The name and the version of the library that the driver's backends use; loads the module for
 * that. NULL with *err when the module cannot be loaded, and without when there is no library. The
 * driver is not one that was compiled out.
 */
const char *backend_library(const struct backend_driver *driver, struct error *err);
/* The same of the library that encrypts connections, in a build that has TLS. */
const char *backend_tls_library(struct error *err);
