/* SPDX-License-Identifier: MIT */
/*
 * Defaults from INI files (libinih). Keys before any section: backend, ttl,
 * wait, contain (yes or no). Every section is a backend's name (up to 48 bytes, no
 * blank, ':' or '/', so that it is never taken for a URI) with one key, uri:
 *
 *	backend = prod
 *	ttl = 1m
 *	[prod]
 *	uri = redis://cache1/0
 */
#ifndef DLOCK_CONFIG_H
#define DLOCK_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct error;

struct config_backend {
	char *name;
	char *uri;
};

struct config {
	char *backend;		/* NULL: not set; else a URI or the name of a section */
	char *ttl;		/* NULL, or a valid duration as written */
	char *wait;		/* likewise */
	char *contain;		/* NULL, "yes" or "no" */
	struct config_backend *backends;
	size_t backend_count;
	bool password_exposed;	/* others can read a file with a password in it */
	char *exposed_path;	/* the first such file, or NULL */
};

/*
 * Reads path into *config (zeroed by the caller before the first load). What is
 * set already stays, so load the file that wins first. A file that does not
 * exist is no error. Returns 0, or -1 with ERROR_USAGE that names path and line:
 * unreadable, not a regular file, unknown key, bad value, a key or a section
 * twice in one file, a section without uri, bad syntax. After -1 all that is left
 * to do is config_finish(). Who "others" are, textfile.h says.
 */
int config_load(struct config *config, const char *path, struct error *err);

/* As config_load() from a NUL-terminated text; path is for messages only. */
int config_load_text(struct config *config, const char *text, const char *path,
		     struct error *err);

/* The URI of the backend called name, or NULL. The config owns it. */
const char *config_uri(const struct config *config, const char *name);

void config_finish(struct config *config);

#endif
