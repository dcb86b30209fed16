/* SPDX-License-Identifier: MIT */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/module.h"
#include "base/textfile.h"
#include "base/version.h"
#include "redis/tls.h"

/* How much memory a client library may take for the answers of a server. */
#define ANSWER_MOST ((rlim_t)128 << 20)

extern const struct backend_ops file_ops, redis_ops, redlock_ops;
const char *redis_library(void);

static const struct backend_scheme file_schemes[] = {
	{ .name = "file", .summary = "a directory on this host (the default)" },
	{ .name = NULL },
};
static const struct backend_scheme redis_schemes[] = {
	{ .name = "redis", .summary = "a Redis or Valkey server",
	  .port = 6379 },
	{ .name = "rediss", .summary = "the same, with TLS",
	  .port = 6379 },
	{ .name = "redis+unix", .summary = "the same, through a Unix socket" },
	{ .name = "redis+sentinel", .summary = "the master that Redis Sentinel names",
	  .port = 26379 },
	{ .name = "redis+cluster", .summary = "a Redis or Valkey cluster",
	  .port = 6379 },
	{ .name = "valkey", .alias_of = "redis" },
	{ .name = "valkeys", .alias_of = "rediss" },
	{ .name = "valkey+unix", .alias_of = "redis+unix" },
	{ .name = "valkey+sentinel", .alias_of = "redis+sentinel" },
	{ .name = "valkey+cluster", .alias_of = "redis+cluster" },
	{ .name = NULL },
};
static const struct backend_scheme redlock_schemes[] = {
	{ .name = "redlock", .summary = "a majority of several Redis or Valkey servers",
	  .port = 6379 },
	{ .name = NULL },
};
static const struct backend_scheme zookeeper_schemes[] = {
	{ .name = "zookeeper", .summary = "a ZooKeeper server or ensemble",
	  .port = 2181 },
	{ .name = "zk", .alias_of = "zookeeper" },
	{ .name = NULL },
};
static const struct backend_scheme mysql_schemes[] = {
	{ .name = "mysql", .summary = "a MySQL or MariaDB server",
	  .port = 3306 },
	{ .name = "mariadb", .alias_of = "mysql" },
	{ .name = NULL },
};

const struct backend_driver backend_drivers[] = {
	{ .schemes = file_schemes, .ops = &file_ops, .local = true },
	{ .schemes = redis_schemes,
#ifndef WITHOUT_REDIS
	  .ops = &redis_ops, .library = redis_library,
#endif
	},
	{ .schemes = redlock_schemes,
#ifndef WITHOUT_REDIS
	  .ops = &redlock_ops,
#endif
	},
	{ .schemes = zookeeper_schemes,
#ifndef WITHOUT_ZOOKEEPER
	  .module = "zookeeper",
#endif
	},
	{ .schemes = mysql_schemes,
#ifndef WITHOUT_MYSQL
	  .module = "mysql",
#endif
	},
	{ .schemes = NULL },
};

static void refuse_scheme(const char *scheme, struct error *err)
{
	char known[320] = "";
	size_t used = 0;

	for (const struct backend_driver *d = backend_drivers; d->schemes; d++)
		for (const struct backend_scheme *s = d->schemes; s->name; s++)
			if (!s->alias_of && used < sizeof(known))
				used += (size_t)snprintf(known + used, sizeof(known) - used,
							 "%s%s:", used ? ", " : "", s->name);
	error_set(err, ERROR_USAGE, 0, "unknown backend '%.60s:': known are %s", scheme, known);
}

const struct backend_driver *backend_find(struct uri *uri, struct error *err)
{
	for (const struct backend_driver *d = backend_drivers; d->schemes; d++)
		for (const struct backend_scheme *s = d->schemes; s->name; s++) {
			if (strcmp(s->name, uri->scheme) != 0)
				continue;
			if (s->alias_of)
				uri->scheme = s->alias_of;
			return d;
		}
	refuse_scheme(uri->scheme, err);
	return NULL;
}

/*
 * Limit the memory that a client library fills with a server's answers. A library that gets no more
 * memory fails, or crashes. A process that opens a module starts no other program.
 */
static void limit_memory(void)
{
	struct rlimit limit;
	char text[128], *field = text;
	rlim_t most;

	if (!textfile_start("/proc/self/statm", text, sizeof(text)) ||
	    getrlimit(RLIMIT_DATA, &limit))
		return;
	for (int i = 0; i < 5; i++)
		strtoull(field, &field, 10);
	most = strtoull(field, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) + ANSWER_MOST;
	if (limit.rlim_cur > most)
		limit.rlim_cur = most;
	setrlimit(RLIMIT_DATA, &limit);
}

static const struct backend_module *load_module(const struct backend_driver *driver,
						struct error *err)
{
	const struct backend_module *module;
	char file[64];

	snprintf(file, sizeof(file), "dlock-%.32s.so", driver->module);
	module = module_load(file, BACKEND_MODULE_SYMBOL, err);
	if (!module) {
		error_prefix(err, "the module for %s cannot be loaded", driver->module);
		return NULL;
	}
	if (strcmp(module->version, DLOCK_VERSION) != 0) {
		error_set(err, ERROR_INTERNAL, 0,
			  "the module for %s belongs to another version of dlock", driver->module);
		return NULL;
	}
	return module;
}

static const struct backend_ops *driver_ops(const struct backend_driver *driver,
					    struct error *err)
{
	const struct backend_module *module;

	if (driver->ops)
		return driver->ops;
	if (!driver->module) {
		error_set(err, ERROR_USAGE, 0, "this dlock was built without %s",
			  driver->schemes->name);
		return NULL;
	}
	module = load_module(driver, err);
	if (!module)
		return NULL;
	limit_memory();
	return module->ops;
}

const char *backend_library(const struct backend_driver *driver, struct error *err)
{
	const struct backend_module *module;

	if (driver->ops)
		return driver->library ? driver->library() : NULL;
	module = load_module(driver, err);
	return module ? module->library() : NULL;
}

#ifndef WITHOUT_TLS
const char *backend_tls_library(struct error *err)
{
	return redis_tls_library(err);
}
#endif

struct backend *backend_open(const struct backend_driver *driver,
			     const struct uri *uri, struct error *err)
{
	int64_t timeout_ms, connect_timeout_ms;
	const struct backend_ops *ops;
	struct backend *backend;

	if (uri_timeouts(uri, &timeout_ms, &connect_timeout_ms, err))
		return NULL;
	ops = driver_ops(driver, err);
	if (!ops)
		return NULL;
	backend = ops->open(uri, err);
	if (!backend)
		return NULL;
	if (!backend->ops)
		backend->ops = ops;
	backend->cancel_fd = -1;
	backend->timeout_ms = timeout_ms;
	backend->connect_timeout_ms = connect_timeout_ms;
	return backend;
}

/* What people call the locks of uri: "redis: with ?dialect=redisson". */
static void kind_of(const struct uri *uri, char *buf, size_t size)
{
	static const char *const choosing[] = { "strategy", "dialect", NULL };
	const char *const *param = choosing;

	while (*param && !uri_param(uri, *param))
		param++;
	if (*param)
		snprintf(buf, size, "%s: with ?%s=%.60s", uri->scheme, *param,
			 uri_param(uri, *param));
	else
		snprintf(buf, size, "%s:", uri->scheme);
}

/* Can the backend do what the request asks for? False: *err names backends that can. */
static bool can_serve(const struct backend *backend, const struct request *request,
		      const struct uri *uri, struct error *err)
{
	static const struct {
		enum backend_can bit;
		const char *what, *others, *pronoun;
	} needs[] = {
		{ BACKEND_SHARED, "shared holds", "file:, redis:, zookeeper: and mysql:", "them" },
		{ BACKEND_SLOTS, "--slots", "file:, redis:, zookeeper: and mysql:", "it" },
		{ BACKEND_REPLACES, "--replace-waiters", "redis: and mysql:", "it" },
	};
	unsigned int wanted = request->replaces ? BACKEND_REPLACES : 0;
	char kind[128];

	wanted |= request->mode == HOLD_SHARED ? BACKEND_SHARED
		: request->mode == HOLD_SLOT ? BACKEND_SLOTS : 0;
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (wanted & ~backend->can & needs[i].bit) {
			kind_of(uri, kind, sizeof(kind));
			error_set(err, ERROR_USAGE, 0, "%s has no %s; %s have %s by default", kind,
				  needs[i].what, needs[i].others, needs[i].pronoun);
			return false;
		}
	return true;
}

struct backend *backend_open_for(const struct request *request, const struct backend_driver *driver,
				 const struct uri *uri, struct error *err)
{
	struct backend *backend = backend_open(driver, uri, err);

	if (!backend || can_serve(backend, request, uri, err))
		return backend;
	backend_close(backend);
	return NULL;
}

void backend_close(struct backend *backend)
{
	if (backend)
		backend->ops->close(backend);
}

/* The default port of the scheme, which is no alias. */
static uint16_t default_port(const struct backend_driver *driver, const char *scheme)
{
	for (const struct backend_scheme *s = driver->schemes; s->name; s++)
		if (!strcmp(s->name, scheme))
			return s->port;
	return 0;
}

/* An object for a URI that need not say where the locks are; NULL: the URI says it. */
static struct backend *open_placed(const struct backend_driver *driver, const struct uri *uri)
{
	struct error ignored = { 0 };

	return driver->local ? backend_open(driver, uri, &ignored) : NULL;
}

const char *backend_place(const struct backend_driver *driver, const struct uri *uri,
			  char buf[static URI_PLACE_SIZE])
{
	struct backend *backend = open_placed(driver, uri);

	uri_place(uri, default_port(driver, uri->scheme), buf);
	if (backend)
		snprintf(buf, URI_PLACE_SIZE, "%s", backend->place);
	backend_close(backend);
	return buf;
}

uint64_t backend_identity(const struct backend_driver *driver, const struct uri *uri)
{
	struct backend *backend = open_placed(driver, uri);
	struct uri placed = *uri;
	uint64_t identity;

	if (backend)
		placed.path = strchr(backend->place, ':') + 1;
	identity = uri_identity(&placed);
	backend_close(backend);
	return identity;
}
