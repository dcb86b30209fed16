/* SPDX-License-Identifier: MIT */
/* A master that Sentinel watches, and that may be another server after a failover. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct backend;
struct error;
struct redis_address;
struct redis_route;
struct redisReply;
struct uri;

/*
 * The route for redis+sentinel://SENTINEL[,SENTINEL...]/MASTER[/DB]. Sets the database of address,
 * and that it must be a master. NULL with *err.
 */
struct redis_route *redis_sentinel_open(const struct uri *uri, struct redis_address *address,
					struct error *err);

/*
 * Asks sentinel number which of such a route: SENTINEL command MASTER, over a connection of its own
 * and for limit_ms at most. The caller frees the reply, which may be an error. NULL with *err.
 */
struct redisReply *redis_sentinel_ask(struct redis_route *route, size_t which,
				      const struct backend *bounds, int64_t limit_ms,
				      const char *command, struct error *err);
