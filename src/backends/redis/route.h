/* SPDX-License-Identifier: MIT */
/*
 * Finding the server that has a lock where that server can change: with Sentinel, and in a cluster.
 * route.c describes how.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client.h"

struct uri;

/*
 * Send a request to the only server, or to the one that the route leads to, and connect if
 * necessary. If the connection breaks, the request is sent once more over a new one (base.resent),
 * because all requests can be repeated with the same token. After a timeout it is not: the server
 * would most likely not answer the second time either. With a route the request is sent until the
 * server that has the lock answers, for the timeout of a request or a connection, whichever is
 * longer. If this is another server than before, both connections are closed. Returns 0, and the
 * reply lives until the next round; or -1 and sets *err, also for an error reply.
 */
int redis_ask(struct redis_client *client, const struct redis_call *call, struct error *err);
/*
 * Send a command, which ends with NULL, as redis_ask(). Returns the reply, or NULL and sets *err.
 */
const struct redisReply *redis_command(struct redis_client *client, const char *const *command,
				       struct error *err);

/* Read redis+sentinel: or redis+cluster: into client->route. Returns 0, or -1 and sets *err. */
int redis_sentinel_read(struct redis_client *client, const struct uri *uri, struct error *err);
int redis_cluster_read(struct redis_client *client, const struct uri *uri, struct error *err);

/* Ask sentinel number which for the master, for limit_ms at most. Returns 0 or -1. */
int redis_sentinel_ask(struct redis_client *client, size_t which, int64_t limit_ms,
		       struct redis_endpoint *endpoint, struct error *err);

/*
 * Call visit(), whose commands go to this server alone, for each of these endpoints, and stop when
 * one returns -1. 0 or -1.
 */
typedef int redis_visit_fn(struct redis_client *client, void *context, struct error *err);
int redis_visit(struct redis_client *client, const struct redis_endpoint *endpoints, size_t count,
		redis_visit_fn *visit, void *context, struct error *err);
/* Visit each server that may have locks. */
int redis_visit_all(struct redis_client *client, redis_visit_fn *visit, void *context,
		    struct error *err);

/* ---- the decisions, for route.c and its unit test ---- */

/* Returned instead of a pause: the reply or the error is final. */
#define REDIS_ROUTE_ENDS (-1)
/* The pause before a question is repeated. */
#define REDIS_ROUTE_PAUSE_MS 100

/*
 * Returns the pause in ms before another try, after a lost connection. With Sentinel there is no
 * pause the first time, because a server may close a connection for its own reasons. A cluster is
 * given up after a try of each node of the URI, and two of the first one.
 */
int64_t redis_after_loss(struct redis_route *route);
/* Returns the pause before another try, after an error reply. */
int64_t redis_after_error(struct redis_client *client, const char *text);
/* Returns the node of the cluster to connect to. */
const struct redis_endpoint *redis_cluster_endpoint(const struct redis_route *route);
/* Read the masters in the reply of the node from to CLUSTER SLOTS. The caller frees *endpoints. */
bool redis_read_masters(const struct redisReply *reply, const struct redis_endpoint *from,
			struct redis_endpoint **endpoints, size_t *count);
