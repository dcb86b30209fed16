/* SPDX-License-Identifier: MIT */
/* One connection: options, and a time limit for each call of the client library. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/kernel_timer.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/backend.h"
#include "api.h"
#include "mysql_texts.h"

/* How long to wait for an answer after a wait was cancelled. */
#define CANCELLED_MS 500

int mysql_conn_fd(const struct mysql_conn *conn)
{
	return conn->mysql ? api_socket(conn->mysql) : -1;
}

void mysql_conn_close(struct mysql_conn *conn)
{
	int fd = mysql_conn_fd(conn);	/* -1: no socket, and the calls below do nothing */

	if (!conn->mysql)
		return;
	/* A release that the server gets late must not end the next hold of the same token. */
	if (!conn->session)
		net_drop_unsent(fd);
	/* Over TLS the library waits for an answer when it closes, and the server may hang. */
	shutdown(fd, SHUT_RD);
	mysql_close(conn->mysql);
	conn->mysql = NULL;
	if (conn->pending)
		conn->address->stale = conn->number;
	conn->pending = false;
}

void mysql_conn_leave(struct mysql_conn *conn)
{
	mysql_conn_close(conn);
	sql_hosts_next(&conn->address->hosts);
}

/* ---- answers ---- */

size_t mysql_numbers(MYSQL_RES *rows, int64_t numbers[], size_t most)
{
	MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
	size_t count = row ? mysql_num_fields(rows) : 0;

	if (count > most)
		count = most;
	for (size_t i = 0; i < most; i++)
		numbers[i] = i < count && row[i] ? strtoll(row[i], NULL, 10) : 0;
	mysql_free_result(rows);
	return count;
}

int mysql_unexpected(struct mysql_conn *conn, struct error *err)
{
	conn->code = 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: unexpected reply",
			 conn->address->hosts.label);
}

/* ---- a bound in time ---- */

/*
 * The library's calls block, and its own timeouts begin again with each received byte. So a timer
 * shuts the socket down at the deadline, and the library finds the end of the connection. SIGALRM
 * is the user's. Where the kernel refuses timers, the library's timeouts are all there is.
 */
#define BOUND_SIGNAL (SIGRTMAX - 1)
/* A library that tries the next address of a host is cut off there, too. */
#define BOUND_REPEAT_MS 100

static struct {
	int fd;	/* a number, because the handler must not read what the library may be freeing */
	int64_t deadline_ms;
	struct kernel_timer timer;
	sigset_t mask;		/* as it was before */
	bool timed;
	volatile sig_atomic_t passed;
} bound;

static void cut_off(int sig)
{
	const int saved = errno;

	(void)sig;
	if (clock_boot_ms() >= bound.deadline_ms) {
		bound.passed = 1;
		shutdown(bound.fd, SHUT_RDWR);
	}
	errno = saved;
}

/* Returns the number that the next descriptor gets, such as the socket of a connection. */
static int predict_fd(void)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	close(fd);
	/* cppcheck-suppress deallocret */
	return fd;
}

static void begin_bound(int fd, int64_t deadline_ms)
{
	const struct sigaction action = { .sa_handler = cut_off, .sa_flags = SA_RESTART };
	sigset_t ours;

	bound.fd = fd;
	bound.deadline_ms = deadline_ms;
	bound.passed = 0;
	sigaction(BOUND_SIGNAL, &action, NULL);
	bound.timed = !kernel_timer_open(&bound.timer, CLOCK_BOOTTIME, BOUND_SIGNAL,
					 BOUND_REPEAT_MS);
	if (bound.timed)
		kernel_timer_set(&bound.timer, deadline_ms);
	sigemptyset(&ours);
	sigaddset(&ours, BOUND_SIGNAL);
	sigprocmask(SIG_UNBLOCK, &ours, &bound.mask);
}

/* Returns whether the deadline has passed. */
static bool end_bound(void)
{
	if (bound.timed)
		timer_delete(bound.timer.id);
	sigprocmask(SIG_SETMASK, &bound.mask, NULL);
	return bound.passed;
}

/* ---- opening ---- */

static void set_tls(MYSQL *mysql, const struct mysql_address *address)
{
#ifdef MARIADB_PACKAGE_VERSION
	const bool wanted = address->tls != MYSQL_TLS_DISABLED;
	const bool verified = address->tls == MYSQL_TLS_VERIFIED;

	mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &wanted);
	mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verified);
#else
	const unsigned int mode = address->tls == MYSQL_TLS_DISABLED ? SSL_MODE_DISABLED :
		address->tls == MYSQL_TLS_REQUIRED ? SSL_MODE_REQUIRED : SSL_MODE_VERIFY_IDENTITY;
	const bool yes = 1;

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

static void set_options(MYSQL *mysql, const struct mysql_address *address, int64_t timeout_ms)
{
	/* A host's name means TCP, even "localhost", which the library takes for a Unix socket. */
	const unsigned int tcp = MYSQL_PROTOCOL_TCP;
	const unsigned int no_files = 0, timeout_s = (unsigned int)(timeout_ms / 1000 + 1);

	if (address->hosts.list[address->hosts.at].name)
		mysql_options(mysql, MYSQL_OPT_PROTOCOL, &tcp);
	if (address->defaults_file)
		mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, address->defaults_file);
	if (address->defaults_file || address->defaults_group)
		mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP,
			      address->defaults_group ? address->defaults_group : "client");
	mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &timeout_s);
	mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no_files);
	mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dlock");
	set_tls(mysql, address);
	api_allow_clear(mysql, address->tls == MYSQL_TLS_VERIFIED);
}

/* Returns a reason to use another one of several hosts, or NULL. */
static const char *find_reason(MYSQL *mysql)
{
	MYSQL_RES *rows;
	int64_t outside;

	if (mysql_query(mysql, sql_is_writable) && mysql_errno(mysql) == MYSQL_READ_ONLY)
		return "read-only";
	/* An account that may not see the members of a group gets an error. */
	rows = mysql_query(mysql, sql_is_outside) ? NULL : mysql_store_result(mysql);
	mysql_numbers(rows, &outside, 1);
	return outside ? "not part of its group, or the group has no majority" : NULL;
}

/* Connect to the chosen host, by deadline_ms. */
static int connect_host(void *connection, int64_t deadline_ms, struct error *err)
{
	struct mysql_conn *conn = connection;
	const struct mysql_address *address = conn->address;
	const struct sql_hosts *hosts = &address->hosts;
	MYSQL *mysql = mysql_init(NULL);
	const char *reason = NULL;
	char *renewed = uri_renew_password(address->password_file);
	bool done, passed;

	if (!mysql)
		memory_exit();
	conn->mysql = mysql;
	conn->sent = false;
	set_options(mysql, address, deadline_ms - clock_boot_ms());
	begin_bound(predict_fd(), deadline_ms);
	done = mysql_real_connect(mysql, hosts->list[hosts->at].name, address->user,
				  renewed ? renewed : address->password, address->database,
				  hosts->port, address->socket,
				  CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS);
	memory_free_secret(renewed);
	conn->code = mysql_errno(mysql);
	if (done && hosts->count > 1)
		reason = find_reason(mysql);
	passed = end_bound();
	conn->number = (int64_t)mysql_thread_id(mysql);
	conn->fresh = true;
	/* The library sets neither. The second one is harmless for a Unix socket. */
	fcntl(mysql_conn_fd(conn), F_SETFD, FD_CLOEXEC);
	net_keep_alive(mysql_conn_fd(conn));
	api_forbid_reconnect(mysql);
	if (passed)
		error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "%s: cannot connect", hosts->label);
	else if (reason)
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: %s", hosts->label, reason);
	else if (!done)
		mysql_refusal(address, conn->code, mysql_error(mysql), err);
	/* Connector/C accepts a server without TLS, unless the certificate is to be verified. */
	else if (address->tls != MYSQL_TLS_DISABLED && !mysql_get_ssl_cipher(mysql))
		error_set(err, ERROR_REFUSED, 0, "%s: TLS failed (the server offers none)",
			  address->hosts.label);
	else
		return 0;
	mysql_conn_close(conn);
	return -1;
}

int mysql_conn_open(struct mysql_conn *conn, struct error *err)
{
	struct sql_hosts *hosts = &conn->address->hosts;

	if (conn->mysql)
		return 0;
	if (conn->session)
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: the server closed the connection",
				 hosts->label);
	return sql_hosts_connect(hosts, conn->backend->connect_timeout_ms, connect_host, conn, err);
}

/* ---- requests ---- */

/*
 * Report an error of the library. Close the connection if it is gone, or if another server may do
 * better and no lock ends with this connection. Returns -1.
 */
static int report_failure(struct mysql_conn *conn, bool passed, struct error *err)
{
	const struct mysql_address *address = conn->address;
	enum sql_class class;

	conn->code = mysql_errno(conn->mysql);
	class = mysql_classify(conn->code);
	if (passed) {
		error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "%s: no answer", address->hosts.label);
		mysql_conn_leave(conn);
		return -1;
	}
	mysql_refusal(address, conn->code, mysql_error(conn->mysql), err);
	if (class == SQL_LOSS)
		mysql_conn_close(conn);
	else if (class == SQL_ELSEWHERE && !conn->session)
		mysql_conn_leave(conn);
	conn->pending = false;
	return -1;
}

int mysql_conn_send(struct mysql_conn *conn, char *text, struct error *err)
{
	/* The settings of the session precede its first request. */
	char *all = conn->fresh ? memory_format("%s%s", sql_session, text) : memory_copy(text);
	int failed;
	bool passed;

	free(text);
	conn->code = 0;
	conn->sent = conn->pending = true;
	begin_bound(mysql_conn_fd(conn), clock_boot_ms() + conn->backend->timeout_ms);
	failed = mysql_send_query(conn->mysql, all, strlen(all));
	passed = end_bound();
	free(all);
	return failed ? report_failure(conn, passed, err) : 0;
}

/*
 * Wait for the first byte. A cancelled wait continues for CANCELLED_MS, because the server may have
 * given a lock, which must be known to be released.
 */
static int await_answer(const struct mysql_conn *conn, int64_t *deadline_ms, struct error *err)
{
	const int fd = mysql_conn_fd(conn);
	struct error late;

	if (!net_wait(fd, POLLIN, *deadline_ms, conn->backend->cancel_fd, err))
		return 0;
	if (err->kind != ERROR_CANCELLED)
		return -1;
	*deadline_ms = clock_earlier(*deadline_ms, clock_boot_ms() + CANCELLED_MS);
	if (net_wait(fd, POLLIN, *deadline_ms, -1, &late))
		return -1;
	*err = (struct error){ .kind = ERROR_NONE };
	return 0;
}

/* Read all results into *rows. True: this failed. */
static bool read_results(struct mysql_conn *conn, MYSQL_RES **rows)
{
	MYSQL *mysql = conn->mysql;
	int status = mysql_read_query_result(mysql) != 0;
	MYSQL_RES *next;

	/* The first result is that of the settings, which an interrupt may have ended. */
	if (!status)
		conn->fresh = false;
	while (!status) {
		if (mysql_field_count(mysql)) {
			next = mysql_store_result(mysql);
			if (!next)
				return true;
			mysql_free_result(*rows);
			*rows = next;
		}
		status = mysql_next_result(mysql);
	}
	/* -1: it was the last one. */
	return status >= 0;
}

int mysql_conn_receive(struct mysql_conn *conn, MYSQL_RES **rows, struct error *err)
{
	int64_t deadline_ms = clock_boot_ms() + conn->backend->timeout_ms;
	bool failed, passed;

	*rows = NULL;
	if (await_answer(conn, &deadline_ms, err)) {
		if (!conn->session)
			mysql_conn_leave(conn);
		return error_prefix(err, "%s", conn->address->hosts.label);
	}
	begin_bound(mysql_conn_fd(conn), deadline_ms);
	failed = read_results(conn, rows);
	passed = end_bound();
	if (failed || passed)
		return report_failure(conn, passed, err);
	conn->pending = false;
	return 0;
}
