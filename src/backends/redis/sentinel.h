/* SPDX-License-Identifier: MIT */
/* A master that Sentinel watches, and that may be another server after a failover. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct backend;
struct error;
struct redis_address;
struct redis_place;
struct redis_route;
struct uri;

/*
 * The route for redis+sentinel://SENTINEL[,SENTINEL...]/MASTER[/DB]. Sets the database of address,
 * and that it must be a master. NULL with *err.
 */
struct redis_route *redis_sentinel_open(const struct uri *uri, struct redis_address *address,
					struct error *err);

/*
 * Ask sentinel number which of such a route for the place of the master, over a connection of its
 * own and for limit_ms at most. 0 or -1.
 */
int redis_sentinel_ask(struct redis_route *route, size_t which, const struct backend *given,
		       int64_t limit_ms, struct redis_place *place, struct error *err);
