/* SPDX-License-Identifier: MIT */
/* The table of backends, and opening one: registry.h. */
#include "registry.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"
#include "file/path.h"

extern const struct backend_ops file_ops, redis_ops, redlock_ops;
const char *redis_library(void);

/* A backend that is not built stays in the table, so that an error can name it. */
#ifdef WITHOUT_REDIS
#define REDIS .ops = NULL
#define REDLOCK .ops = NULL
#else
#define REDIS .ops = &redis_ops, .library = redis_library
#define REDLOCK .ops = &redlock_ops
#endif
#ifdef WITHOUT_ZOOKEEPER
#define ZOOKEEPER .module = NULL
#else
#define ZOOKEEPER .module = "zookeeper"
#endif
#ifdef WITHOUT_ETCD
#define ETCD .module = NULL
#else
#define ETCD .module = "etcd"
#endif
#ifdef WITHOUT_MYSQL
#define MYSQL .module = NULL
#else
#define MYSQL .module = "mysql"
#endif
#ifdef WITHOUT_POSTGRES
#define POSTGRES .module = NULL
#else
#define POSTGRES .module = "postgres"
#endif

const struct backend_driver backend_drivers[] = {
	{ "file", "a directory on this host (the default)", .ops = &file_ops, .local = true },
	{ "redis", "a Redis or Valkey server", 6379, REDIS },
	{ "rediss", "the same, with TLS", 6379, REDIS },
	{ "redis+unix", "the same, through a Unix socket", REDIS },
	{ "redis+sentinel", "the master that Redis Sentinel names", 26379, REDIS },
	{ "redis+cluster", "a Redis or Valkey cluster", 6379, REDIS },
	{ "valkey", .alias_of = "redis" },
	{ "valkeys", .alias_of = "rediss" },
	{ "valkey+unix", .alias_of = "redis+unix" },
	{ "valkey+sentinel", .alias_of = "redis+sentinel" },
	{ "valkey+cluster", .alias_of = "redis+cluster" },
	{ "redlock", "a majority of several Redis or Valkey servers", 6379, REDLOCK },
	{ "zookeeper", "a ZooKeeper server or ensemble", 2181, ZOOKEEPER },
	{ "zk", .alias_of = "zookeeper" },
	{ "etcd", "an etcd cluster", 2379, ETCD },
	{ "etcds", "the same, with TLS", 2379, ETCD },
	{ "mysql", "a MySQL or MariaDB server", 3306, MYSQL },
	{ "mariadb", .alias_of = "mysql" },
	{ "postgresql", "a PostgreSQL server", 5432, POSTGRES },
	{ "postgres", .alias_of = "postgresql" },
	{ .scheme = NULL },
};

static const struct backend_driver *refuse_scheme(const char *scheme, struct error *err)
{
	char known[320] = "";
	size_t used = 0;

	for (const struct backend_driver *d = backend_drivers; d->scheme; d++)
		if (!d->alias_of && used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s:",
						 used ? ", " : "", d->scheme);
	error_set(err, ERROR_USAGE, 0, "unknown backend '%.60s:': known are %s", scheme, known);
	return NULL;
}

const struct backend_driver *backend_find(struct uri *uri, struct error *err)
{
	const struct backend_driver *driver = backend_drivers;
	struct error ignored;

	while (driver->scheme && strcmp(driver->scheme, uri->scheme) != 0)
		driver++;
	if (!driver->scheme)
		return refuse_scheme(uri->scheme, err);
	if (driver->alias_of) {
		uri->scheme = driver->alias_of;
		return backend_find(uri, err);
	}
	if (driver->local && !uri->path[0])
		uri->path = file_path_default(false, &ignored);
	return driver;
}

static const struct backend_ops *load_ops(const struct backend_driver *driver, struct error *err)
{
	const struct backend_module *module;

	if (driver->ops)
		return driver->ops;
	if (!driver->module) {
		error_set(err, ERROR_USAGE, 0, "this dlock was built without %s", driver->scheme);
		return NULL;
	}
	module = module_load(driver->module, err);
	return module ? module->ops : NULL;
}

/* Refuse an option that the backend does not support, and name the backends that do. */
static int check_request(const struct backend *backend, const struct request *request,
			 const struct uri *uri, struct error *err)
{
	const char *strategy = uri_param(uri, "strategy"), *dialect = uri_param(uri, "dialect");
	const char *with = strategy ? " with ?strategy=" : dialect ? " with ?dialect=" : "";
	const char *option = NULL;

	if (request->mode == HOLD_SHARED && !(backend->can & BACKEND_SHARED))
		option = "--shared";
	if (request->mode == HOLD_SLOT && !(backend->can & BACKEND_SLOTS))
		option = "--slots";
	if (!option)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s:%s%.60s has no %s; file:, redis:, zookeeper:, "
			 "etcd:, mysql: and postgresql: have it by default", uri->scheme, with,
			 strategy ? strategy : dialect ? dialect : "", option);
}

struct backend *backend_open(const struct backend_driver *driver, const struct uri *uri,
			     const struct request *request, struct error *err)
{
	const struct backend_ops *ops = load_ops(driver, err);
	struct backend *backend = ops ? ops->open(uri, err) : NULL;

	if (!backend)
		return NULL;
	if (!backend->ops)
		backend->ops = ops;
	backend->cancel_fd = -1;
	if (!uri_timeouts(uri, &backend->timeout_ms, &backend->connect_timeout_ms, err) &&
	    (!request || !check_request(backend, request, uri, err)))
		return backend;
	backend_close(backend);
	return NULL;
}

void backend_close(struct backend *backend)
{
	if (backend)
		backend->ops->close(backend);
}
