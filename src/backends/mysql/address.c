/* SPDX-License-Identifier: MIT */
/* Reading the address of the server and the account from a URI. */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/memory.h"

/*
 * Copy an optional parameter, which may begin with "~/", the home directory. Returns 0, or -1 and
 * sets *err.
 */
static int copy_param(char **to, const struct uri *uri, const char *name, struct error *err)
{
	const char *value = uri_param(uri, name), *home = getenv("HOME");

	if (!value)
		return 0;
	if (!value[0])
		return error_set(err, ERROR_USAGE, 0, "parameter '%s' for %.32s: empty", name,
				 uri->scheme);
	if (strncmp(value, "~/", 2) != 0 || !home)
		*to = memory_copy(value);
	else
		*to = memory_format("%s%s", home, value + 1);
	return 0;
}

static int read_tls(struct mysql_address *address, const struct uri *uri, struct error *err)
{
	const char *mode = uri_param(uri, "ssl-mode");

	if (copy_param(&address->ca, uri, "ssl-ca", err) ||
	    copy_param(&address->cert, uri, "ssl-cert", err) ||
	    copy_param(&address->key, uri, "ssl-key", err))
		return -1;
	if (!mode) {
		/* A user who names an authority wants the certificate verified. */
		address->tls = address->ca ? MYSQL_TLS_VERIFIED :
			address->cert || address->key ? MYSQL_TLS_REQUIRED : MYSQL_TLS_DISABLED;
		return 0;
	}
	if (!strcasecmp(mode, "disabled") && !address->ca && !address->cert && !address->key)
		address->tls = MYSQL_TLS_DISABLED;
	else if (!strcasecmp(mode, "required"))
		address->tls = MYSQL_TLS_REQUIRED;
	else if (!strcasecmp(mode, "verify-identity") || !strcasecmp(mode, "verify_identity"))
		address->tls = MYSQL_TLS_VERIFIED;
	else {
		return error_set(err, ERROR_USAGE, 0, "parameter 'ssl-mode' for %.32s must "
				 "be disabled (without other ssl- parameters), required or "
				 "verify-identity", uri->scheme);
	}
	return 0;
}

/* Write the label of the host at which address is. */
static void write_label(struct mysql_address *address)
{
	const struct uri_host *host = &address->hosts[address->at];
	const char *file = address->defaults_file, *group = address->defaults_group;
	char text[URI_HOST_SIZE];

	if (host->name)
		snprintf(address->label, sizeof(address->label), "mysql %s",
			 uri_host_text(host->name, host->port, text, sizeof(text)));
	else
		snprintf(address->label, sizeof(address->label), "mysql %.100s",
			 address->socket ? address->socket : file ? file : group);
}

void mysql_address_next(struct mysql_address *address)
{
	address->at = (address->at + 1) % address->host_count;
	write_label(address);
}

static int read_hosts(struct mysql_address *address, const struct uri *uri, struct error *err)
{
	if (!uri->host_count && !address->socket && !address->defaults_file &&
	    !address->defaults_group)
		return error_set(err, ERROR_USAGE, 0, "%s: there is no host: write "
				 "%s://HOST[:PORT]/DATABASE, or ?socket=PATH, or ?defaults-file=",
				 uri->scheme, uri->scheme);
	if (uri->host_count && address->socket)
		return error_set(err, ERROR_USAGE, 0,
				 "%s: a host and ?socket= are given, one of them is too much",
				 uri->scheme);
	address->host_count = uri->host_count ? uri->host_count : 1;
	address->hosts = memory_new(address->host_count, sizeof(address->hosts[0]));
	for (size_t i = 0; i < uri->host_count; i++) {
		address->hosts[i].name = memory_copy(uri->hosts[i].name);
		address->hosts[i].port = uri->hosts[i].port ? uri->hosts[i].port : 3306;
	}
	write_label(address);
	return 0;
}

int mysql_address_init(struct mysql_address *address, const struct uri *uri, struct error *err)
{
	if (copy_param(&address->socket, uri, "socket", err) ||
	    copy_param(&address->defaults_file, uri, "defaults-file", err) ||
	    copy_param(&address->defaults_group, uri, "defaults-group", err) ||
	    read_tls(address, uri, err) || read_hosts(address, uri, err))
		return -1;
	if (uri->path[0] && uri->path[1])
		address->database = memory_copy(uri->path + 1);
	if (!address->database && !address->defaults_file && !address->defaults_group)
		return error_set(err, ERROR_USAGE, 0, "%s: there is no database: write "
				 "%s://HOST[:PORT]/DATABASE", uri->scheme, uri->scheme);
	if (uri->user && uri->user[0])
		address->user = memory_copy(uri->user);
	address->password = memory_copy(uri->password);
	return 0;
}

void mysql_address_finish(struct mysql_address *address)
{
	char *const texts[] = {
		address->user, address->socket, address->database,
		address->defaults_file, address->defaults_group, address->ca, address->cert,
		address->key,
	};

	for (size_t i = 0; i < address->host_count; i++)
		free(address->hosts[i].name);
	free(address->hosts);
	memory_free_secret(address->password);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
}
