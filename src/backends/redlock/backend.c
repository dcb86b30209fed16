/* SPDX-License-Identifier: MIT */
/*
 * Redlock (redis.io, "Distributed locks with Redis"): a lock on several independent Redis servers.
 * A client holds it if it holds it on a majority of them. On each node the keys are those of
 * redis/backend.c, in its plain dialect, and the lock is always a string. This excludes npm's
 * redlock, redis-semaphore's RedlockMutex and others that set the same key on the same nodes.
 *
 * An acquisition asks all nodes at once. When a majority has given the lock, the lease is the rest
 * of the TTL since before the first request. Otherwise, or when nothing is left, the lock is
 * released on all nodes, also on those that have not answered: on a node that hangs, the release
 * follows the request on the same connection.
 *
 * - A node that was restarted within the TTL may have lost a lock. It gives the lock like all
 *   others, so that it keeps others out, but its vote does not count until it is as old as the
 *   longest TTL that any node reports, or has been up for a day and for the requested TTL. An
 *   acquisition does not wait for nodes beyond the first majority if it has been up for a day.
 *   Otherwise it waits for node-timeout, because a node without an answer may know a longer TTL.
 * - A renewal needs a majority that still has the hold. It restores the lock on the nodes that have
 *   lost it, and never takes it from anybody. Once the majority is lost, the hold is lost.
 * - The fence is the clock of the client, or the last fence of a node plus 1 if that is more. The
 *   greatest is written to a majority before the command starts.
 *
 * The nodes run the one script of redis/lua/. It gives a free lock to any client, because the
 * queues of the nodes may differ; so no order is promised. A waiter subscribes to its own channel
 * on each node, and is in the queue of each node, sorted by queued_at. A release calls the first
 * waiter that is alive, and the second one for 0.9 s later. A waiter tries when a majority of the
 * nodes has called it, or shortly after one has, when a majority of the leases has ended, and every
 * 5 s. When several clients tried at the same time and nobody got a majority, each pauses for a
 * random time.
 */
#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "redlock.h"

#define NODE_TIMEOUT_MS 50

/* ---- the URI ---- */

static int check_count(const struct uri *uri, struct error *err)
{
	const size_t count = uri->host_count;

	if (count >= 3 && count <= REDIS_MOST_SERVERS && count % 2)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "redlock: %zu nodes are named: name 3, 5 or 7%s",
			 count, count == 1 ? ", or use redis: for a single server"
			 : count % 2 ? ", as in redlock://HOST,HOST,HOST[/DB]"
			 : ", since an even number survives no more failures than one node fewer");
}

static int read_uri(struct redis_client *client, const struct uri *uri, struct error *err)
{
	static const char *const known[] = {
		"prefix", "node-timeout", "tls", REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL
	};
	const char *prefix = uri_param(uri, "prefix");

	if (uri_check_params(uri, known, err) || check_count(uri, err) ||
	    uri_param_duration(uri, "node-timeout", NODE_TIMEOUT_MS, &client->patience_ms, err))
		return -1;
	if (client->patience_ms <= 0)
		return error_set(err, ERROR_USAGE, 0, "?node-timeout= must be more than 0");
	for (size_t i = 0; i < uri->host_count; i++) {
		struct redis_address *address = &client->servers[i].address;

		if (redis_address_tcp(address, uri, &uri->hosts[i], err) ||
		    redis_address_read(address, uri, err))
			return -1;
		address->age = true;
	}
	client->prefix = memory_copy(prefix ? prefix : REDIS_PREFIX);
	return 0;
}

static struct backend *redlock_open(const struct uri *uri, struct error *err)
{
	struct redlock *lock = memory_new(1, sizeof(*lock));

	redis_client_init(&lock->client, uri->host_count);
	lock->client.attempt = redlock_attempt;
	if (!read_uri(&lock->client, uri, err))
		return &lock->client.base;
	redis_close(&lock->client.base);
	return NULL;
}

const struct backend_ops redlock_ops = {
	.open = redlock_open,
	.close = redis_close,
	.connect = redis_connect,
	.acquire = redis_acquire,
	.renew = redis_renew,
	.release = redis_release,
	.show = redlock_show,
	.fd = redis_fd,
	.event = redis_event,
	.setup = redis_setup,
	.check = redlock_check,
	.break_hold = redis_break,
};
