/* SPDX-License-Identifier: MIT */
/*
 * Backend URIs: scheme:[//[user[:password]@]host[:port][,host...]][path][?a=b&c=d]
 * User, password, host, path and the names and values of parameters are percent-decoded. A control
 * character is an error, encoded or not. A host may be an IPv6 address in brackets, which are not
 * stored. Only uri_load_passwords() does I/O.
 *
 * The parser is stricter than RFC 3986 in one point: an '@' that is not encoded may stand only once
 * before the hosts, in the value of a parameter, and in the path of a scheme that has only a path
 * (file:, *+unix:). So a password with a '/', '?', '#' or '@' that somebody forgot to encode is
 * refused, and no message shows a part of it as a path. Nor do the messages of the parser show a
 * part of the URI.
 */
#pragma once

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
	const char *scheme;	/* lower case; a string of the storage or a constant */
	char *user;		/* NULL: none given */
	char *password;		/* NULL: none given */
	struct uri_host *hosts;
	size_t host_count;	/* 0: there is no authority, or only user and password in it */
	char *path;		/* decoded; "" or begins with "/" */
	struct uri_param *params;
	size_t param_count;
	char *sentinel_password;	/* from ?sentinel-password-file=; NULL: none */
	/* Private: a copy of the text, which has the strings above, and a password from a file. */
	char *storage;
	size_t storage_size;
	char *loaded_password;
};

/*
 * Parses text into *uri, which the caller releases with uri_finish(). A parameter that is given
 * twice is an error. Returns 0, or -1 with ERROR_USAGE, whose message never contains the password.
 */
int uri_parse(struct uri *uri, const char *text, struct error *err);
void uri_finish(struct uri *uri);	/* accepts a zeroed one; wipes the password */

/* Value of a parameter, or NULL. The uri owns it. */
const char *uri_param(const struct uri *uri, const char *name);

/*
 * The parameters that every backend has, for its list of known ones. They say how to reach the
 * place, and have no part in which place the URI means.
 */
#define URI_COMMON_PARAMS "timeout", "connect-timeout", "password-file"

/*
 * 0 when every parameter is in known, which ends with NULL; else -1, and *err names an unknown one.
 */
int uri_check_params(const struct uri *uri, const char *const known[],
		     struct error *err);

/* A parameter that is a duration, in ms; fallback_ms when there is none. 0 or -1. */
int uri_param_duration(const struct uri *uri, const char *name,
		       int64_t fallback_ms, int64_t *ms, struct error *err);

/* A parameter that is yes or no; fallback when there is none. 0 or -1. */
int uri_param_flag(const struct uri *uri, const char *name, bool fallback, bool *flag,
		   struct error *err);

/*
 * How long one request and one connection may take: ?timeout= and ?connect-timeout=, or the
 * defaults of backend.h. 0 or -1.
 */
int uri_timeouts(const struct uri *uri, int64_t *request_ms, int64_t *connect_ms,
		 struct error *err);

/*
 * With ?password-file=PATH, the first line of the file becomes the password; likewise
 * sentinel-password-file. *exposed: the path of such a file that other users may read (see
 * textfile.h), which the uri owns, or NULL. Returns 0, or -1 with ERROR_USAGE: a file is unreadable
 * or not regular, its first line is empty, or there is another password in the URI.
 */
int uri_load_passwords(struct uri *uri, const char **exposed, struct error *err);

/*
 * Finds the password of a URI in text: returns its first byte, with its length in *length, or NULL
 * when there is none or an empty one. It is what stands between the first ':' behind "//" and the
 * last '@', which may be too much, as where a path has both, but is never too little. Used to blank
 * argv and what is printed.
 */
const char *uri_find_password(const char *text, size_t *length);

/*
 * A copy of text, a valid URI, in which the paths of files in parameters are absolute, so that it
 * is valid in each working directory. The caller frees it with memory_free_secret().
 */
char *uri_make_absolute(const char *text);

/*
 * A number that is the same for URIs that mean the same place. Scheme, hosts, path and parameters
 * have a part in it, but not users, passwords, URI_COMMON_PARAMS and what says how a connection is
 * encrypted.
 */
uint64_t uri_identity(const struct uri *uri);

#define URI_PLACE_SIZE 320

/*
 * Writes for people which place the uri means, with what uri_identity() counts and nothing else:
 * "redis web.example.com:6379/0?prefix=app:". port stands for each host that has none. What does
 * not fit is cut. Returns buf.
 */
const char *uri_place(const struct uri *uri, uint16_t port, char buf[static URI_PLACE_SIZE]);

/* Room for a host of the length that messages show, and its port. */
#define URI_HOST_SIZE 110

/*
 * Writes a host and its port as they stand in a URI: "HOST:PORT", with brackets around an IPv6
 * address. A host that does not fit is cut, while its port is shown. Returns buf.
 */
const char *uri_host_text(const char *name, uint16_t port, char *buf, size_t size);

/*
 * Writes text for a message (see text_clean() in text.h), with "***" for the password, and cuts
 * what does not fit. Returns buf.
 */
const char *uri_redact(const char *text, char *buf, size_t size);

/*
 * Percent-encodes length bytes of text, all but A-Z a-z 0-9 - . _ ~ / : and writes a NUL. Returns
 * the length that the whole result has, also when it does not fit, as snprintf().
 */
size_t uri_encode(const char *text, size_t length, char *buf, size_t size);

/*
 * Decodes %XX in place within length bytes. Returns the new length, or -1 for a bad escape.
 */
ptrdiff_t uri_decode(char *text, size_t length);
