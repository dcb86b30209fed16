/* SPDX-License-Identifier: MIT */
/* Reading addresses from a URI: address.h. */
#include "address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"

#define DEFAULT_PORT 6379

int redis_address_db(struct redis_address *address, const char *text, struct error *err)
{
	char *end;

	address->db = strtol(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end && address->db <= 100000)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "redis: '%s' is not the number of a database", text);
}

bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, size_t length,
			int64_t port)
{
	if (!length || length >= sizeof(endpoint->host) || port < 1 || port > UINT16_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)host[i] <= ' ' || (unsigned char)host[i] >= 0x7f)
			return false;
	memcpy(endpoint->host, host, length);
	endpoint->host[length] = '\0';
	endpoint->port = (uint16_t)port;
	return true;
}

static int read_endpoint(struct redis_endpoint *endpoint, const struct uri *uri,
			 const struct uri_host *host, uint16_t default_port, struct error *err)
{
	if (redis_endpoint_set(endpoint, host->name, strlen(host->name),
			       host->port ? host->port : default_port))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%.32s: host %td is no name or address of a host",
			 uri->scheme, host - uri->hosts + 1);
}

int redis_endpoints_read(const struct uri *uri, uint16_t default_port,
			 struct redis_endpoint **endpoints, size_t *count, struct error *err)
{
	if (!uri->host_count)
		return error_set(err, ERROR_USAGE, 0,
				 "%.32s: there is no host: write %.32s://HOST[:PORT][,HOST...]",
				 uri->scheme, uri->scheme);
	*endpoints = memory_new(uri->host_count, sizeof(**endpoints));
	*count = uri->host_count;
	for (size_t i = 0; i < *count; i++)
		if (read_endpoint(&(*endpoints)[i], uri, &uri->hosts[i], default_port, err))
			return -1;
	return 0;
}

bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b)
{
	return a->port == b->port && !strcmp(a->host, b->host);
}

void redis_address_move(struct redis_address *address, const char *what,
			const struct redis_endpoint *endpoint)
{
	char text[URI_HOST_SIZE];

	address->at = *endpoint;
	snprintf(address->label, sizeof(address->label), "%s %s", what,
		 uri_host_text(endpoint->host, endpoint->port, text, sizeof(text)));
}

int redis_address_tcp(struct redis_address *address, const struct uri *uri,
		      const struct uri_host *host, struct error *err)
{
	struct redis_endpoint endpoint = { .port = 0 };

	if ((uri->path[0] && uri->path[1] && redis_address_db(address, uri->path + 1, err)) ||
	    read_endpoint(&endpoint, uri, host, DEFAULT_PORT, err))
		return -1;
	redis_address_move(address, "redis", &endpoint);
	return 0;
}

int redis_address_unix(struct redis_address *address, const struct uri *uri, struct error *err)
{
	const char *db = uri_param(uri, "db");

	if (uri->host_count || !uri->path[0])
		return error_set(err, ERROR_USAGE, 0,
				 "redis+unix: there is no path of a socket: write "
				 "redis+unix:///PATH[?db=N]");
	if (db && redis_address_db(address, db, err))
		return -1;
	address->unix_path = memory_copy(uri->path);
	snprintf(address->label, sizeof(address->label), "redis %.100s", uri->path);
	return 0;
}

/* Read an optional parameter that is a path. */
static int read_path(char **path, const struct uri *uri, const char *name, struct error *err)
{
	const char *value = uri_param(uri, name);

	if (value && !value[0])
		return error_set(err, ERROR_USAGE, 0, "parameter '%s' for %.32s: empty", name,
				 uri->scheme);
	*path = memory_copy(value);
	return 0;
}

static int read_tls(struct redis_tls *tls, const struct uri *uri, struct error *err)
{
	const char *name = uri_param(uri, "sni");

	if (read_path(&tls->ca, uri, "ca", err) || read_path(&tls->cert, uri, "cert", err) ||
	    read_path(&tls->key, uri, "key", err) ||
	    uri_param_flag(uri, "insecure", false, &tls->insecure, err))
		return -1;
	tls->name = memory_copy(name && name[0] ? name : NULL);
	if (tls->key && !tls->cert)
		return error_set(err, ERROR_USAGE, 0, "%s: ?key= without ?cert=", uri->scheme);
	/* Both may be in one file. */
	if (tls->cert && !tls->key)
		tls->key = memory_copy(tls->cert);
	if (tls->ca && tls->insecure)
		return error_set(err, ERROR_USAGE, 0, "%s: ?insecure=yes verifies nothing, and "
				 "?ca= wants to: drop one of them", uri->scheme);
	return 0;
}

int redis_address_tls(struct redis_address *address, const struct uri *uri, struct error *err)
{
	static const char *const params[] = { REDIS_TLS_PARAMS, NULL };
	const bool encrypted = !strcmp(uri->scheme, "rediss");
	const bool by_scheme = encrypted || !strcmp(uri->scheme, "redis");
	bool wanted;

	address->tls.on = by_scheme ? "with TLS the scheme is rediss:" : "with TLS add ?tls=yes";
	address->tls.off = by_scheme ? "without TLS the scheme is redis:"
				     : "without TLS drop ?tls=yes";
	if (uri_param_flag(uri, "tls", encrypted, &wanted, err))
		return -1;
	for (const char *const *name = params; *name && !wanted; name++) {
		if (!uri_param(uri, *name))
			continue;
		return error_set(err, ERROR_USAGE, 0, "%s: ?%s= is for TLS: add tls=yes",
				 uri->scheme, *name);
	}
	if (!wanted)
		return 0;
#ifdef WITHOUT_TLS
	return error_set(err, ERROR_USAGE, 0, "%s: this dlock was built without TLS", uri->scheme);
#endif
	address->encrypted = true;
	return read_tls(&address->tls, uri, err);
}

int redis_address_login(struct redis_address *address, const struct uri *uri, struct error *err)
{
	if (uri->user && uri->user[0])
		address->user = memory_copy(uri->user);
	address->password = memory_copy(uri->password);
	if (address->user && !uri->password)
		return error_set(err, ERROR_USAGE, 0, "redis: user '%s' without a password",
				 address->user);
	return 0;
}

void redis_address_finish(struct redis_address *address)
{
	memory_free_secret(address->password);
	free(address->user);
	free(address->unix_path);
	free(address->tls.ca);
	free(address->tls.cert);
	free(address->tls.key);
	free(address->tls.name);
}
