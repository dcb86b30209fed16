/* SPDX-License-Identifier: MIT */
/* The transport that encrypts: TCP, with what the module does on top of it. */
#include "tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"
#include "base/net.h"
#include "base/version.h"
#include "lock/backend.h"
#include "conn.h"

static const struct redis_tls_module *module;

static int load(struct error *err)
{
	const struct redis_tls_module *loaded = module;

	if (loaded)
		return 0;
	loaded = module_load(REDIS_TLS_FILE, REDIS_TLS_SYMBOL, err);
	if (!loaded) {
		error_prefix(err, "the module for TLS cannot be loaded");
		return -1;
	}
	if (strcmp(loaded->version, DLOCK_VERSION) != 0) {
		error_set(err, ERROR_INTERNAL, 0,
			  "the module for TLS belongs to another version of dlock");
		return -1;
	}
	module = loaded;
	return 0;
}

/* A Redis server without TLS takes the handshake for the beginning of a long command, and waits. */
static int shake_hands(struct redis_conn *conn, int64_t deadline_ms, struct error *err)
{
	int state;

	while (!(state = module->handshake(conn->tls, &conn->wanted, err)))
		if (net_wait(conn->fd, conn->wanted, deadline_ms, conn->backend->cancel_fd, err)) {
			if (err->kind == ERROR_UNAVAILABLE)
				error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT,
					  "no answer to the TLS handshake, as from a server "
					  "without TLS (redis:)");
			return -1;
		}
	return state > 0 ? 0 : -1;
}

static void close_tls(struct redis_conn *conn)
{
	if (conn->tls)
		module->close(conn->tls);
	conn->tls = NULL;
	redis_tcp.close(conn);
}

static int connect_tls(struct redis_conn *conn, int64_t deadline_ms, struct error *err)
{
	const struct redis_address *address = conn->address;

	if (load(err) || redis_tcp.connect(conn, deadline_ms, err))
		return -1;
	conn->tls = module->open(conn->fd, &address->tls, address->host, err);
	if (conn->tls && !shake_hands(conn, deadline_ms, err))
		return 0;
	close_tls(conn);
	conn->fd = -1;
	return -1;
}

static ssize_t read_tls(struct redis_conn *conn, void *data, size_t size, struct error *err)
{
	return module->read(conn->tls, data, size, &conn->wanted, err);
}

static ssize_t write_tls(struct redis_conn *conn, const void *data, size_t size, struct error *err)
{
	return module->write(conn->tls, data, size, &conn->wanted, err);
}

const struct redis_transport redis_tls = { connect_tls, read_tls, write_tls, close_tls };
