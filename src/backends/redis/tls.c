/* SPDX-License-Identifier: MIT */
/* The transport that encrypts: TCP, with what the module does on top of it. */
#include "tls.h"

#include <string.h>

#include "base/error.h"
#include "base/module.h"
#include "base/version.h"
#include "conn.h"

static const struct redis_tls_module *module;

static int load(struct error *err)
{
	const struct redis_tls_module *loaded = module;

	if (loaded)
		return 0;
	loaded = module_load(REDIS_TLS_FILE, REDIS_TLS_SYMBOL, err);
	if (!loaded)
		return error_prefix(err, "the module for TLS cannot be loaded");
	if (strcmp(loaded->version, DLOCK_VERSION) != 0)
		return error_set(err, ERROR_INTERNAL, 0,
				 "the module for TLS belongs to another version of dlock");
	module = loaded;
	return 0;
}

const char *redis_tls_library(struct error *err)
{
	return load(err) ? NULL : module->library();
}

/* Where there is no module, no connection need be made. */
static int connect_tls(struct redis_conn *conn, int64_t deadline_ms, struct error *err)
{
	return load(err) ? -1 : redis_tcp.connect(conn, deadline_ms, err);
}

static int handshake_tls(struct redis_conn *conn, struct error *err)
{
	const struct redis_address *address = conn->address;

	if (!conn->tls && !load(err))
		conn->tls = module->open(conn->fd, &address->tls, address->host, err);
	return conn->tls ? module->handshake(conn->tls, &conn->wanted, err) : -1;
}

static ssize_t read_tls(struct redis_conn *conn, void *data, size_t size, struct error *err)
{
	return module->read(conn->tls, data, size, &conn->wanted, err);
}

/* What was encrypted is sent sooner or later: OpenSSL sends the rest of a record first. */
static ssize_t write_tls(struct redis_conn *conn, const void *data, size_t size, struct error *err)
{
	const ssize_t result = module->write(conn->tls, data, size, &conn->wanted, err);

	if (!result)
		conn->begun = size;
	return result;
}

static void close_tls(struct redis_conn *conn)
{
	if (conn->tls)
		module->close(conn->tls);
	conn->tls = NULL;
	redis_tcp.close(conn);
}

const struct redis_transport redis_tls = {
	.connect = connect_tls, .handshake = handshake_tls, .read = read_tls, .write = write_tls,
	.close = close_tls,
};
