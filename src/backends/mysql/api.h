/* SPDX-License-Identifier: MIT */
/*
 * The non-blocking calls of the client library, which MariaDB's Connector/C and Oracle's
 * libmysqlclient (8.0.16 and newer) spell differently. A call that cannot go on returns the events
 * to poll the connection for, and is made again with those events as ready. 0 means that the call
 * is done. ready is 0 for the first call.
 */
#pragma once

#include <mysql.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(MARIADB_PACKAGE_VERSION) && __has_include(<openssl/ssl.h>)
#include <openssl/ssl.h>
#pragma weak OPENSSL_init_crypto
#pragma weak OPENSSL_init_ssl
#endif

/* What mysql_real_connect() takes; all may be NULL or 0. */
struct api_target {
	const char *host, *user, *password, *database, *socket;
	unsigned int port;
	unsigned long flags;
};

#ifdef MARIADB_PACKAGE_VERSION

#define API_NAME "MariaDB Connector/C"

typedef my_bool api_bool;

static inline short api_events(int status)
{
	return (short)((status & MYSQL_WAIT_READ ? POLLIN : 0) |
		       (status & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
		       (status & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
}

static inline int api_status(short ready)
{
	return (ready & POLLIN ? MYSQL_WAIT_READ : 0) | (ready & POLLOUT ? MYSQL_WAIT_WRITE : 0) |
	       (ready & POLLPRI ? MYSQL_WAIT_EXCEPT : 0);
}

/*
 * The start of the library takes longer than a whole request, and most of it is of no use here.
 * The library looks up its port in /etc/services, through modules of the C library, unless the
 * variable mysql_port is set (which can be reached where the library was linked as an archive).
 * And it has OpenSSL read its configuration and messages, which only TLS needs; if OpenSSL was
 * started before without them, it does not read them.
 */
#pragma weak mysql_port
static inline void api_start(bool with_tls)
{
	unsigned int *port = &mysql_port;

	if (port && !*port)
		*port = 3306;
#ifdef OPENSSL_INIT_NO_LOAD_CONFIG
	if (!with_tls && OPENSSL_init_crypto && OPENSSL_init_ssl) {
		OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ADD_ALL_CIPHERS |
				    OPENSSL_INIT_NO_ADD_ALL_DIGESTS |
				    OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS, NULL);
		OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_SSL_STRINGS,
				 NULL);
	}
#else
	(void)with_tls;
#endif
}

/* The calls run on a stack of their own; name resolution and TLS need more than 64 kB. */
static inline void api_prepare(MYSQL *mysql)
{
	static const size_t stack_size = (size_t)256 * 1024;

	mysql_options(mysql, MYSQL_OPT_NONBLOCK, &stack_size);
}

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

/* To be called after connecting: only then are option files read, which may ask to reconnect. */
static inline void api_stay(MYSQL *mysql)
{
	static const my_bool no = 0;

	mysql_options(mysql, MYSQL_OPT_RECONNECT, &no);
}

static inline int api_socket(MYSQL *mysql)
{
	return mysql_get_socket(mysql);
}

static inline short api_connect(MYSQL *mysql, const struct api_target *t, int *failed, short ready)
{
	MYSQL *done = NULL;
	int status = ready
		? mysql_real_connect_cont(&done, mysql, api_status(ready))
		: mysql_real_connect_start(&done, mysql, t->host, t->user, t->password,
					   t->database, t->port, t->socket, t->flags);

	*failed = !done;
	return api_events(status);
}

static inline short api_query(MYSQL *mysql, const char *text, size_t length, int *failed,
			      short ready)
{
	return api_events(ready ? mysql_real_query_cont(failed, mysql, api_status(ready))
				: mysql_real_query_start(failed, mysql, text, length));
}

/* *result: 0 another result, -1 none, else an error */
static inline short api_next_result(MYSQL *mysql, int *result, short ready)
{
	return api_events(ready ? mysql_next_result_cont(result, mysql, api_status(ready))
				: mysql_next_result_start(result, mysql));
}

static inline short api_store_result(MYSQL *mysql, MYSQL_RES **rows, short ready)
{
	return api_events(ready ? mysql_store_result_cont(rows, mysql, api_status(ready))
				: mysql_store_result_start(rows, mysql));
}

#else /* Oracle */

#define API_NAME "libmysqlclient"

typedef bool api_bool;

static inline void api_start(bool with_tls)
{
	(void)with_tls;
}

static inline void api_prepare(MYSQL *mysql)
{
	(void)mysql;
}

/* This library has no other plugin of that kind. */
static inline void api_allow_clear(MYSQL *mysql, bool clear)
{
	mysql_options(mysql, MYSQL_ENABLE_CLEARTEXT_PLUGIN, &clear);
}

/* This library reconnects only when told to, and not by an option file. */
static inline void api_stay(MYSQL *mysql)
{
	(void)mysql;
}

static inline int api_socket(MYSQL *mysql)
{
	return mysql->net.vio ? mysql->net.fd : -1;
}

static inline short api_connect(MYSQL *mysql, const struct api_target *t, int *failed, short ready)
{
	enum net_async_status status =
		mysql_real_connect_nonblocking(mysql, t->host, t->user, t->password, t->database,
					       t->port, t->socket, t->flags);

	(void)ready;
	*failed = status == NET_ASYNC_ERROR;
	/* The library does not say what it waits for. */
	return status == NET_ASYNC_NOT_READY ? POLLIN | POLLOUT : 0;
}

static inline short api_query(MYSQL *mysql, const char *text, size_t length, int *failed,
			      short ready)
{
	enum net_async_status status = mysql_real_query_nonblocking(mysql, text, length);

	(void)ready;
	*failed = status == NET_ASYNC_ERROR;
	return status == NET_ASYNC_NOT_READY ? POLLIN : 0;
}

static inline short api_next_result(MYSQL *mysql, int *result, short ready)
{
	enum net_async_status status = mysql_next_result_nonblocking(mysql);

	(void)ready;
	*result = status == NET_ASYNC_ERROR ? 1 : status == NET_ASYNC_COMPLETE_NO_MORE_RESULTS
		? -1 : 0;
	return status == NET_ASYNC_NOT_READY ? POLLIN : 0;
}

static inline short api_store_result(MYSQL *mysql, MYSQL_RES **rows, short ready)
{
	(void)ready;
	return mysql_store_result_nonblocking(mysql, rows) == NET_ASYNC_NOT_READY ? POLLIN : 0;
}

#endif
