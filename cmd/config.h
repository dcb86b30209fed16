/* SPDX-License-Identifier: MIT */
/*
 * Defaults from INI files. The keys before the first section are backend, ttl, wait, contain and
 * require-backend (yes or no) and log (syslog or stderr). A section is named after a backend, and
 * has its uri, and ttl, wait and kill-after where they differ for this backend. The name has up to
 * 48 bytes without a blank, ':', '/', '@', '[' or ']', so that it cannot be mistaken for a URI:
 *
 *	backend = prod
 *	ttl = 1m
 *	[prod]
 *	uri = redis://cache1/0
 *	wait = none
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* Its strings belong to the text and the table of keys, and last as long as the process. */
struct config_entry {
	const char *section;	/* "" before the first one */
	const char *key;	/* "" for the line that begins the section */
	const char *value;	/* never empty, but of the line that begins a section */
	char location[264];	/* "PATH:LINE", for messages */
};

struct config {
	struct config_entry *entries;
	size_t count;
	/* The first file with a password that others can read; NULL: there is none. */
	const char *exposed_path;
};

/*
 * Append the entries of path to *config, which the caller has zeroed before the first load. The
 * file that wins is loaded first. A file that does not exist is no error. Returns 0, or -1 with
 * ERROR_USAGE that names path and line, if:
 * - the file is unreadable (errnum EACCES, and *config is as it was) or not regular,
 * - others can write to it (textfile.h), or it belongs neither to root nor to this user,
 * - a key is unknown, or a value is bad,
 * - a key or a section comes twice in one file, or a section has no uri,
 * - the syntax is bad.
 * The text of the file and path are used to the end of the process: the caller must not free path.
 */
int config_load(struct config *config, const char *path, struct error *err);

/*
 * As config_load(), from a NUL-terminated text, which is cut into the strings of the entries.
 * exposed: other users can read it.
 */
int config_load_text(struct config *config, char *text, const char *path, bool exposed,
		     struct error *err);

/* Return the entry of a key in the first loaded file that has one, or NULL. */
const struct config_entry *config_get(const struct config *config, const char *section,
				      const char *key);

/*
 * Parse a TTL, which has a least value, and a wait: CLOCK_NEVER for "none". Return 0, or -1 with
 * ERROR_USAGE.
 */
int config_parse_ttl(const char *text, int64_t *ms, struct error *err);
int config_parse_wait(const char *text, int64_t *ms, struct error *err);
