/* SPDX-License-Identifier: MIT */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
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
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"
#include "conn.h"

/* Numbers of descriptors in a row that must be free before the rest counts as free, too. */
#define FD_GAP 64
/* An election takes about this long; then there may be a leader. */
#define ELECTION_MS 1000

/* ---- addresses ---- */

/* Adds "ADDRESS:PORT" to the list, in the library's form: without brackets. */
static void add_server(struct zk_conn *conn, const struct net_address *address, uint16_t port)
{
	char *list = conn->servers, text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];

	if (getnameinfo((const struct sockaddr *)&address->address, address->length, text,
			sizeof(text), NULL, 0, NI_NUMERICHOST))
		return;
	conn->servers = memory_format("%s%s%s:%u", list ? list : "", list ? "," : "", text,
				      (unsigned)port);
	conn->server_count++;
	free(list);
}

int zk_net_resolve(struct zk_conn *conn, struct error *err)
{
	struct net_address found[NET_ADDRESSES];
	char label[URI_HOST_SIZE];

	free(conn->servers);
	conn->servers = NULL;
	conn->server_count = 0;
	for (size_t i = 0; i < conn->host_count; i++) {
		const struct uri_host *host = &conn->hosts[i];
		const int count = net_look_up(host->name, host->port, found, err);

		if (count < 0)
			error_prefix(err, "zookeeper %s",
				     uri_host_text(host->name, host->port, label, sizeof(label)));
		for (int j = 0; j < count; j++)
			add_server(conn, &found[j], host->port);
	}
	return conn->server_count ? 0 : -1;
}

/* ---- the library's log ---- */

/* Of the one connection that waits for a session: the library's log has no context. */
static _Atomic unsigned failures;
static _Atomic int wake_fd = -1;

static void on_log(const char *message)
{
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

zhandle_t *zk_net_start(struct zk_conn *conn, watcher_fn watcher, int ttl_ms)
{
	zhandle_t *handle;

	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	atomic_store(&wake_fd, conn->news_fd);
	if (!conn->tls)
		return zookeeper_init2(conn->servers, watcher, ttl_ms, NULL, conn,
				       ZOO_NO_LOG_CLIENTENV, on_log);
	handle = zookeeper_init_ssl(conn->servers, conn->tls, watcher, ttl_ms, NULL, conn,
				    ZOO_NO_LOG_CLIENTENV);
	if (handle)
		zoo_set_log_callback(handle, on_log);
	return handle;
}

/* ---- descriptors ---- */

/*
 * Go on to the next connection behind *fd; the first call has *fd = 2. Descriptors get the lowest
 * number that is free: beyond a gap this wide there is none of the library's.
 */
static bool next_connection(int *fd, ino_t *inode)
{
	socklen_t size = sizeof(int);
	struct stat stat;
	int domain;

	for (int last = *fd; ++*fd <= last + FD_GAP; ) {
		if (fstat(*fd, &stat))
			continue;
		last = *fd;
		*inode = stat.st_ino;
		if (S_ISSOCK(stat.st_mode) &&
		    !getsockopt(*fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) &&
		    (domain == AF_INET || domain == AF_INET6))
			return true;
	}
	return false;
}

void zk_net_note_foreign(struct zk_conn *conn)
{
	ino_t inode;

	conn->foreign_count = 0;
	for (int fd = 2; next_connection(&fd, &inode); ) {
		conn->foreign = memory_resize(conn->foreign, conn->foreign_count + 1,
					      sizeof(*conn->foreign));
		conn->foreign[conn->foreign_count++] = inode;
	}
}

static bool is_foreign(const struct zk_conn *conn, ino_t inode)
{
	for (size_t i = 0; i < conn->foreign_count; i++)
		if (conn->foreign[i] == inode)
			return true;
	return false;
}

bool zk_net_shut_down(const struct zk_conn *conn)
{
	bool any = false;
	ino_t inode;

	for (int fd = 2; next_connection(&fd, &inode); )
		any |= !is_foreign(conn, inode) && !shutdown(fd, SHUT_RDWR);
	return any;
}

/* ---- what is wrong ---- */

int zk_net_ask(const struct zk_conn *conn, const struct uri_host *host, char *answer, size_t size,
	       int64_t deadline_ms, struct error *err)
{
	static const char word[] = "srvr\n";
	const int cancel_fd = conn->limits->cancel_fd;
	int fd = net_connect(host->name, host->port, deadline_ms, cancel_fd, err), failed = 0;
	size_t used = 0;
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	if (!conn->tls)
		n = send(fd, word, strlen(word), MSG_NOSIGNAL);
	while (n > 0 && used < size - 1) {
		failed = net_wait(fd, POLLIN, deadline_ms, cancel_fd, err);
		n = failed ? 0 : recv(fd, answer + used, size - 1 - used, 0);
		used += n > 0 ? (size_t)n : 0;
	}
	if (!conn->tls && !failed && !used) {
		error_set(err, ERROR_UNAVAILABLE, n < 0 ? errno : 0,
			  "ends the connection; is it a ZooKeeper server?");
		failed = -1;
	}
	close(fd);
	answer[used] = '\0';
	return failed;
}

/* One server: 0 when it serves; else -1. */
static int look_at(const struct zk_conn *conn, const struct uri_host *host, int64_t deadline_ms,
		   bool *no_quorum, struct error *err)
{
	char answer[256], label[URI_HOST_SIZE];

	*no_quorum = false;
	uri_host_text(host->name, host->port, label, sizeof(label));
	if (zk_net_ask(conn, host, answer, sizeof(answer), deadline_ms, err))
		return error_prefix(err, "zookeeper %s", label);
	*no_quorum = strstr(answer, "not currently serving") != NULL;
	if (*no_quorum)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "zookeeper %s: the server does not serve: it has no quorum",
				 label);
	if (!conn->tls && !strstr(answer, "Mode:") && !strstr(answer, "whitelist"))
		return error_set(err, ERROR_UNAVAILABLE, 0, "zookeeper %s: answers, but not as a "
				 "ZooKeeper server", label);
	return 0;
}

enum zk_look zk_net_look(const struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	bool any = false, no_quorum;
	int64_t limit_ms, now;
	struct error why;

	for (size_t i = 0; i < conn->host_count; i++) {
		now = clock_boot_ms();
		limit_ms = now + (deadline_ms - now) / (int64_t)(conn->host_count - i);
		if (!look_at(conn, &conn->hosts[i], limit_ms, &no_quorum, &why))
			return ZK_SERVES;
		/* The most telling reason: a server that is there. */
		if (!i || (no_quorum && !any) || why.kind == ERROR_CANCELLED)
			*err = why;
		if (why.kind == ERROR_CANCELLED)
			return ZK_HOPELESS;
		any |= no_quorum;
	}
	return any && clock_boot_ms() < deadline_ms - ELECTION_MS ? ZK_MAY_SERVE : ZK_HOPELESS;
}
