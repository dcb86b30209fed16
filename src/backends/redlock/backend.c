/* SPDX-License-Identifier: MIT */
/*
 * Redlock (redis.io, "Distributed locks with Redis"): a lock on several Redis servers that know
 * nothing of each other. Whoever has it on a majority of them has it. On each node the keys are
 * those of redis/backend.c, in its plain dialect, and the lock is always a string, so that npm's
 * redlock, redis-semaphore's RedlockMutex and others that set the same key on the same nodes are
 * excluded.
 *
 * An acquisition asks all nodes at once. When a majority has given the lock, what is left of the
 * TTL since before the first request is the lease. Otherwise, and when nothing is left of it, the
 * lock is released on all nodes, also on those that have not answered: a request that waits in the
 * buffer of a node that hangs is followed there, on the same connection, by its release.
 *
 * - A node that was restarted within the TTL may have forgotten a lock. It gives the lock like all
 *   others, so that it keeps others out, but its vote does not count until it is as old as the
 *   longest TTL that any node reports. Nodes that have been up for a day are not waited for when
 *   they are no part of the first majority. Younger ones are, as long as node-timeout, because a
 *   node that has not answered may know a longer TTL.
 * - A renewal needs a majority that still has the hold. It sets the lock again on the nodes that
 *   have lost it, and never takes it from anybody. Once the majority is lost, the hold is lost.
 * - The fence is the clock of the client, or the last fence of a node plus 1 if that is more. The
 *   greatest is written to a majority before the command starts.
 *
 * The nodes run the one script of redis/lua/. It gives the lock to whoever finds it free, because
 * the queues of the nodes may differ; so there is no promise of an order. A waiter subscribes to a
 * channel of its own on each node, and stands in the queue of each node by the time at which it
 * came. A release calls the first waiter that is alive, and the second one for 0.9 s later. A
 * waiter tries when a majority of the nodes has called it, or shortly after one has, when a
 * majority of the leases has ended, and every 5 s. When several tried at the same time, and nobody
 * got a majority, each tries again after a random time.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "backends/redis/lock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"
#include "round.h"
#include "validity.h"

#define NODE_TIMEOUT_MS 50

static void redlock_close(struct backend *backend)
{
	struct redlock *lock = redlock_from_backend(backend);

	if (!lock)
		return;
	for (int i = 0; i < REDLOCK_MOST_NODES; i++)
		redlock_node_finish(&lock->nodes[i]);
	for (int i = 0; i < REDIS_KEYS; i++)
		free(lock->keys[i]);
	if (lock->epoll_fd >= 0)
		close(lock->epoll_fd);
	free(lock->prefix);
	free(lock);
}

/* ---- the URI ---- */

/* Do two nodes have the same address, as far as that can be seen without looking up names? */
static bool is_same(const struct redis_address *a, const struct redis_address *b)
{
	const char *first = strcasecmp(a->host, "localhost") ? a->host : "127.0.0.1";
	const char *second = strcasecmp(b->host, "localhost") ? b->host : "127.0.0.1";
	struct sockaddr_storage x, y;
	socklen_t x_length, y_length;

	if (a->port != b->port)
		return false;
	if (net_literal(first, a->port, &x, &x_length) &&
	    net_literal(second, b->port, &y, &y_length))
		return x_length == y_length && !memcmp(&x, &y, x_length);
	return !strcasecmp(first, second);
}

static int check_count(const struct uri *uri, struct error *err)
{
	const size_t count = uri->host_count;

	if (count >= REDLOCK_LEAST_NODES && count <= REDLOCK_MOST_NODES && count % 2)
		return 0;
	if (count && count <= REDLOCK_MOST_NODES && count % 2 == 0)
		return error_set(err, ERROR_USAGE, 0, "redlock: %zu nodes are named: name 3, 5 or "
				 "7, since an even number survives no more failures than one node "
				 "fewer", count);
	return error_set(err, ERROR_USAGE, 0, "redlock: name 3, 5 or 7 nodes, as in "
			 "redlock://HOST,HOST,HOST[/DB]; the URI has %zu%s", count,
			 count == 1 ? " (for a single server there is redis:)" : "");
}

static int add_node(struct redlock *lock, const struct uri *uri, const struct uri_host *host,
		    struct error *err)
{
	struct redlock_node *node = &lock->nodes[lock->count];

	if (redis_address_tcp(&node->address, uri, host, err) ||
	    redis_address_tls(&node->address, uri, err) ||
	    redis_address_login(&node->address, uri, err))
		return -1;
	node->main.address = node->wake.address = &node->address;
	node->main.backend = node->wake.backend = &lock->base;
	for (int i = 0; i < lock->count; i++) {
		if (!is_same(&lock->nodes[i].address, &node->address))
			continue;
		return error_set(err, ERROR_USAGE, 0, "redlock: node %d, %s, is node %d again, and "
				 "would have two votes: name each node once", lock->count + 1,
				 node->address.label, i + 1);
	}
	lock->count++;
	return 0;
}

static int read_uri(struct redlock *lock, const struct uri *uri, struct error *err)
{
	static const char *const known[] = {
		"prefix", "node-timeout", "tls", REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL
	};
	const char *prefix = uri_param(uri, "prefix");

	if (uri_check_params(uri, known, err) || check_count(uri, err) ||
	    uri_param_duration(uri, "node-timeout", NODE_TIMEOUT_MS, &lock->node_timeout_ms, err))
		return -1;
	if (lock->node_timeout_ms <= 0)
		return error_set(err, ERROR_USAGE, 0, "?node-timeout= must be more than 0");
	for (size_t i = 0; i < uri->host_count; i++)
		if (add_node(lock, uri, &uri->hosts[i], err))
			return -1;
	lock->prefix = memory_copy(prefix ? prefix : REDIS_PREFIX);
	lock->quorum = redlock_quorum(lock->count);
	return 0;
}

static struct backend *redlock_open(const struct uri *uri, struct error *err)
{
	struct redlock *lock = memory_new(1, sizeof(*lock));

	lock->epoll_fd = -1;
	for (int i = 0; i < REDLOCK_MOST_NODES; i++)
		lock->nodes[i].main.fd = lock->nodes[i].wake.fd = -1;
	if (!read_uri(lock, uri, err))
		return &lock->base;
	redlock_close(&lock->base);
	return NULL;
}

static int redlock_connect(struct backend *backend, const struct request *request,
			   struct error *err)
{
	(void)request;
	return redlock_reach(redlock_from_backend(backend), NULL, err);
}

const struct backend_ops redlock_ops = {
	.open = redlock_open,
	.close = redlock_close,
	.connect = redlock_connect,
	.acquire = redlock_acquire,
	.renew = redlock_renew,
	.release = redlock_release,
	.show = redlock_show,
	.fd = redlock_event_fd,
	.event = redlock_event,
	.setup = redlock_setup,
	.check = redlock_check,
	.break_hold = redlock_break,
};
