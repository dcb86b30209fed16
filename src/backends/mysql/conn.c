/* SPDX-License-Identifier: MIT */
#include "conn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/backend.h"
#include "api.h"
#include "sql.h"
#include "mysql_texts.h"

/* How long to wait for an answer after a wait was cancelled. */
#define CANCELLED_MS 500

/* Which call of the library is under way, or is next. */
enum stage {
	STAGE_QUERY,		/* sends, and reads the head of the first result */
	STAGE_RESULT,		/* the head of a result is there */
	STAGE_STORE,		/* reads its rows */
	STAGE_MORE,		/* is there another one? */
	STAGE_NEXT,		/* reads its head */
};

int mysql_conn_fd(const struct mysql_conn *conn)
{
	return conn->mysql ? api_socket(conn->mysql) : -1;
}

static void forget_request(struct mysql_conn *conn)
{
	free(conn->text);
	conn->text = NULL;
	conn->pending = false;
	conn->waits = 0;
}

void mysql_conn_close(struct mysql_conn *conn)
{
	int fd = mysql_conn_fd(conn);

	if (!conn->mysql)
		return;
	/* A release that the server gets late must not end the next hold of the same token. */
	if (fd >= 0 && !conn->session)
		net_forget_unsent(fd);
	/* Over TLS the library waits for an answer to its farewell; the server may hang. */
	if (fd >= 0)
		shutdown(fd, SHUT_RD);
	mysql_close(conn->mysql);
	conn->mysql = NULL;
	forget_request(conn);
}

/* Options of the socket that the library does not set; harmless for a Unix socket. */
static void tune(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	net_keep_alive(fd);
}

static void set_tls(MYSQL *mysql, const struct mysql_address *address)
{
#ifdef MARIADB_PACKAGE_VERSION
	const api_bool wanted = address->tls != MYSQL_TLS_DISABLED;
	const api_bool verified = address->tls == MYSQL_TLS_VERIFIED;

	mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &wanted);
	mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verified);
#else
	const unsigned int mode = address->tls == MYSQL_TLS_DISABLED ? SSL_MODE_DISABLED :
		address->tls == MYSQL_TLS_REQUIRED ? SSL_MODE_REQUIRED : SSL_MODE_VERIFY_IDENTITY;
	const api_bool yes = 1;

	mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
	/* Without TLS, caching_sha2_password encrypts the password with this key. */
	mysql_options(mysql, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &yes);
#endif
	if (address->ca)
		mysql_options(mysql, MYSQL_OPT_SSL_CA, address->ca);
	if (address->cert)
		mysql_options(mysql, MYSQL_OPT_SSL_CERT, address->cert);
	if (address->key)
		mysql_options(mysql, MYSQL_OPT_SSL_KEY, address->key);
}

static void set_options(MYSQL *mysql, const struct mysql_address *address)
{
	/* A host's name means TCP, even "localhost", which the library takes for a Unix socket. */
	const unsigned int tcp = MYSQL_PROTOCOL_TCP;

	api_prepare(mysql);
	if (address->host)
		mysql_options(mysql, MYSQL_OPT_PROTOCOL, &tcp);
	if (address->defaults_file)
		mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, address->defaults_file);
	if (address->defaults_file || address->defaults_group)
		mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP,
			      address->defaults_group ? address->defaults_group : "client");
	mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dlock");
	set_tls(mysql, address);
	api_allow_clear(mysql, address->tls == MYSQL_TLS_VERIFIED);
}

/*
 * Reports an error of the library, and closes the connection if it is gone, or if another server
 * may do better and no lock would end with this connection.
 */
static void failed(struct mysql_conn *conn, const struct mysql_address *address,
		   struct error *err)
{
	conn->code = mysql_errno(conn->mysql);
	err->kind = ERROR_NONE;
	mysql_refusal(address, conn->code, mysql_error(conn->mysql), err);
	forget_request(conn);
	if (mysql_code_is_loss(conn->code) ||
	    (!conn->session && mysql_code_is_elsewhere(conn->code)))
		mysql_conn_close(conn);
}

/* net_wait() with a deadline that counts also where poll() always finds something. */
static int wait_for(int fd, short waits, int64_t deadline_ms, int cancel_fd, struct error *err)
{
	if (clock_boot_ms() > deadline_ms)
		return error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "no answer");
	return net_wait(fd, waits, deadline_ms, cancel_fd, err);
}

int mysql_conn_open(struct mysql_conn *conn, const struct mysql_address *address,
		    const struct backend *limits, struct error *err)
{
	const struct api_target target = {
		address->host, address->user, address->password, address->database,
		address->socket, address->port, CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS
	};
	const int64_t deadline_ms = clock_boot_ms() + limits->connect_timeout_ms;
	bool tuned = false;
	int broken = 0;

	if (conn->mysql)
		return 0;
	conn->code = 0;
	conn->sent = false;
	/* An option file may ask for TLS, too. */
	api_start(address->tls != MYSQL_TLS_DISABLED || address->defaults_file ||
		  address->defaults_group);
	conn->mysql = mysql_init(NULL);
	if (!conn->mysql)
		memory_gone();
	set_options(conn->mysql, address);
	for (short waits = 0;;) {
		waits = api_connect(conn->mysql, &target, &broken, waits);
		if (!tuned && mysql_conn_fd(conn) >= 0) {
			tune(mysql_conn_fd(conn));
			tuned = true;
		}
		if (!waits)
			break;
		if (wait_for(mysql_conn_fd(conn), waits, deadline_ms, limits->cancel_fd, err)) {
			error_prefix(err, "%s: cannot connect", address->label);
			mysql_conn_close(conn);
			return -1;
		}
	}
	if (broken) {
		failed(conn, address, err);
		mysql_conn_close(conn);
		return -1;
	}
	/* Connector/C accepts a server without TLS, unless the certificate is to be verified. */
	if (address->tls != MYSQL_TLS_DISABLED && !mysql_get_ssl_cipher(conn->mysql)) {
		error_set(err, ERROR_REFUSED, 0, "%s: TLS failed (the server offers none)",
			  address->label);
		mysql_conn_close(conn);
		return -1;
	}
	tune(mysql_conn_fd(conn));
	api_stay(conn->mysql);
	conn->generation++;
	conn->fresh = true;
	return 0;
}

/* Puts the session's settings before its first request. */
static char *with_settings(const struct mysql_conn *conn, char *text)
{
	const struct sql_value values[] = {
		SQL_PART("cluster", conn->no_cluster ? "" : sql_session_cluster), SQL_LAST
	};
	char *settings = sql_format(sql_session, values);
	char *both = memory_format("%s%s", settings, text);

	free(settings);
	free(text);
	return both;
}

void mysql_conn_send(struct mysql_conn *conn, char *text)
{
	assert(text);
	if (conn->fresh)
		text = with_settings(conn, text);
	conn->text = text;
	conn->length = strlen(text);
	conn->fresh = false;
	conn->stage = STAGE_QUERY;
	conn->waits = 0;
	conn->pending = true;
	conn->sent = true;
	conn->code = 0;
}

/* One call of the library. True when conn->waits says what it waits for. */
static bool step(struct mysql_conn *conn, int *broken, MYSQL_RES **rows)
{
	const short ready = conn->waits;
	int result = 0;

	*broken = 0;
	*rows = NULL;
	switch ((enum stage)conn->stage) {
	case STAGE_QUERY:
		conn->waits = api_query(conn->mysql, conn->text, conn->length, broken, ready);
		if (!conn->waits)
			conn->stage = STAGE_RESULT;
		break;
	case STAGE_RESULT:
		conn->stage = mysql_field_count(conn->mysql) ? STAGE_STORE : STAGE_MORE;
		break;
	case STAGE_STORE:
		conn->waits = api_store_result(conn->mysql, rows, ready);
		if (!conn->waits) {
			conn->stage = STAGE_MORE;
			*broken = !*rows;
		}
		break;
	case STAGE_MORE:
		conn->pending = mysql_more_results(conn->mysql);
		conn->stage = STAGE_NEXT;
		break;
	case STAGE_NEXT:
		conn->waits = api_next_result(conn->mysql, &result, ready);
		if (conn->waits)
			break;
		conn->stage = STAGE_RESULT;
		*broken = result > 0;
		conn->pending = result >= 0;
		break;
	}
	return conn->waits != 0;
}

/*
 * Waits for what conn->waits says. When the wait is cancelled, it goes on for a little while: the
 * server may have carried out the request, and a lock that it gave must be known to be given back.
 */
static int await(const struct mysql_conn *conn, const struct backend *limits,
		 int64_t *deadline_ms, bool *cancelled, struct error *err)
{
	struct error late;

	if (!*cancelled) {
		if (!wait_for(mysql_conn_fd(conn), conn->waits, *deadline_ms, limits->cancel_fd,
			      err))
			return 0;
		if (err->kind != ERROR_CANCELLED)
			return -1;
		*cancelled = true;
		*deadline_ms = clock_earlier(*deadline_ms, clock_boot_ms() + CANCELLED_MS);
	}
	return wait_for(mysql_conn_fd(conn), conn->waits, *deadline_ms, -1, &late);
}

enum mysql_step mysql_conn_next(struct mysql_conn *conn, const struct mysql_address *address,
				const struct backend *limits, MYSQL_RES **rows,
				struct error *err)
{
	int64_t deadline_ms = clock_boot_ms() + (limits ? limits->timeout_ms : 0);
	bool cancelled = false;
	int broken;

	*rows = NULL;
	while (conn->pending) {
		const bool waits = step(conn, &broken, rows);

		if (waits && !limits)
			return MYSQL_STEP_PENDING;
		/* A server that never stops sending leaves nothing to wait for. */
		if (waits || (limits && !broken && !*rows && clock_boot_ms() > deadline_ms)) {
			if (!await(conn, limits, &deadline_ms, &cancelled, err))
				continue;
			/* After half an answer the connection is of no use. */
			error_prefix(err, "%s", address->label);
			mysql_conn_close(conn);
			return MYSQL_STEP_FAILED;
		}
		if (broken) {
			failed(conn, address, err);
			return MYSQL_STEP_FAILED;
		}
		if (*rows)
			break;
	}
	if (cancelled)
		*err = (struct error){ .kind = ERROR_NONE };
	if (*rows)
		return MYSQL_STEP_ROWS;
	forget_request(conn);
	return MYSQL_STEP_END;
}
