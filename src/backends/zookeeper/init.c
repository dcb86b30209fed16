/* SPDX-License-Identifier: MIT */
/* A connection before its first session, and after its last one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "conn.h"
#include "net.h"

#define DEFAULT_PORT 2181

/* "?ssl-ca=", "cert=", "key=" in the form of the library. */
static int read_tls(struct zk_conn *conn, const struct uri *uri, struct error *err)
{
	const char *ca = uri_param(uri, "ssl-ca"), *cert = uri_param(uri, "cert");
	const char *key = uri_param(uri, "key");

	if (!ca && !cert && !key)
		return 0;
	if (!zk_net_has_tls())
		return error_set(err, ERROR_USAGE, 0, "zookeeper: ssl-ca=, cert= and key= want a "
				 "libzookeeper with TLS, and this one was built without OpenSSL");
	if (!ca || !cert || !key || strchr(ca, ',') || strchr(cert, ',') || strchr(key, ','))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: TLS needs all of ssl-ca=, cert= "
				 "and key=, files without ',' in their names");
	conn->tls = memory_format("%s,%s,%s,", ca, cert, key);
	return 0;
}

/* Copies the hosts, each with a port, and lists them in the label. */
static void copy_hosts(struct zk_conn *conn, const struct uri *uri)
{
	size_t used = (size_t)snprintf(conn->label, sizeof(conn->label), "zookeeper ");

	conn->hosts = memory_new(uri->host_count, sizeof(*conn->hosts));
	conn->host_count = uri->host_count;
	for (size_t i = 0; i < uri->host_count; i++) {
		conn->hosts[i].name = memory_copy(uri->hosts[i].name);
		conn->hosts[i].port = uri->hosts[i].port ? uri->hosts[i].port : DEFAULT_PORT;
		if (used < sizeof(conn->label) - 2 && i)
			conn->label[used++] = ',';
		if (used < sizeof(conn->label) - 2)
			uri_host_text(conn->hosts[i].name, conn->hosts[i].port,
				      conn->label + used, sizeof(conn->label) - used);
		used = strlen(conn->label);
	}
}

int zk_conn_init(struct zk_conn *conn, const struct backend *limits, const struct uri *uri,
		 struct error *err)
{
	conn->limits = limits;
	pthread_mutex_init(&conn->mutex, NULL);
	conn->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	conn->ready_fd = eventfd(1, EFD_CLOEXEC);
	if (conn->news_fd < 0 || conn->ready_fd < 0)
		return error_set(err, ERROR_INTERNAL, errno, "eventfd");
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
	copy_hosts(conn, uri);
	return read_tls(conn, uri, err);
}

void zk_conn_finish(struct zk_conn *conn)
{
	zk_conn_close(conn);
	for (size_t i = 0; i < conn->host_count; i++)
		free(conn->hosts[i].name);
	free(conn->hosts);
	memory_free_secret(conn->auth);
	free(conn->user);
	free(conn->tls);
	free(conn->servers);
	free(conn->foreign);
	free(conn->fired);
	free(conn->news);
	close(conn->news_fd);
	close(conn->ready_fd);
	pthread_mutex_destroy(&conn->mutex);
}
