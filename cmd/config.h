/* SPDX-License-Identifier: MIT */
/*
 * Defaults from INI files. The keys before the first section are backend, ttl, wait and
 * contain (yes or no). A section has the name of a backend (up to 48 bytes without a blank, ':' or
 * '/', so that the name cannot be mistaken for a URI) and one key, uri:
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
#include <stdint.h>

struct error;

struct config_backend {
	char *name;
	char *uri;
};

struct config_duration {
	bool set;
	int64_t ms;
};

enum config_choice { CONFIG_UNSET, CONFIG_YES, CONFIG_NO };

struct config {
	char *backend;		/* NULL: not set; else a URI or the name of a section */
	struct config_duration ttl, wait;
	enum config_choice contain;
	struct config_backend *backends;
	size_t backend_count;
	bool password_exposed;	/* other users can read a file with a password in it */
	char *exposed_path;	/* the first such file, or NULL */
};

/*
 * Reads path into *config, which the caller has zeroed before the first load. A setting that is set
 * already stays, so the file that wins is loaded first. A file that does not exist is no error.
 * Returns 0, or -1 with ERROR_USAGE that names path and line: the file is unreadable or not
 * regular, a key is unknown, a value is bad, a key or a section comes twice in one file, a section
 * has no uri, the syntax is bad. After -1 only config_finish() may be called. textfile.h says which
 * users count as "other users".
 */
int config_load(struct config *config, const char *path, struct error *err);

/* As config_load() from a NUL-terminated text; path is for messages only. */
int config_load_text(struct config *config, const char *text, const char *path,
		     struct error *err);

/* The URI of the backend called name, or NULL. The config owns it. */
const char *config_uri(const struct config *config, const char *name);

void config_finish(struct config *config);

#endif
