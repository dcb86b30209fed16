/* SPDX-License-Identifier: MIT */
/*
 * Finds the server that has a lock where that server can change: with Sentinel, and in a cluster.
 * node.c asks the route where to connect, and tells the route what happened then:
 *
 *	locate()	whenever there is no connection
 *	lost()		when a connection could not be made, or broke
 *	redirect()	after an error reply
 *	confirm()	after any other reply
 *	masters()	to see all servers, not only the one that has a lock
 *	finish()
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "address.h"

struct backend;
struct error;
struct redisReply;
struct redis_route;

/* What lost() and redirect() return besides a number of ms. */
#define REDIS_ROUTE_ENDS (-1)

/* The pause between two questions whose answer time alone changes. */
#define REDIS_ROUTE_PAUSE_MS 100

/*
 * Whether this is the error of a script that has lost a key while it ran: a part of it has been
 * carried out. The second text is that of Redis and Valkey 8.
 */
static inline bool redis_route_torn(const char *text)
{
	return strstr(text, "access a non local key") ||
	       strstr(text, "accessed during rehashing of the slot");
}

/* Whether this is the error of a server that is no master, or not yet. */
static inline bool redis_route_no_master(const char *text)
{
	return strstr(text, "READONLY") || strstr(text, "MASTERDOWN") || strstr(text, "LOADING");
}

struct redis_route_ops {
	/*
	 * Sets *place to the server to connect to. bounds: connect_timeout_ms limits all of it, and
	 * cancel_fd cancels it. 0, or -1 with *err: nobody can say where the server is.
	 */
	int (*locate)(struct redis_route *route, const struct backend *bounds,
		      struct redis_place *place, struct error *err);
	/*
	 * After how many ms to try again, at the place that locate() gives then; or
	 * REDIS_ROUTE_ENDS: the error stands. from is the server of that error, whose text it is.
	 */
	int64_t (*lost)(struct redis_route *route);
	int64_t (*redirect)(struct redis_route *route, const struct redis_address *from,
			    const char *text);
	/*
	 * Has the server at address the last word on the lock? False: another one has it now, and
	 * the reply does not count.
	 */
	bool (*confirm)(struct redis_route *route, const struct backend *bounds,
			const struct redis_address *address);
	/*
	 * Reads the servers from the reply that the server at from gave to CLUSTER SLOTS. The
	 * caller frees *places. False: the reply makes no sense. NULL: there is one server at a
	 * time.
	 */
	bool (*masters)(const struct redisReply *reply, const struct redis_address *from,
			struct redis_place **places, size_t *count);
	/* Frees the route. */
	void (*finish)(struct redis_route *route);
};

struct redis_route {
	const struct redis_route_ops *ops;
	struct redis_place *places;	/* of the URI: the sentinels, or nodes of the cluster */
	size_t count;
	/* Set by redirect(): the next command is to follow ASKING; node.c sets it to false. */
	bool asking;
};
