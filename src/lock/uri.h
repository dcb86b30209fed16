/* SPDX-License-Identifier: MIT */
/*
 * Backend URIs: scheme:[//[user[:password]@]host[:port][,host...]][path][?a=b&c=d]
 * User, password, host, path and the names and values of parameters are percent-decoded. A control
 * character is an error, encoded or not. A host may be an IPv6 address in brackets, which are not
 * stored. Only uri_load_passwords() does I/O.
 *
 * The parser is stricter than RFC 3986 in one point: an '@' that is not encoded is allowed only
 * once before the hosts, in the value of a parameter, and in the path of a scheme that has only a
 * path (file:, *+unix:). So a password with an unencoded '/', '?', '#' or '@' is refused, and no
 * message shows a part of it as a path. No message of the parser shows a part of the URI.
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
 * Parse text into *uri, which the caller frees with uri_finish(). A parameter that is given twice
 * is an error. Returns 0, or -1 with ERROR_USAGE, whose message never contains the password.
 */
int uri_parse(struct uri *uri, const char *text, struct error *err);
void uri_finish(struct uri *uri);	/* accepts a zeroed one; wipes the password */

/* Returns the value of a parameter, or NULL. The uri owns it. */
const char *uri_param(const struct uri *uri, const char *name);

/*
 * Read a parameter that may not be empty into *value, which the uri owns; NULL if there is none.
 * Returns 0 or -1.
 */
int uri_param_text(const struct uri *uri, const char *name, const char **value,
		   struct error *err);

/*
 * The parameters of all backends, for the list of known ones. They concern the connection, and are
 * no part of the location of locks.
 */
#define URI_COMMON_PARAMS "timeout", "connect-timeout", "password-file"

/* Returns 0 if all parameters are in known, which ends with NULL, or -1 and sets *err. */
int uri_check_params(const struct uri *uri, const char *const known[],
		     struct error *err);

/* Read a parameter that is a duration, in ms; fallback_ms if there is none. Returns 0 or -1. */
int uri_param_duration(const struct uri *uri, const char *name,
		       int64_t fallback_ms, int64_t *ms, struct error *err);

/* Read a parameter that is yes or no; fallback if there is none. Returns 0 or -1. */
int uri_param_flag(const struct uri *uri, const char *name, bool fallback, bool *flag,
		   struct error *err);

/*
 * Read the timeouts of a request and a connection: ?timeout= and ?connect-timeout=, or the defaults
 * of backend.h. Returns 0 or -1.
 */
int uri_timeouts(const struct uri *uri, int64_t *request_ms, int64_t *connect_ms,
		 struct error *err);

/*
 * Read the password from the first line of ?password-file=PATH, and that of the sentinels from
 * sentinel-password-file. *exposed: the path of such a file that other users may read (see
 * textfile.h), which the uri owns, or NULL. Returns 0, or -1 with ERROR_USAGE: a file is unreadable
 * or not regular, its first line is empty, or the URI has another password.
 */
int uri_load_passwords(struct uri *uri, const char **exposed, struct error *err);

/*
 * Read a password file for each new connection, because the password may have changed. Returns its
 * first line, which the caller frees with memory_free_secret(). NULL: path is NULL, or the file
 * cannot be read now, and the password that is known still counts.
 */
char *uri_renew_password(const char *path);

/*
 * Returns a copy of text, a valid URI, with absolute paths of files in parameters, so that it is
 * valid in each working directory. A path may begin with "~/", the home directory. The caller
 * frees it with memory_free_secret().
 */
char *uri_make_absolute(const char *text);

/*
 * Returns a number that is the same for URIs of the same location. It depends on scheme, hosts,
 * path and parameters, but not on users, passwords, URI_COMMON_PARAMS and parameters of TLS.
 */
uint64_t uri_identity(const struct uri *uri);

#define URI_LOCATION_SIZE 320

/*
 * Write the location of the uri for people, with exactly the parts that uri_identity() depends on:
 * "redis web.example.com:6379/0?prefix=app:". port is the default port. Cuts a text that is too
 * long. Returns buf.
 */
const char *uri_location(const struct uri *uri, uint16_t port, char buf[static URI_LOCATION_SIZE]);

/* Room for a host of the length that messages show, and its port. */
#define URI_HOST_SIZE 110

/*
 * Write a host and its port as in a URI: "HOST:PORT", with brackets around an IPv6 address. Cuts a
 * host that is too long, and keeps its port. Returns buf.
 */
const char *uri_host_text(const char *name, uint16_t port, char *buf, size_t size);

/*
 * Percent-encode length bytes of text, except A-Z a-z 0-9 - . _ ~ / : and write a NUL. Returns the
 * length of the whole result, even if it does not fit, as snprintf().
 */
size_t uri_encode(const char *text, size_t length, char *buf, size_t size);

/* Decode %XX in place within length bytes. Returns the new length, or -1 for a bad escape. */
ptrdiff_t uri_decode(char *text, size_t length);
