/* SPDX-License-Identifier: MIT */
/*
 * Finds the server that has a lock where that server can change: with Sentinel, and in a cluster.
 * route.c describes how.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client.h"

struct uri;

/*
 * Asks the only server, or the one to which the route leads. Connects if there is no connection.
 * When it breaks, the request is sent once more over a new one (base.resent): all requests can be
 * repeated with the same token. After a timeout it is not, for the server would most likely not
 * answer the second time either. With a route the request is sent until the server that has the
 * lock answers, and that takes no longer than a request or a connection may, whichever is longer;
 * when it is another server than before, both connections are closed. 0, and the reply lives
 * until the next round; -1 with *err, also for an error reply.
 */
int redis_ask(struct redis_client *client, const struct redis_call *call, struct error *err);
/* The same for a command, which ends with NULL. Returns the reply; NULL with *err. */
const struct redisReply *redis_command(struct redis_client *client, const char *const *command,
				       struct error *err);

/* Read redis+sentinel:, redis+cluster: into client->route. 0, or -1 with *err. */
int redis_sentinel_read(struct redis_client *client, const struct uri *uri, struct error *err);
int redis_cluster_read(struct redis_client *client, const struct uri *uri, struct error *err);

/* Asks sentinel number which for the endpoint of the master, for limit_ms at most. 0 or -1. */
int redis_sentinel_ask(struct redis_client *client, size_t which, int64_t limit_ms,
		       struct redis_endpoint *endpoint, struct error *err);

/*
 * Call visit(), whose commands go to this server alone, for each of these endpoints, and stop when
 * one returns -1. 0 or -1.
 */
typedef int redis_visit_fn(struct redis_client *client, void *context, struct error *err);
int redis_visit(struct redis_client *client, const struct redis_endpoint *endpoints, size_t count,
		redis_visit_fn *visit, void *context, struct error *err);
/* The same for each server that may have locks. */
int redis_visit_all(struct redis_client *client, redis_visit_fn *visit, void *context,
		    struct error *err);

/* ---- the decisions, for route.c and its unit test ---- */

/* Returned in place of a pause: the reply or the error stands. */
#define REDIS_ROUTE_ENDS (-1)
/* The pause between two questions whose answer time alone changes. */
#define REDIS_ROUTE_PAUSE_MS 100

/*
 * After how many ms to try again when a connection was lost. A server may close one for reasons of
 * its own: with Sentinel there is no pause the first time. A cluster is given up when no node of
 * the URI is there, each of which gets a chance, and the first one two.
 */
int64_t redis_after_loss(struct redis_route *route);
/* The same after an error reply. */
int64_t redis_after_error(struct redis_client *client, const char *text);
/* The node of the cluster to go to. */
const struct redis_endpoint *redis_cluster_endpoint(const struct redis_route *route);
/* The masters in the reply of the node at from to CLUSTER SLOTS. The caller frees *endpoints. */
bool redis_read_masters(const struct redisReply *reply, const struct redis_address *from,
			struct redis_endpoint **endpoints, size_t *count);
