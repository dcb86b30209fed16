/* SPDX-License-Identifier: MIT */
/* Reading the address of the server and the account from a URI. */
#include "conn.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"

static int read_tls(struct mysql_address *address, const struct uri *uri, struct error *err)
{
	const char *mode = uri_param(uri, "ssl-mode");
	bool files;

	if (uri_param_text(uri, "ssl-ca", &address->ca, err) ||
	    uri_param_text(uri, "ssl-cert", &address->cert, err) ||
	    uri_param_text(uri, "ssl-key", &address->key, err))
		return -1;
	files = address->ca || address->cert || address->key;
	/* A user who names an authority wants the certificate verified. */
	if (!mode)
		mode = address->ca ? "verify-identity" : files ? "required" : "disabled";
	if (!strcasecmp(mode, "disabled") && !files)
		address->tls = MYSQL_TLS_DISABLED;
	else if (!strcasecmp(mode, "required"))
		address->tls = MYSQL_TLS_REQUIRED;
	else if (!strcasecmp(mode, "verify-identity") || !strcasecmp(mode, "verify_identity"))
		address->tls = MYSQL_TLS_VERIFIED;
	else
		return error_set(err, ERROR_USAGE, 0, "parameter 'ssl-mode' for %.32s must "
				 "be disabled (without other ssl- parameters), required or "
				 "verify-identity", uri->scheme);
	return 0;
}

static int read_hosts(struct mysql_address *address, const struct uri *uri, struct error *err)
{
	const char *file = address->defaults_file ? address->defaults_file
						  : address->defaults_group;

	if (!uri->host_count && !address->socket && !file)
		return error_set(err, ERROR_USAGE, 0, "%s: there is no host: write "
				 "%s://HOST[:PORT]/DATABASE, or ?socket=PATH, or ?defaults-file=",
				 uri->scheme, uri->scheme);
	if (uri->host_count && address->socket)
		return error_set(err, ERROR_USAGE, 0,
				 "%s: a host and ?socket= are given, one of them is too much",
				 uri->scheme);
	if (!address->database && !file)
		return error_set(err, ERROR_USAGE, 0, "%s: there is no database: write "
				 "%s://HOST[:PORT]/DATABASE", uri->scheme, uri->scheme);
	sql_hosts_init(&address->hosts, uri, 3306, address->socket ? address->socket : file);
	return 0;
}

int mysql_address_init(struct mysql_address *address, const struct uri *uri, struct error *err)
{
	address->user = uri->user && uri->user[0] ? uri->user : NULL;
	address->password = uri->password;
	address->password_file = uri_param(uri, "password-file");
	address->database = uri->path[0] && uri->path[1] ? uri->path + 1 : NULL;
	if (uri_param_text(uri, "socket", &address->socket, err) ||
	    uri_param_text(uri, "defaults-file", &address->defaults_file, err) ||
	    uri_param_text(uri, "defaults-group", &address->defaults_group, err))
		return -1;
	return read_tls(address, uri, err) ? -1 : read_hosts(address, uri, err);
}
