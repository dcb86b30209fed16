/* SPDX-License-Identifier: MIT */
/* The servers of a URI. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

#include "base/error.h"
#include "lock/backend.h"
#include "lock/uri.h"

/* Only in a library that was built with OpenSSL. */
extern zhandle_t *zookeeper_init_ssl(const char *, const char *, watcher_fn, int,
				     const clientid_t *, void *, int) __attribute__((weak));

struct zk_servers {
	const struct backend *backend;	/* it has timeouts and cancel_fd */
	struct uri_host *hosts;
	size_t count;
	char *tls;			/* "ca,cert,key,"; NULL: none */
	char label[URI_LOCATION_SIZE];
};

/* Copies from uri. Returns 0, or -1 and sets *err. Call zk_servers_finish() in any case. */
int zk_servers_init(struct zk_servers *servers, const struct backend *backend,
		    const struct uri *uri, struct error *err);
void zk_servers_finish(struct zk_servers *servers);

#define ZK_ANSWER_SIZE 2048

/*
 * Ask a server in clear text for its version and role. With TLS, only connect, and the answer is
 * "". Returns true if the server serves; otherwise *err names the server, and what is wrong.
 */
bool zk_servers_ask(const struct zk_servers *servers, const struct uri_host *host,
		    char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err);

/*
 * Find a server that listens, until deadline_ms at most. Returns NULL and sets *err if there is
 * none, or if this was cancelled. A server that does not answer in time may listen.
 */
const struct uri_host *zk_servers_find(const struct zk_servers *servers, int64_t deadline_ms,
				       struct error *err);

/*
 * Look up the hosts' addresses, once. The library gets numeric ones, because it would block to look
 * up names between one server and the next. Returns a list, which the caller frees, or NULL and
 * sets *err if none is found.
 */
char *zk_servers_resolve(const struct zk_servers *servers, struct error *err);
