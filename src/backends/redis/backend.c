/* SPDX-License-Identifier: MIT */
/*
 * Locks on one Redis server, which may be another one after a failover (route.c). The key
 * <prefix><name> is a string whose value is the token of the holder, as in redis-py, Redlock and
 * many other programs. A lock that several may hold, shared or by slots, is a sorted set of tokens
 * at the same key, which also keeps those programs out. There are more keys beside it, in the same
 * slot of a cluster:
 *
 *	{<key>}:holders	hash: token -> fence, since, text of the holder
 *	{<key>}:fence	the last fence
 *	{<key>}:queue	sorted set: the tokens of the waiters by queued_at, the time of arrival
 *	{<key>}:waiters	hash: token -> queued_at, mode, text; "called" -> which waiter was called,
 *			and when
 *	{<key>}:wake:<token>	the channel that this waiter listens to
 *
 * lua/ has the one script for all requests. A release frees the lock and calls the first waiter,
 * which takes it like any client, while no newcomer of dlock may. A dead waiter has no listener and
 * is passed at once. A waiter that was called and has not tried within 900 ms is passed by the next
 * one, which is called for that time. Holders die, so each waiter also tries every 5 s, and the
 * first in the queue when the holder's lease ends.
 *
 * A waiter sends queued_at with each try. So it keeps its position after it was mistaken for dead,
 * and on a server that has lost the queue.
 *
 * tests/model/line.pml is the model of this queue. Its try() is acquire() in lua/lock.lua, its
 * take(), call_first() and leave() are take(), call() and leave() there, and its release() is
 * release(); send() is PUBLISH, and a waiter sleeps in the poll() of the engine.
 *
 * Other programs wake nobody. While one of them holds the lock, the first in the queue tries about
 * every 250 ms.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/memory.h"
#include "client.h"
#include "lock/uri.h"
#include "lock/uri_tls.h"

/* ---- addresses ---- */

#define REDIS_PORT 6379
#define SENTINEL_PORT 26379

static int read_endpoint(struct redis_endpoint *endpoint, const struct uri *uri,
			 const struct uri_host *host, uint16_t default_port, struct error *err)
{
	if (redis_endpoint_set(endpoint, host->name, strlen(host->name),
			       host->port ? host->port : default_port))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%.32s: host %td is no name or address of a host",
			 uri->scheme, host - uri->hosts + 1);
}

/* Read the number of a database; NULL or "": 0. */
static int read_db(struct redis_address *address, const char *text, struct error *err)
{
	char *end;

	if (!text || !text[0])
		return 0;
	address->db = strtol(text, &end, 10);
	if (text_is_digit(text[0]) && !*end && address->db <= 100000)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "redis: '%s' is not the number of a database", text);
}

int redis_address_tcp(struct redis_address *address, const struct uri *uri,
		      const struct uri_host *host, struct error *err)
{
	struct redis_endpoint endpoint = { .port = 0 };

	if ((uri->path[0] && read_db(address, uri->path + 1, err)) ||
	    read_endpoint(&endpoint, uri, host, REDIS_PORT, err))
		return -1;
	redis_address_move(address, &endpoint);
	return 0;
}

/* ---- user and password ---- */

static int read_login(struct redis_address *address, const struct uri *uri, const char *user,
		      const char *password, struct error *err)
{
	address->user = user && user[0] ? user : NULL;
	address->password = password;
	if (address->user && !password)
		return error_set(err, ERROR_USAGE, 0, "%s: a user without a password: write "
				 "%s://USER:PASSWORD@HOST, without a user ://:PASSWORD@HOST, or "
				 "?%spassword-file=PATH", uri->scheme, uri->scheme,
				 address->sentinel ? "sentinel-" : "");
	address->tls.hint = REDIS_TLS_HINT;
	return uri_tls_read(uri, !strcmp(uri->scheme, "rediss"), &address->encrypted,
			    &address->tls, err);
}

int redis_address_read(struct redis_address *address, const struct uri *uri, struct error *err)
{
	address->password_file = uri_param(uri, "password-file");
	return read_login(address, uri, uri->user, uri->password, err);
}

/* ---- each scheme ---- */

static int read_host(struct redis_client *client, const struct uri *uri, struct error *err)
{
	return redis_address_tcp(&client->servers[0].address, uri, uri->hosts, err);
}

static int read_socket(struct redis_client *client, const struct uri *uri, struct error *err)
{
	struct redis_server *server = &client->servers[0];
	struct sockaddr_un *to = (struct sockaddr_un *)&server->found[0].address;

	if (strlen(uri->path) >= sizeof(to->sun_path))
		return error_set(err, ERROR_USAGE, ENAMETOOLONG, "%s: '%.120s'", uri->scheme,
				 uri->path);
	*to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(to->sun_path, uri->path);
	server->found[0].length = sizeof(*to);
	server->found_count = 1;
	snprintf(server->address.label, sizeof(server->address.label), "redis %.100s", uri->path);
	return read_db(&server->address, uri_param(uri, "db"), err);
}

/* Make the route, which begins at the hosts of uri. */
static int read_route(struct redis_client *client, const struct uri *uri, uint16_t default_port,
		      struct error *err)
{
	struct redis_route *route = memory_new(1, sizeof(*route));

	client->route = route;
	route->endpoints = memory_new(uri->host_count, sizeof(route->endpoints[0]));
	route->count = uri->host_count;
	for (size_t i = 0; i < route->count; i++)
		if (read_endpoint(&route->endpoints[i], uri, &uri->hosts[i], default_port, err))
			return -1;
	route->target = route->endpoints[0];
	return 0;
}

static int read_cluster(struct redis_client *client, const struct uri *uri, struct error *err)
{
	if (read_route(client, uri, REDIS_PORT, err))
		return -1;
	client->servers[0].address.cluster = client->route->cluster = true;
	if (!uri->path[0] || !uri->path[1])
		return 0;
	return error_set(err, ERROR_USAGE, 0,
			 "redis+cluster: a cluster has no databases; leave "
			 "out '%.100s'",
			 uri->path);
}

/* The path is "/MASTER" or "/MASTER/DB". The sentinels have a login of their own. */
static int read_sentinel(struct redis_client *client, const struct uri *uri, struct error *err)
{
	struct redis_address *master = &client->servers[0].address, *sentinel;
	const char *name = uri->path + 1, *db = name + strcspn(name, "/");
	bool encrypted;

	if (read_route(client, uri, SENTINEL_PORT, err))
		return -1;
	client->route->master = memory_copy_part(name, (size_t)(db - name));
	client->route->sentinel = memory_new(1, sizeof(*client));
	redis_client_init(client->route->sentinel, 1);
	sentinel = &client->route->sentinel->servers[0].address;
	master->master = sentinel->sentinel = true;
	sentinel->password_file = uri_param(uri, "sentinel-password-file");
	if (read_login(sentinel, uri, uri_param(uri, "sentinel-user"), uri->sentinel_password,
		       err) ||
	    uri_param_flag(uri, "sentinel-tls", true, &encrypted, err))
		return -1;
	sentinel->encrypted &= encrypted;
	return *db ? read_db(master, db + 1, err) : 0;
}

/* The parameters of locks, for all kinds of URIs. */
#define LOCK_PARAMS "prefix", "replicas", "dialect", "lock", "watchdog"

/* What the URIs of each scheme have, and their reader. */
static const struct kind {
	const char *scheme, *form;
	size_t most_hosts;		/* 0: a path instead */
	bool wants_path;
	int (*read)(struct redis_client *client, const struct uri *uri, struct error *err);
	const char *known[20];		/* parameters */
} kinds[] = {
	{ "redis", "redis://HOST[:PORT][/DB]", 1, false,
	  read_host, { LOCK_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "rediss", "rediss://HOST[:PORT][/DB]", 1, false,
	  read_host, { LOCK_PARAMS, URI_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "redis+unix", "redis+unix:///PATH[?db=N]", 0, true,
	  read_socket, { LOCK_PARAMS, "db", URI_COMMON_PARAMS, NULL } },
	{ "redis+sentinel", "redis+sentinel://HOST[:PORT][,HOST...]/MASTER[/DB]", SIZE_MAX, true,
	  read_sentinel,
	  { LOCK_PARAMS, "sentinel-user", "sentinel-password-file", "sentinel-tls", "tls",
	    URI_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "redis+cluster", "redis+cluster://HOST[:PORT][,HOST...]", SIZE_MAX, false,
	  read_cluster, { LOCK_PARAMS, "tls", URI_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
};

/* Does uri have the hosts and the path that its scheme wants? Returns 0, or -1 and sets *err. */
static int check_form(const struct kind *kind, const struct uri *uri, struct error *err)
{
	if (uri->host_count > kind->most_hosts || (kind->most_hosts && !uri->host_count))
		return error_set(err, ERROR_USAGE, 0, "%s: wrong number of hosts (%zu): write %s",
				 kind->scheme, uri->host_count, kind->form);
	if (kind->wants_path && strspn(uri->path, "/") == strlen(uri->path))
		return error_set(err, ERROR_USAGE, 0, "%s: the path is missing: write %s",
				 kind->scheme, kind->form);
	return 0;
}

/* More than any server has, and within the range of WAIT. */
#define MOST_REPLICAS 1000

static int read_replicas(struct redis_client *client, const struct uri *uri, struct error *err)
{
	const char *text = uri_param(uri, "replicas");

	if (!text || (text_number(text, strlen(text), &client->replicas) && client->replicas > 0 &&
		      client->replicas <= MOST_REPLICAS))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s: ?replicas= must be a number from 1 to %d",
			 client->servers[0].address.label, MOST_REPLICAS);
}

static int read_uri(struct redis_client *client, const struct uri *uri, struct error *err)
{
	const char *prefix = uri_param(uri, "prefix");
	const struct kind *kind = kinds;

	while (strcmp(kind->scheme, uri->scheme) != 0)
		kind++;
	client->prefix = prefix ? prefix : REDIS_PREFIX;
	return uri_check_params(uri, kind->known, err) || check_form(kind, uri, err) ||
			       kind->read(client, uri, err) ||
			       redis_address_read(&client->servers[0].address, uri, err) ||
			       redisson_read(client, uri, err) || read_replicas(client, uri, err)
		       ? -1
		       : 0;
}

void redis_close(struct backend *backend)
{
	if (backend)
		redis_client_finish(redis_from_backend(backend));
	free(backend);
}

static struct backend *redis_open(const struct uri *uri, struct error *err)
{
	struct redis_client *client = memory_new(1, sizeof(*client));

	redis_client_init(client, 1);
	client->base.can = BACKEND_SHARED | BACKEND_SLOTS;
	if (!read_uri(client, uri, err))
		return &client->base;
	redis_close(&client->base);
	return NULL;
}

int redis_connect(struct backend *backend, const struct request *request, struct error *err)
{
	struct redis_call reach = { .timeout_ms = backend->connect_timeout_ms };
	struct redis_client *client = redis_from_backend(backend);

	return redisson_admits(client, request, err) ? redis_ask_majority(client, &reach, err) : -1;
}

#define TEXT_OF(number) #number
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *redis_library(void);
const char *redis_library(void)
{
	return "hiredis " VERSION_OF(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

const struct backend_ops redis_ops = {
	.open = redis_open,
	.close = redis_close,
	.connect = redis_connect,
	.acquire = redis_acquire,
	.renew = redis_renew,
	.release = redis_release,
	.show = redis_show,
	.fd = redis_fd,
	.event = redis_event,
	.setup = redis_setup,
	.check = redis_check,
	.break_hold = redis_break,
};
