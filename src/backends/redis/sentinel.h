/* SPDX-License-Identifier: MIT */
/* A master that Sentinel watches, and that may be another server after a failover. */
#ifndef DLOCK_REDIS_SENTINEL_H
#define DLOCK_REDIS_SENTINEL_H

struct error;
struct redis_address;
struct redis_route;
struct uri;

/*
 * The route for redis+sentinel://SENTINEL[,SENTINEL...]/MASTER[/DB]. Sets the database of address,
 * and that it must be a master. NULL with *err.
 */
struct redis_route *redis_sentinel_open(const struct uri *uri, struct redis_address *address,
					struct error *err);

#endif
