/* SPDX-License-Identifier: MIT */
/* The servers of a URI: what is wrong with them, and their addresses: servers.h. */
#include "servers.h"

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

/* ---- what is wrong with a server ---- */

/*
 * Connect to a server, and with answer ask it a question in clear text. With TLS the answer is "".
 * Returns 0, or -1 and sets *err.
 */
static int ask_server(const struct zk_servers *servers, const struct uri_host *host, char *answer,
		      int64_t deadline_ms, struct error *err)
{
	static const char word[] = "srvr\n";
	const int cancel_fd = servers->backend->cancel_fd;
	const int fd = net_connect(host->name, host->port, deadline_ms, cancel_fd, err);
	int failed = fd < 0 ? -1 : 0;
	size_t used = 0;
	ssize_t n = -1;

	if (!failed && answer && !servers->tls)
		n = send(fd, word, strlen(word), MSG_NOSIGNAL);
	while (answer && n > 0 && used < ZK_ANSWER_SIZE - 1) {
		failed = net_wait(fd, POLLIN, deadline_ms, cancel_fd, err);
		n = failed ? 0 : recv(fd, answer + used, ZK_ANSWER_SIZE - 1 - used, 0);
		used += n > 0 ? (size_t)n : 0;
	}
	if (answer)
		answer[used] = '\0';
	if (fd >= 0)
		close(fd);
	return failed;
}

static void name_server(const struct uri_host *host, struct error *err)
{
	char label[URI_HOST_SIZE];

	error_prefix(err, "zookeeper %s",
		     uri_host_text(host->name, host->port, label, sizeof(label)));
}

bool zk_servers_ask(const struct zk_servers *servers, const struct uri_host *host,
		 char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err)
{
	const char *wrong = NULL;

	if (!ask_server(servers, host, answer, deadline_ms, err)) {
		if (strstr(answer, "not currently serving"))
			wrong = "does not serve: it has no quorum";
		else if (!servers->tls && !strstr(answer, "Mode:") && !strstr(answer, "whitelist"))
			wrong = "is no ZooKeeper server, or takes no more connections";
		if (!wrong)
			return true;
		error_set(err, ERROR_UNAVAILABLE, 0, "%s", wrong);
	}
	name_server(host, err);
	return false;
}

const struct uri_host *zk_servers_find(const struct zk_servers *servers, int64_t deadline_ms,
				    struct error *err)
{
	struct error why;

	for (size_t i = 0; i < servers->count; i++) {
		if (!ask_server(servers, &servers->hosts[i], NULL, deadline_ms, &why) ||
		    (why.kind == ERROR_UNAVAILABLE && clock_boot_ms() >= deadline_ms))
			return &servers->hosts[i];
		if (i && why.kind != ERROR_CANCELLED)
			continue;
		*err = why;
		name_server(&servers->hosts[i], err);
		if (why.kind == ERROR_CANCELLED)
			break;
	}
	return NULL;
}

/* ---- addresses ---- */

/* Add "ADDRESS:PORT" to the list, without brackets, as the library wants it. Returns the list. */
static char *add_server(char *list, const struct net_address *address, uint16_t port)
{
	char text[NI_MAXHOST], *longer;

	if (getnameinfo((const struct sockaddr *)&address->address, address->length, text,
			sizeof(text), NULL, 0, NI_NUMERICHOST))
		return list;
	longer = memory_format("%s%s%s:%u", list ? list : "", list ? "," : "", text,
			       (unsigned)port);
	free(list);
	return longer;
}

char *zk_servers_resolve(const struct zk_servers *servers, struct error *err)
{
	struct net_address found[NET_ADDRESSES];
	char *list = NULL;

	for (size_t i = 0; i < servers->count; i++) {
		const struct uri_host *host = &servers->hosts[i];
		const int count = net_resolve(host->name, host->port, found, err);

		if (count < 0)
			name_server(host, err);
		for (int j = 0; j < count; j++)
			list = add_server(list, &found[j], host->port);
	}
	return list;
}

/* ---- the URI ---- */

/* Convert ?ssl-ca=, cert= and key= to the library's form. */
static int read_tls(struct zk_servers *servers, const struct uri *uri, struct error *err)
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
	servers->tls = memory_format("%s,%s,%s,", ca, cert, key);
	return 0;
}

int zk_servers_init(struct zk_servers *servers, const struct backend *backend,
		    const struct uri *uri, struct error *err)
{
	servers->backend = backend;
	if (!uri->host_count)
		return error_set(err, ERROR_USAGE, 0, "zookeeper: there is no host: write "
				 "zookeeper://HOST[:PORT][,HOST...][/ROOT]");
	servers->count = uri->host_count;
	servers->hosts = memory_new(uri->host_count, sizeof(*servers->hosts));
	for (size_t i = 0; i < uri->host_count; i++) {
		servers->hosts[i].name = memory_copy(uri->hosts[i].name);
		servers->hosts[i].port = uri->hosts[i].port ? uri->hosts[i].port : DEFAULT_PORT;
	}
	uri_location(uri, DEFAULT_PORT, servers->label);
	return read_tls(servers, uri, err);
}

void zk_servers_finish(struct zk_servers *servers)
{
	for (size_t i = 0; i < servers->count; i++)
		free(servers->hosts[i].name);
	free(servers->hosts);
	free(servers->tls);
}
