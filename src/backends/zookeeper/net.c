/* SPDX-License-Identifier: MIT */
/* The servers: their parameters in the URI, their addresses, and what is wrong with them. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"

#define DEFAULT_PORT 2181
/* An election takes about this long; then there may be a leader. */
#define ELECTION_MS 1000

/* ---- addresses ---- */

/* Add "ADDRESS:PORT" to the list, without brackets, as the library wants it. */
static void add_server(struct zk_conn *conn, const struct net_address *address, uint16_t port)
{
	char *list = conn->servers, text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];

	if (getnameinfo((const struct sockaddr *)&address->address, address->length, text,
			sizeof(text), NULL, 0, NI_NUMERICHOST))
		return;
	conn->servers = memory_format("%s%s%s:%u", list ? list : "", list ? "," : "", text,
				      (unsigned)port);
	free(list);
}

int zk_net_resolve(struct zk_conn *conn, struct error *err)
{
	struct net_address found[NET_ADDRESSES];
	char label[URI_HOST_SIZE];

	free(conn->servers);
	conn->servers = NULL;
	for (size_t i = 0; i < conn->host_count; i++) {
		const struct uri_host *host = &conn->hosts[i];
		const int count = net_resolve(host->name, host->port, found, err);

		if (count < 0)
			error_prefix(err, "zookeeper %s",
				     uri_host_text(host->name, host->port, label, sizeof(label)));
		for (int j = 0; j < count; j++)
			add_server(conn, &found[j], host->port);
	}
	return conn->servers ? 0 : -1;
}

/* ---- what is wrong ---- */

int zk_net_ask(const struct zk_conn *conn, const struct uri_host *host, char *answer, size_t size,
	       int64_t deadline_ms, struct error *err)
{
	static const char word[] = "srvr\n";
	const int cancel_fd = conn->backend->cancel_fd;
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

int zk_net_check(const struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	char answer[256], label[URI_HOST_SIZE];
	bool any = false, no_quorum;
	int64_t limit_ms, now;
	struct error why;

	for (size_t i = 0; i < conn->host_count; i++) {
		const struct uri_host *host = &conn->hosts[i];

		now = clock_boot_ms();
		limit_ms = now + (deadline_ms - now) / (int64_t)(conn->host_count - i);
		uri_host_text(host->name, host->port, label, sizeof(label));
		no_quorum = false;
		if (zk_net_ask(conn, host, answer, sizeof(answer), limit_ms, &why)) {
			error_prefix(&why, "zookeeper %s", label);
		} else {
			no_quorum = strstr(answer, "not currently serving") != NULL;
			if (!no_quorum && (conn->tls || strstr(answer, "Mode:") ||
					   strstr(answer, "whitelist")))
				return 1;
			error_set(&why, ERROR_UNAVAILABLE, 0, "zookeeper %s: %s", label, no_quorum
				  ? "the server does not serve: it has no quorum"
				  : "answers, but not as a ZooKeeper server");
		}
		/* The best reason names a server that answers. */
		if (!i || (no_quorum && !any) || why.kind == ERROR_CANCELLED)
			*err = why;
		if (why.kind == ERROR_CANCELLED)
			return -1;
		any |= no_quorum;
	}
	return any && clock_boot_ms() < deadline_ms - ELECTION_MS ? 0 : -1;
}

/* ---- the URI ---- */

/* Convert ?ssl-ca=, cert= and key= to the library's form. */
static int read_tls(struct zk_conn *conn, const struct uri *uri, struct error *err)
{
	const char *ca = uri_param(uri, "ssl-ca"), *cert = uri_param(uri, "cert");
	const char *key = uri_param(uri, "key");

	if (!ca && !cert && !key)
		return 0;
	if (!zookeeper_init_ssl)
		return error_set(err, ERROR_USAGE, 0, "zookeeper: ssl-ca=, cert= and key= want a "
				 "libzookeeper with TLS, and this one was built without OpenSSL");
	if (!ca || !cert || !key || strchr(ca, ',') || strchr(cert, ',') || strchr(key, ','))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: TLS needs all of ssl-ca=, cert= "
				 "and key=, files without ',' in their names");
	conn->tls = memory_format("%s,%s,%s,", ca, cert, key);
	return 0;
}

int zk_conn_init(struct zk_conn *conn, struct backend *backend, const struct uri *uri,
		 struct error *err)
{
	int pipe_fds[2];

	conn->backend = backend;
	conn->news_fd = conn->report_fd = -1;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK))
		return error_set(err, ERROR_INTERNAL, errno, "pipe");
	conn->news_fd = pipe_fds[0];
	conn->report_fd = pipe_fds[1];
	if (!uri->host_count)
		return error_set(err, ERROR_USAGE, 0, "zookeeper: there is no host: write "
				 "zookeeper://HOST[:PORT][,HOST...][/ROOT]");
	if (uri->user && uri->user[0] && !uri->password)
		return error_set(err, ERROR_USAGE, 0, "zookeeper: user '%.60s' without a password",
				 uri->user);
	if (uri->password && (!uri->user || !uri->user[0]))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: a password without a user");
	if (uri->password)
		conn->auth = memory_format("%s:%s", uri->user, uri->password);
	conn->user = memory_copy(uri->user);
	conn->host_count = uri->host_count;
	conn->hosts = memory_new(uri->host_count, sizeof(*conn->hosts));
	for (size_t i = 0; i < uri->host_count; i++) {
		conn->hosts[i].name = memory_copy(uri->hosts[i].name);
		conn->hosts[i].port = uri->hosts[i].port ? uri->hosts[i].port : DEFAULT_PORT;
	}
	uri_location(uri, DEFAULT_PORT, conn->label);
	return read_tls(conn, uri, err);
}
