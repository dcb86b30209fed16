/* SPDX-License-Identifier: MIT */
/* The servers of a URI: what is wrong with them, and their addresses: conn.h. */
#include "conn.h"

#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"

#define DEFAULT_PORT 2181

static void name_server(const struct uri_host *host, struct error *err)
{
	char label[URI_HOST_SIZE];

	error_prefix(err, "zookeeper %s",
		     uri_host_text(host->name, host->port, label, sizeof(label)));
}

/* ---- what is wrong with a server ---- */

/*
 * Connect to the first of these servers that listens, which *host then is. Returns a descriptor, or
 * -1 and sets *err to what is wrong with the first one.
 */
static int connect_first(const struct zk_conn *conn, const struct uri_host **host, size_t count,
			 int64_t deadline_ms, struct error *err)
{
	const struct uri_host *hosts = *host;
	struct error why = { .kind = ERROR_NONE };
	int fd = -1;

	for (size_t i = 0; i < count && fd < 0 && why.kind != ERROR_CANCELLED; i++) {
		*host = &hosts[i];
		fd = net_connect(hosts[i].name, hosts[i].port, deadline_ms,
				 conn->backend->cancel_fd, &why);
		if (fd < 0 && (!i || why.kind == ERROR_CANCELLED)) {
			*err = why;
			name_server(&hosts[i], err);
		}
	}
	return fd;
}

bool zk_servers_listen(const struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	const struct uri_host *host = conn->hosts;
	const int fd = connect_first(conn, &host, conn->host_count, deadline_ms, err);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || (err->kind == ERROR_UNAVAILABLE && clock_boot_ms() >= deadline_ms);
}

bool zk_servers_ask(const struct zk_conn *conn, const struct uri_host *host, size_t count,
		    char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err)
{
	static const char word[] = "srvr\n";
	const int64_t now = clock_boot_ms();
	const int fd = connect_first(conn, &host, count, now + (deadline_ms - now) / 2, err);
	int failed = 0;
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	n = conn->tls ? 0 : send(fd, word, strlen(word), MSG_NOSIGNAL);
	while (n > 0 && used < ZK_ANSWER_SIZE - 1) {
		failed = net_wait(fd, POLLIN, deadline_ms, conn->backend->cancel_fd, err);
		n = failed ? 0 : recv(fd, answer + used, ZK_ANSWER_SIZE - 1 - used, 0);
		used += n > 0 ? (size_t)n : 0;
	}
	answer[used] = '\0';
	close(fd);
	if (!failed && strstr(answer, "not currently serving"))
		failed = error_set(err, ERROR_UNAVAILABLE, 0, "does not serve: it has no quorum");
	else if (!failed && !conn->tls && !strstr(answer, "Mode:") && !strstr(answer, "whitelist"))
		failed = error_set(err, ERROR_UNAVAILABLE, 0, "is no ZooKeeper server, or takes "
				   "no more connections");
	if (failed)
		name_server(host, err);
	return !failed;
}

/* ---- addresses ---- */

char *zk_servers_resolve(const struct zk_conn *conn, struct error *err)
{
	struct net_address found[NET_ADDRESSES];
	char *list = NULL, *longer, text[NI_MAXHOST];

	for (size_t i = 0; i < conn->host_count; i++) {
		const struct uri_host *host = &conn->hosts[i];
		const int count = net_resolve(host->name, host->port, found, err);

		if (count < 0)
			name_server(host, err);
		for (int j = 0; j < count; j++) {
			if (getnameinfo((const struct sockaddr *)&found[j].address, found[j].length,
					text, sizeof(text), NULL, 0, NI_NUMERICHOST))
				continue;
			/* Without brackets, as the library wants it. */
			longer = memory_format("%s%s%s:%u", list ? list : "", list ? "," : "",
					       text, (unsigned)host->port);
			free(list);
			list = longer;
		}
	}
	return list;
}

/* ---- the URI ---- */

/* Convert ?ssl-ca=, cert= and key= to the library's form. */
static int read_tls(struct zk_conn *conn, const struct uri *uri, struct error *err)
{
	const char *ca = uri_param(uri, "ssl-ca"), *cert = uri_param(uri, "cert");
	const char *key = uri_param(uri, "key");

	if (!ca && !cert && !key)
		return 0;
	if (!zookeeper_init_ssl || !ca || !cert || !key || strchr(ca, ',') || strchr(cert, ',') ||
	    strchr(key, ','))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: TLS needs all of ssl-ca=, cert= "
				 "and key=, files without ',' in their names, and a libzookeeper "
				 "with OpenSSL: this one has %s",
				 zookeeper_init_ssl ? "it" : "none");
	conn->tls = memory_format("%s,%s,%s,", ca, cert, key);
	return 0;
}

int zk_servers_init(struct zk_conn *conn, const struct uri *uri, struct error *err)
{
	if (!uri->host_count)
		return error_set(err, ERROR_USAGE, 0, "zookeeper: there is no host: write "
				 "zookeeper://HOST[:PORT][,HOST...][/ROOT]");
	conn->host_count = uri->host_count;
	conn->hosts = memory_new(uri->host_count, sizeof(*conn->hosts));
	for (size_t i = 0; i < uri->host_count; i++) {
		conn->hosts[i] = uri->hosts[i];
		if (!conn->hosts[i].port)
			conn->hosts[i].port = DEFAULT_PORT;
	}
	uri_location(uri, DEFAULT_PORT, conn->label);
	return read_tls(conn, uri, err);
}
