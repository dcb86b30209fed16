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

struct config_duration {
	bool set;
	int64_t ms;		/* CLOCK_NEVER for a wait without a limit */
};

struct config_backend {
	char *name;
	char *uri;
	char *uri_place;	/* "PATH:LINE" of uri, for messages */
	struct config_duration ttl, wait, kill_after;
};

enum config_choice { CONFIG_UNSET, CONFIG_YES, CONFIG_NO };

struct config {
	char *backend;		/* NULL: not set; else a URI or the name of a section */
	char *backend_place;	/* "PATH:LINE" of it, for messages; NULL: not set */
	struct config_duration ttl, wait;
	enum config_choice contain;
	enum config_choice require_backend;
	enum config_choice log;	/* CONFIG_YES: by syslog, too */
	struct config_backend *backends;
	size_t backend_count;
	char *exposed_path;	/* first file with a password that others can read; NULL: none */
};

/*
 * Reads path into *config, which the caller has zeroed before the first load. A setting that is set
 * already stays, so the file that wins is loaded first. A file that does not exist is no error.
 * Returns 0, or -1 with ERROR_USAGE that names path and line: the file is unreadable or not
 * regular, others can write to it, it belongs neither to root nor to this user, a key is unknown, a
 * value is bad, a key or a section comes twice in one file, a section has no uri, the syntax is
 * bad. After -1 only config_finish() may be called; but when errnum is EACCES, which says that this
 * user may not read the file, *config is as it was. textfile.h says which users count as "other
 * users".
 */
int config_load(struct config *config, const char *path, struct error *err);

/*
 * As config_load() from a NUL-terminated text, which other users can read if it is exposed; path
 * is for messages only.
 */
int config_load_text(struct config *config, const char *text, const char *path, bool exposed,
		     struct error *err);

/* The backend called name, or NULL. The config owns it. */
const struct config_backend *config_find(const struct config *config, const char *name);

void config_finish(struct config *config);

/*
 * Parse what a user writes for a TTL, which has a least one, and for a wait, which is CLOCK_NEVER
 * for "none". 0, or -1 with ERROR_USAGE.
 */
int config_parse_ttl(const char *text, int64_t *ms, struct error *err);
int config_parse_wait(const char *text, int64_t *ms, struct error *err);
