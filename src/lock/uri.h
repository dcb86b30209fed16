/* SPDX-License-Identifier: MIT */
/*
 * Backend URIs: scheme:[//[user[:password]@]host[:port][,host...]][path][?a=b&c=d]
 * User, password, host, path, parameter names and values are percent-decoded; a
 * control character is an error, decoded or not. Hosts may be IPv6 in brackets
 * (stored without them). No I/O but in uri_load_password().
 *
 * Stricter than RFC 3986 in one point: '@' stands for itself only once, before
 * the hosts, in a parameter's value, and in the path of a scheme that has only
 * a path (file:, *+unix:). So a password with a '/', '?', '#' or '@' that was
 * not encoded is told from a path, and never shows up in a message about one.
 */
#ifndef DLOCK_URI_H
#define DLOCK_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

struct uri_host {
	char *name;		/* never empty */
	uint16_t port;		/* 0: the scheme's default */
};

struct uri_param {
	char *name;
	char *value;		/* "" when there was no "=" */
};

struct uri {
	char *scheme;		/* lower case */
	char *user;		/* NULL: none given */
	char *password;		/* NULL: none given */
	struct uri_host *hosts;
	size_t host_count;	/* 0: no authority, or nothing in it but user and password */
	char *path;		/* decoded; "" or begins with "/" */
	struct uri_param *params;
	size_t param_count;
	/* private: one block that holds the arrays and strings above, ... */
	char *storage;
	size_t storage_size;
	char *loaded_password;	/* ... but not a password from a file */
};

/*
 * Parses text into *uri, which the caller releases with uri_finish(). Returns
 * 0, or -1 with ERROR_USAGE; messages never contain the password. The same
 * parameter twice is an error.
 */
int uri_parse(struct uri *uri, const char *text, struct error *err);
void uri_finish(struct uri *uri);	/* accepts a zeroed uri; wipes the password */

/* Value of a parameter, or NULL. The uri owns it. */
const char *uri_param(const struct uri *uri, const char *name);

/* 0 when every parameter is in known (NULL-terminated), else -1: names the odd one. */
int uri_check_params(const struct uri *uri, const char *const known[],
		     struct error *err);

/* A parameter that is a duration, in ms; fallback when absent. 0 or -1. */
int uri_param_duration(const struct uri *uri, const char *name,
		       int64_t fallback_ms, int64_t *ms, struct error *err);

/*
 * Follows ?password-file=PATH, when given: the first line of the file becomes
 * the password (kept in memory that uri_finish() wipes). *exposed tells whether
 * others may read that file (see textfile.h). Returns 0, or -1 with ERROR_USAGE:
 * unreadable, not a regular file, first line empty, another password in the URI.
 */
int uri_load_password(struct uri *uri, bool *exposed, struct error *err);

/*
 * The place in text where the password of a URI stands: returns its first byte
 * and its length in *length, or NULL when text holds none, or an empty one.
 * Needs no valid URI: exact in a valid one, rather too much than too little in
 * any other text. Used to blank argv and to redact what is printed.
 */
const char *uri_find_password(const char *text, size_t *length);

/*
 * A number that is the same for URIs that mean the same place: scheme, hosts, path,
 * and the parameters that choose among locks; not who connects, nor how long it may take.
 */
uint64_t uri_identity(const struct uri *uri);

/*
 * Writes text with its password replaced by "***", fit for a message (see
 * text_clean() in text.h). Returns buf; cuts at size.
 */
const char *uri_redact(const char *text, char *buf, size_t size);

/*
 * Percent-encodes length bytes of text: all but A-Z a-z 0-9 - . _ ~ / : become
 * %XX. Writes a NUL. Returns the length that the whole needs, as snprintf().
 */
size_t uri_encode(const char *text, size_t length, char *buf, size_t size);

/*
 * Decodes %XX in place within length bytes; returns the new length, or -1 for a
 * bad escape.
 */
ptrdiff_t uri_decode(char *text, size_t length);

#endif
