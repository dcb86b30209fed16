/* SPDX-License-Identifier: MIT */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "base/text.h"
#include "lock/uri.h"
#include "conn.h"

#define DEFAULT_PORT 2181
#define FD_GAP 64

void zk_net_write_host(const struct uri_host *host, char *buf, size_t size)
{
	snprintf(buf, size, strchr(host->name, ':') ? "[%.90s]:%u" : "%.90s:%u", host->name,
		 host->port ? (unsigned)host->port : DEFAULT_PORT);
}

/* ---- addresses ---- */

/* Adds "ADDRESS:PORT" to the list, in the library's form: no brackets. */
static int add_server(struct zk_conn *conn, const char *address, const char *port)
{
	char *list;

	if (asprintf(&list, "%s%s%s:%s", conn->servers ? conn->servers : "",
		     conn->servers ? "," : "", address, port) < 0)
		return -1;
	free(conn->servers);
	conn->servers = list;
	conn->server_count++;
	return 0;
}

/* As inet_ntop() has it, with the interface that an address of one link needs. */
static int add_address(struct zk_conn *conn, const struct sockaddr *address, const char *port)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	const void *bytes = address->sa_family == AF_INET6 ? (const void *)&v6->sin6_addr
		: (const void *)&((const struct sockaddr_in *)address)->sin_addr;
	char text[INET6_ADDRSTRLEN + 12];
	size_t length;

	if (!inet_ntop(address->sa_family, bytes, text, INET6_ADDRSTRLEN))
		return 0;
	length = strlen(text);
	if (address->sa_family == AF_INET6 && v6->sin6_scope_id)
		snprintf(text + length, sizeof(text) - length, "%%%u", v6->sin6_scope_id);
	return add_server(conn, text, port);
}

static int look_up(struct zk_conn *conn, const struct uri_host *host, const char *port,
		   struct error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG };
	int failure, failed = 0;
	struct addrinfo *found;
	char label[128];

	failure = getaddrinfo(host->name, port, &hints, &found);
	if (failure) {
		zk_net_write_host(host, label, sizeof(label));
		error_set(err, ERROR_UNAVAILABLE, 0, "zookeeper %s: cannot resolve: %s",
			  label, gai_strerror(failure));
		return 0;
	}
	for (const struct addrinfo *a = found; a && !failed; a = a->ai_next)
		failed = add_address(conn, a->ai_addr, port);
	freeaddrinfo(found);
	return failed;
}

int zk_net_resolve(struct zk_conn *conn, struct error *err)
{
	struct sockaddr_storage address;
	socklen_t length;
	int failed = 0;
	char port[8];

	free(conn->servers);
	conn->servers = NULL;
	conn->server_count = 0;
	for (size_t i = 0; i < conn->host_count && !failed; i++) {
		const struct uri_host *host = &conn->hosts[i];

		snprintf(port, sizeof(port), "%u",
			 host->port ? (unsigned)host->port : DEFAULT_PORT);
		/* The resolver reads a handful of files. */
		if (net_needs_resolver(host->name))
			failed = look_up(conn, host, port, err);
		else if (net_literal(host->name, 0, &address, &length))
			failed = add_server(conn, host->name, port);
		else
			failed = add_server(conn, "127.0.0.1", port) ||
				 add_server(conn, "::1", port);
	}
	if (failed)
		error_set(err, ERROR_INTERNAL, ENOMEM, "cannot list the servers");
	return failed || !conn->server_count ? -1 : 0;
}

/* ---- the library's log ---- */

/* Of the one connection that waits for a session; the log knows no context. */
static _Atomic unsigned failures;
static _Atomic int wake_fd = -1;

static void (*_Atomic divert)(const char *line);

/* "2026-11-21 06:24:09,123:4312(0x7f…):ZOO_INFO@function@123: text" */
static void pass_on(const char *message)
{
	void (*to)(const char *line) = atomic_load(&divert);
	const char *text = strstr(message, "ZOO_");
	char clean[300], line[sizeof(clean) + 16];

	text = text ? strstr(text, ": ") : NULL;
	if (!to || !text)
		return;
	text += 2;
	text_clean(text, strcspn(text, "\n"), clean, sizeof(clean));
	snprintf(line, sizeof(line), "libzookeeper: %s", clean);
	to(line);
}

static void on_log(const char *message)
{
	pass_on(message);
	/* Every attempt to connect that fails is logged as an error. */
	if (!strstr(message, "ZOO_ERROR"))
		return;
	atomic_fetch_add(&failures, 1);
	eventfd_write(atomic_load(&wake_fd), 1);
}

unsigned zk_net_failures(void)
{
	return atomic_load(&failures);
}

/* Only in a library that was built with OpenSSL. */
extern zhandle_t *zookeeper_init_ssl(const char *, const char *, watcher_fn, int,
				     const clientid_t *, void *, int) __attribute__((weak));

bool zk_net_has_tls(void)
{
	return zookeeper_init_ssl != NULL;
}

zhandle_t *zk_net_start(struct zk_conn *conn, watcher_fn watcher, int ttl_ms,
			const clientid_t *client)
{
	zhandle_t *handle;

	atomic_store(&divert, conn->limits->log);
	zoo_set_debug_level(conn->limits->log ? ZOO_LOG_LEVEL_INFO : ZOO_LOG_LEVEL_ERROR);
	atomic_store(&wake_fd, conn->done_fd);
	if (!conn->tls)
		return zookeeper_init2(conn->servers, watcher, ttl_ms, client, conn,
				       ZOO_NO_LOG_CLIENTENV, on_log);
	handle = zookeeper_init_ssl(conn->servers, conn->tls, watcher, ttl_ms, client, conn,
				    ZOO_NO_LOG_CLIENTENV);
	if (handle)
		zoo_set_log_callback(handle, on_log);
	return handle;
}

/* ---- descriptors ---- */

/*
 * Calls visit for every descriptor above 2, with its number in the file system. Descriptors
 * get the lowest number that is free: beyond a gap this wide there is none of the library's.
 */
static void each_fd(void (*visit)(void *context, int fd, const struct stat *stat), void *context)
{
	struct stat stat;
	int gap = 0;

	for (int fd = 3; gap < FD_GAP; fd++, gap++) {
		if (fstat(fd, &stat))
			continue;
		visit(context, fd, &stat);
		gap = 0;
	}
}

static void note(void *context, int fd, const struct stat *stat)
{
	struct zk_conn *conn = context;
	struct zk_fd *grown = realloc(conn->foreign, (conn->foreign_count + 1) * sizeof(*grown));

	if (!grown)
		return;
	conn->foreign = grown;
	conn->foreign[conn->foreign_count++] = (struct zk_fd){ fd, stat->st_ino };
}

void zk_net_note_foreign(struct zk_conn *conn)
{
	conn->foreign_count = 0;
	each_fd(note, conn);
}

static bool is_foreign(const struct zk_conn *conn, int fd, const struct stat *stat)
{
	for (size_t i = 0; i < conn->foreign_count; i++)
		if (conn->foreign[i].fd == fd && conn->foreign[i].inode == stat->st_ino)
			return true;
	return false;
}

static void set_close_on_exec(void *context, int fd, const struct stat *stat)
{
	if (!is_foreign(context, fd, stat))
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void zk_net_close_on_exec(const struct zk_conn *conn)
{
	each_fd(set_close_on_exec, (void *)conn);
}

struct shutting {
	const struct zk_conn *conn;
	bool any;
};

static void shut_down(void *context, int fd, const struct stat *stat)
{
	struct shutting *shutting = context;
	socklen_t size = sizeof(int);
	int domain = 0;

	if (!S_ISSOCK(stat->st_mode) || is_foreign(shutting->conn, fd, stat) ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return;
	if ((domain == AF_INET || domain == AF_INET6) && !shutdown(fd, SHUT_RDWR))
		shutting->any = true;
}

bool zk_net_shut_down(const struct zk_conn *conn)
{
	struct shutting shutting = { .conn = conn };

	each_fd(shut_down, &shutting);
	return shutting.any;
}

/* ---- what is wrong ---- */

int zk_net_ask(const char *host, uint16_t port, const char *word, char *answer, size_t size,
	       int64_t deadline_ms, int cancel_fd, struct error *err)
{
	int fd = net_connect(host, port ? port : DEFAULT_PORT, deadline_ms, cancel_fd, err);
	size_t used = 0;
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	if (send(fd, word, strlen(word), MSG_NOSIGNAL) < 0)
		goto out;
	while (used < size - 1) {
		if (net_wait(fd, POLLIN, deadline_ms, cancel_fd, err)) {
			close(fd);
			return -1;
		}
		n = recv(fd, answer + used, size - 1 - used, 0);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
out:
	close(fd);
	answer[used] = '\0';
	if (!used) {
		error_set(err, ERROR_UNAVAILABLE, n < 0 ? errno : 0,
			  "ends the connection; is it a ZooKeeper server?");
		return -1;
	}
	return (int)used;
}

/* Is there somebody at all? What cannot be asked in clear text is not asked for more. */
static int look_encrypted(const struct zk_conn *conn, const struct uri_host *host,
			  int64_t deadline_ms, struct error *err)
{
	int fd = net_connect(host->name, host->port ? host->port : DEFAULT_PORT, deadline_ms,
			     conn->limits->cancel_fd, err);

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

/* One server: 0 when it serves; else -1. */
static int look_at(const struct zk_conn *conn, const struct uri_host *host, int64_t deadline_ms,
		   bool *no_quorum, struct error *err)
{
	char answer[256] = "", label[128];
	int failed = conn->tls ? look_encrypted(conn, host, deadline_ms, err)
		: zk_net_ask(host->name, host->port, "srvr\n", answer, sizeof(answer),
			     deadline_ms, conn->limits->cancel_fd, err) < 0;

	zk_net_write_host(host, label, sizeof(label));
	if (failed) {
		error_prefix(err, "zookeeper %s", label);
		return -1;
	}
	if (conn->tls)
		return 0;
	*no_quorum = strstr(answer, "not currently serving") != NULL;
	if (*no_quorum)
		error_set(err, ERROR_UNAVAILABLE, 0, "zookeeper %s: the server does not serve: "
			  "it has no quorum", label);
	else if (!strstr(answer, "Mode:") && !strstr(answer, "whitelist"))
		error_set(err, ERROR_UNAVAILABLE, 0, "zookeeper %s: answers, but not as a "
			  "ZooKeeper server", label);
	else
		return 0;
	return -1;
}

int zk_net_look(const struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	struct error why = { 0 };
	bool any = false, no_quorum;
	int64_t limit_ms, now;

	for (size_t i = 0; i < conn->host_count; i++) {
		now = clock_boot_ms();
		limit_ms = now + (deadline_ms - now) / (int64_t)(conn->host_count - i);
		no_quorum = false;
		if (!look_at(conn, &conn->hosts[i], limit_ms, &no_quorum, &why))
			return 1;
		if (why.kind == ERROR_CANCELLED)
			break;
		/* The most telling reason: a server that is there. */
		if (!i || (no_quorum && !any))
			*err = why;
		any |= no_quorum;
	}
	if (why.kind == ERROR_CANCELLED)
		*err = why;
	/* An election takes its time; there may be a leader soon. */
	return any && why.kind != ERROR_CANCELLED && clock_boot_ms() < deadline_ms - 1000 ? 0 : -1;
}
