/* SPDX-License-Identifier: MIT */
/* Differences of MariaDB's Connector/C and Oracle's libmysqlclient (8.0.16 and newer). */
#pragma once

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef MARIADB_PACKAGE_VERSION

#define API_NAME "MariaDB Connector/C"

/*
 * Without clear: a server does not get the password by a plugin that sends it as it is, or as good
 * as that (mysql_clear_password, dialog, mysql_old_password). These plugins do not.
 */
static inline void api_allow_clear(MYSQL *mysql, bool clear)
{
	if (!clear)
		mysql_optionsv(mysql, MARIADB_OPT_RESTRICTED_AUTH, "mysql_native_password,"
			       "caching_sha2_password,sha256_password,client_ed25519,parsec,"
			       "auth_gssapi_client");
}

/* Call after connecting, because option files, which may turn this on, are read then. */
static inline void api_forbid_reconnect(MYSQL *mysql)
{
	static const my_bool no = 0;

	mysql_options(mysql, MYSQL_OPT_RECONNECT, &no);
}

static inline int api_socket(MYSQL *mysql)
{
	return mysql_get_socket(mysql);
}

#else /* Oracle */

#define API_NAME "libmysqlclient"

/* This library has no other plugin of that kind. */
static inline void api_allow_clear(MYSQL *mysql, bool clear)
{
	mysql_options(mysql, MYSQL_ENABLE_CLEARTEXT_PLUGIN, &clear);
}

/* This library never reconnects because of an option file. */
static inline void api_forbid_reconnect(MYSQL *mysql)
{
	(void)mysql;
}

static inline int api_socket(MYSQL *mysql)
{
	return mysql->net.vio ? mysql->net.fd : -1;
}

#endif
