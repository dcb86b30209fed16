/* SPDX-License-Identifier: MIT */
/* Connections that are encrypted, by the module. */
#include "tls.h"

#include "base/error.h"
#include "base/module.h"
#include "conn.h"

static const struct redis_tls_module *module;

static int load(struct error *err)
{
	if (!module)
		module = module_load("tls", err);
	return module ? 0 : -1;
}

int redis_tls_handshake(struct redis_conn *conn, struct error *err)
{
	const struct redis_address *address = conn->address;

	if (!conn->tls && !load(err))
		conn->tls = module->open(conn->fd, &address->tls, address->host, err);
	return conn->tls ? module->handshake(conn->tls, &conn->wanted, err) : -1;
}

ssize_t redis_tls_read(struct redis_conn *conn, void *data, size_t size, struct error *err)
{
	return module->read(conn->tls, data, size, &conn->wanted, err);
}

/* What was encrypted is sent sooner or later: OpenSSL sends the rest of a record first. */
ssize_t redis_tls_write(struct redis_conn *conn, struct error *err)
{
	const ssize_t result = module->write(conn->tls, conn->unsent, conn->unsent_length,
					     &conn->wanted, err);

	if (!result)
		conn->begun = conn->unsent_length;
	return result;
}

void redis_tls_close(struct redis_conn *conn)
{
	if (conn->tls)
		module->close(conn->tls);
	conn->tls = NULL;
}
