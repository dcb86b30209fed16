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
 *	{<key>}:waiters	hash: token -> queued_at, mode, replaces, text; "called" -> which waiter was
 *			called, and when
 *	{<key>}:newest	string: queued_at, token and text of the newest waiter that replaces others
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
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "client.h"
#include "lock/uri.h"

/* ---- the URI ---- */

/* The parameters of locks, for all kinds of URIs. */
#define LOCK_PARAMS "prefix", "replicas", "dialect", "lock", "watchdog"

static int read_host(struct redis_client *client, const struct uri *uri, struct error *err)
{
	struct redis_address *address = &client->servers[0].address;

	if (uri->host_count == 1)
		return redis_address_tcp(address, uri, uri->hosts, err) ||
		       redis_address_tls(address, uri, err) ? -1 : 0;
	return error_set(err, ERROR_USAGE, 0, "%s: %s: write %s://HOST[:PORT][/DB]", uri->scheme,
			 uri->host_count ? "one host is wanted, and there are more"
					 : "there is no host", uri->scheme);
}

static int read_socket(struct redis_client *client, const struct uri *uri, struct error *err)
{
	return redis_address_unix(&client->servers[0].address, uri, err);
}

/* The known parameters of each scheme, and the reader of its URIs. */
static const struct kind {
	const char *scheme;
	int (*read)(struct redis_client *client, const struct uri *uri, struct error *err);
	const char *known[20];
} kinds[] = {
	{ "redis", read_host, { LOCK_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "rediss", read_host, { LOCK_PARAMS, REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "redis+unix", read_socket, { LOCK_PARAMS, "db", URI_COMMON_PARAMS, NULL } },
	{ "redis+sentinel", redis_sentinel_read,
	  { LOCK_PARAMS, "sentinel-user", "sentinel-password-file", "sentinel-tls", "tls",
	    REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "redis+cluster", redis_cluster_read,
	  { LOCK_PARAMS, "tls", REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
};

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
	client->prefix = memory_copy(prefix ? prefix : REDIS_PREFIX);
	return uri_check_params(uri, kind->known, err) || kind->read(client, uri, err) ||
	       redis_address_login(&client->servers[0].address, uri, err) ||
	       redisson_read(client, uri, err) || read_replicas(client, uri, err) ? -1 : 0;
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
	redis_client_add(client);
	client->base.can = BACKEND_SHARED | BACKEND_SLOTS | BACKEND_REPLACES;
	if (!read_uri(client, uri, err))
		return &client->base;
	redis_close(&client->base);
	return NULL;
}

int redis_connect(struct backend *backend, const struct request *request, struct error *err)
{
	static const struct redis_call reach = { .what = NULL };
	struct redis_client *client = redis_from_backend(backend);

	if (!redisson_admits(client, request, err))
		return -1;
	return client->route ? redis_ask(client, &reach, err)
			     : redis_reach(client, backend->connect_timeout_ms, err);
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
