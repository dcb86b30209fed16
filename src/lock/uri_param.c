/* SPDX-License-Identifier: MIT */
/* The parameters of a parsed URI. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/textfile.h"
#include "backend.h"
#include "name.h"
#include "uri.h"

/* Parameters of only some strategies or dialects, and their owners. */
static const struct {
	const char *name, *owner;
} special_params[] = {
	{ "lock", "redis: with ?dialect=redisson" },
	{ "watchdog", "redis: with ?dialect=redisson" },
	{ "node-timeout", "redlock:" },
	{ "tls", "redis+sentinel: and redis+cluster:; write rediss://HOST for one server" },
	{ "time-zone", "mysql: with ?dialect=shedlock" },
	{ "wsrep", "mysql: with ?strategy=row, advisory or table" },
};

static bool is_known(const char *name, const char *const known[])
{
	for (; *known; known++)
		if (strcmp(name, *known) == 0)
			return true;
	return false;
}

int uri_check_params(const struct uri *uri, const char *const known[],
		     struct error *err)
{
	char quoted[TEXT_QUOTE_SIZE], list[256] = "";
	const char *name = NULL;
	size_t i, used = 0;

	for (i = 0; i < uri->param_count && !name; i++)
		if (!is_known(uri->params[i].name, known))
			name = uri->params[i].name;
	if (!name)
		return 0;
	for (i = 0; i < sizeof(special_params) / sizeof(special_params[0]); i++)
		if (!strcmp(name, special_params[i].name))
			return error_set(err, ERROR_USAGE, 0,
					 "parameter '%s' belongs to %s", name,
					 special_params[i].owner);
	for (; *known && used < sizeof(list); known++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 used ? ", " : "", *known);
	return error_set(err, ERROR_USAGE, 0, "unknown parameter '%s' for %.32s: known are: %s",
			 text_quote(name, quoted, sizeof(quoted)), uri->scheme,
			 *list ? list : "none");
}

int uri_param_text(const struct uri *uri, const char *name, const char **value, struct error *err)
{
	*value = uri_param(uri, name);
	if (!*value || (*value)[0])
		return 0;
	return error_set(err, ERROR_USAGE, 0, "parameter '%s' for %.32s: empty", name, uri->scheme);
}

int uri_param_duration(const struct uri *uri, const char *name,
		       int64_t fallback_ms, int64_t *ms, struct error *err)
{
	const char *value = uri_param(uri, name);

	*ms = fallback_ms;
	if (value && duration_parse(value, ms, err) < 0)
		return error_prefix(err, "parameter '%s' for %.32s", name, uri->scheme);
	return 0;
}

int uri_param_flag(const struct uri *uri, const char *name, bool fallback, bool *flag,
		   struct error *err)
{
	const char *value = uri_param(uri, name);

	*flag = value ? !strcmp(value, "yes") : fallback;
	if (!value || *flag || !strcmp(value, "no"))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "parameter '%s' for %.32s must be yes or no", name,
			 uri->scheme);
}

int uri_timeouts(const struct uri *uri, int64_t *request_ms, int64_t *connect_ms,
		 struct error *err)
{
	if (uri_param_duration(uri, "timeout", BACKEND_TIMEOUT_MS, request_ms, err) ||
	    uri_param_duration(uri, "connect-timeout", BACKEND_CONNECT_TIMEOUT_MS, connect_ms,
			       err))
		return -1;
	if (*request_ms > 0 && *connect_ms > 0)
		return 0;
	return error_set(err, ERROR_USAGE, 0,
			 "?timeout= and ?connect-timeout= must be more than 0");
}

/*
 * Returns the first line of a file, which the caller frees, or NULL and sets *err. *exposed becomes
 * path if other users may read the file.
 */
static char *read_password(const char *path, const char **exposed, struct error *err)
{
	struct textfile file;
	char *password = NULL;
	size_t length;

	if (textfile_read(&file, path, false, err) < 0) {
		error_prefix(err, "password file");
		return NULL;
	}
	if (file.exposed)
		*exposed = path;
	length = strcspn(file.text, "\r\n");
	if (length > 0)
		password = memory_copy_part(file.text, length);
	else
		error_set(err, ERROR_USAGE, 0, "password file %.200s: the first line is empty",
			  path);
	textfile_finish(&file);
	return password;
}

/* Read the file of parameter name into *password. Without the parameter, change nothing. */
static int load_password(const struct uri *uri, const char *name, char **password,
			 const char **exposed, struct error *err)
{
	const char *path = uri_param(uri, name);

	if (!path || *password)
		return 0;
	*password = read_password(path, exposed, err);
	return *password ? 0 : -1;
}

char *uri_renew_password(const char *path)
{
	struct error ignored;
	const char *exposed;

	return path ? read_password(path, &exposed, &ignored) : NULL;
}

int uri_load_passwords(struct uri *uri, const char **exposed, struct error *err)
{
	*exposed = NULL;
	if (uri->password && !uri->loaded_password && uri_param(uri, "password-file"))
		return error_set(err, ERROR_USAGE, 0, "two passwords for %.32s: drop the one in "
				 "the URI or password-file=", uri->scheme);
	if (load_password(uri, "password-file", &uri->loaded_password, exposed, err) ||
	    load_password(uri, "sentinel-password-file", &uri->sentinel_password, exposed, err))
		return -1;
	if (uri->loaded_password)
		uri->password = uri->loaded_password;
	return 0;
}

/*
 * The parameters that name files and are no part of the location of locks, less those of
 * URI_COMMON_PARAMS.
 */
#define FILE_PARAMS \
	"sentinel-password-file", "ca", "cert", "key", "ssl-ca", "ssl-cert", "ssl-key", \
	"passfile", "sslrootcert", "sslcert", "sslkey"

/* Returns the percent-encoded path, which the caller frees, or NULL. */
static char *encode_path(const char *path)
{
	char *encoded;

	if (!path)
		return NULL;
	encoded = memory_new(3, strlen(path) + 1);
	uri_encode(path, strlen(path), encoded, 3 * strlen(path) + 1);
	return encoded;
}

char *uri_make_absolute(const char *text)
{
	static const char *const files[] = {
		"password-file", FILE_PARAMS, "socket", "defaults-file", NULL
	};
	char *result = memory_copy(text), *longer, *name, *directory, *here, *home;
	const char *value, *base;
	size_t length, at;
	bool relative;

	/* Most URIs have no parameters, and each run comes by here. */
	if (!strchr(text, '?'))
		return result;
	directory = getcwd(NULL, 0);
	here = encode_path(directory);
	home = encode_path(getenv("HOME"));
	for (at = strcspn(result, "?"); result[at]; at += 1 + strcspn(result + at + 1, "&")) {
		length = strcspn(result + at + 1, "=&");
		name = memory_copy_part(result + at + 1, length);
		length += at + 1;
		value = result + length + 1;
		relative = result[length] == '=' && !strchr("/&", value[0]) &&
			   strncasecmp(value, "%2F", 3) != 0;
		base = relative && home && !strncmp(value, "~/", 2) ? home : here;
		if (relative && base && is_known(name, files)) {
			longer = memory_format("%.*s=%s/%s", (int)length, result, base,
					       base == home ? value + 2 : value);
			memory_free_secret(result);
			result = longer;
		}
		free(name);
	}
	free(here);
	free(home);
	free(directory);
	return result;
}

/* Is the parameter a part of the location of locks? */
static bool is_of_location(const struct uri_param *param)
{
	static const char *const common[] = {
		URI_COMMON_PARAMS, FILE_PARAMS, "sentinel-user", "sentinel-tls", "tls", "sni",
		"insecure", "ssl-mode", "sslmode", NULL
	};

	return !is_known(param->name, common);
}

/* Returns the length without slashes at the end, which a shell's completion adds. */
static size_t path_length(const char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	return length;
}

uint64_t uri_identity(const struct uri *uri)
{
	uint64_t hash = fnv1a(FNV1A_INIT, uri->scheme, strlen(uri->scheme) + 1);

	for (size_t i = 0; i < uri->host_count; i++) {
		hash = fnv1a(hash, uri->hosts[i].name, strlen(uri->hosts[i].name) + 1);
		hash = fnv1a(hash, &uri->hosts[i].port, sizeof(uri->hosts[i].port));
	}
	hash = fnv1a(hash, uri->path, path_length(uri->path));
	hash = fnv1a(hash, "", 1);
	for (size_t i = 0; i < uri->param_count; i++) {
		const struct uri_param *param = &uri->params[i];

		if (!is_of_location(param))
			continue;
		hash = fnv1a(hash, param->name, strlen(param->name) + 1);
		hash = fnv1a(hash, param->value, strlen(param->value) + 1);
	}
	return hash;
}

/* Append to text, as far as it fits. */
static void __attribute__((format(printf, 2, 3)))
append_text(char text[static URI_LOCATION_SIZE], const char *format, ...)
{
	const size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, URI_LOCATION_SIZE - used, format, args);
	va_end(args);
}

const char *uri_location(const struct uri *uri, uint16_t port, char buf[static URI_LOCATION_SIZE])
{
	char shown[URI_LOCATION_SIZE], separator = '?';

	buf[0] = '\0';
	append_text(buf, "%s%s", uri->scheme, uri->host_count ? "" : ":");
	for (size_t i = 0; i < uri->host_count; i++) {
		const struct uri_host *host = &uri->hosts[i];

		append_text(buf, "%c%s", i ? ',' : ' ',
			    uri_host_text(host->name, host->port ? host->port : port, shown,
					  sizeof(shown)));
	}
	append_text(buf, "%s", uri->path);
	for (size_t i = 0; i < uri->param_count; i++) {
		if (!is_of_location(&uri->params[i]))
			continue;
		append_text(buf, "%c%s=%s", separator, uri->params[i].name, uri->params[i].value);
		separator = '&';
	}
	return buf;
}
