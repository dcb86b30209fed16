/* SPDX-License-Identifier: MIT */
/*
 * All keys of one lock are in one slot, which one master of the cluster has at a time. Any node
 * that gets a command for another one answers MOVED with the place of that one: so dlock asks the
 * nodes of the URI, one after the other, and goes where they send it. To compute the slot would
 * save nothing. The map from slots to nodes would have to be asked for first, which takes the same
 * time and a longer reply, and is in vain whenever the first node has the lock anyway.
 *
 * A slot that is being moved to another node has some keys here and some there. A command whose
 * keys are all gone is answered with ASK, and is sent there behind ASKING. Scripts look at several
 * keys, of which some seldom exist: these get TRYAGAIN until the whole slot has moved. A script
 * that has removed a key there may be refused the next step, and ends in the middle. That does no
 * harm: the lock is taken in one step, the last one, and each script can be sent again.
 */
#include "cluster.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "lock/uri.h"
#include "reply.h"
#include "route.h"

#define DEFAULT_PORT 6379
/* As many nodes as a cluster may have, by its specification. */
#define MOST_MASTERS 1000
/* Nodes that send dlock on to each other do not know yet who has the slot. */
#define MOST_HOPS 5

struct cluster {
	struct redis_route route;	/* first, see cluster_from_route() */
	size_t next;			/* the node of the URI to ask */
	struct redis_place target;	/* where a node has sent us; port 0: nowhere */
	size_t in_vain;			/* how many nodes of the URI were lost in a row */
	int hops;			/* since the last good reply */
};

static struct cluster *cluster_from_route(struct redis_route *route)
{
	return (struct cluster *)route;
}

/* Asks the next node of the URI. Returns the pause before, which comes after the last node. */
static int64_t start_over(struct cluster *cluster)
{
	cluster->target.port = 0;
	cluster->route.asking = false;
	cluster->next = (cluster->next + 1) % cluster->route.count;
	return cluster->next ? 0 : REDIS_ROUTE_PAUSE_MS;
}

static int cluster_locate(struct redis_route *route, const struct backend *bounds,
			  struct redis_place *place, struct error *err)
{
	const struct cluster *cluster = cluster_from_route(route);

	(void)bounds;
	(void)err;
	*place = cluster->target.port ? cluster->target : cluster->route.places[cluster->next];
	return 0;
}

/* Gives up when no node of the URI is there, each of which gets a chance, and the first one two. */
static int64_t cluster_lost(struct redis_route *route)
{
	struct cluster *cluster = cluster_from_route(route);

	if (!cluster->target.port && ++cluster->in_vain > cluster->route.count) {
		cluster->in_vain = 0;
		return REDIS_ROUTE_ENDS;
	}
	return start_over(cluster);
}

/*
 * Reads "SLOT HOST:PORT". The host may be IPv6, without brackets. It is missing, or "?", when it is
 * that of the node which says so.
 */
static bool read_target(const char *text, const struct redis_address *from,
			struct redis_place *place)
{
	const char *host = strchr(text, ' '), *colon = strrchr(text, ':');
	size_t length;
	int64_t port;

	if (!host || !colon || colon < host || !text_number(colon + 1, strlen(colon + 1), &port))
		return false;
	host++;
	length = (size_t)(colon - host);
	if (!length || (length == 1 && *host == '?')) {
		host = from->host;
		length = strlen(host);
	}
	return redis_place_set(place, host, length, port);
}

static int64_t follow(struct cluster *cluster, const struct redis_address *from, const char *text)
{
	if (!read_target(text, from, &cluster->target))
		return REDIS_ROUTE_ENDS;
	return ++cluster->hops % MOST_HOPS ? 0 : REDIS_ROUTE_PAUSE_MS;
}

static int64_t cluster_redirect(struct redis_route *route, const struct redis_address *from,
				const char *text)
{
	struct cluster *cluster = cluster_from_route(route);

	cluster->in_vain = 0;
	if (!strncmp(text, "MOVED ", 6))
		return follow(cluster, from, text + 6);
	if (!strncmp(text, "ASK ", 4)) {
		route->asking = true;
		return follow(cluster, from, text + 4);
	}
	if (!strncmp(text, "TRYAGAIN", 8) || redis_route_torn(text))
		return REDIS_ROUTE_PAUSE_MS;
	if (!strstr(text, "CLUSTERDOWN") && !redis_route_no_master(text))
		return REDIS_ROUTE_ENDS;
	start_over(cluster);
	return REDIS_ROUTE_PAUSE_MS;
}

/* A node that does not have the slot any more says so itself. */
static bool cluster_confirm(struct redis_route *route, const struct backend *bounds,
			    const struct redis_address *address)
{
	struct cluster *cluster = cluster_from_route(route);

	(void)bounds;
	(void)address;
	cluster->in_vain = 0;
	cluster->hops = 0;
	return true;
}

/* Adds [host, port, ...], in which the host may be missing as in read_target(). */
static bool add_master(const redisReply *node, const struct redis_address *from,
		       struct redis_place *places, size_t *count)
{
	struct redis_place *place = &places[*count];
	const redisReply *host;

	if (!redis_has_shape(node, ".i") || *count >= MOST_MASTERS)
		return false;
	host = node->element[0];
	if (!redis_is_text(host) || !host->len || !strcmp(host->str, "?")) {
		if (!redis_place_set(place, from->host, strlen(from->host),
				     node->element[1]->integer))
			return false;
	} else if (!redis_place_set(place, host->str, host->len, node->element[1]->integer)) {
		return false;
	}
	for (size_t i = 0; i < *count; i++)
		if (places[i].port == place->port && !strcmp(places[i].host, place->host))
			return true;
	++*count;
	return true;
}

/* The reply is a row [first slot, last slot, master, replica...] for each range of slots. */
static bool cluster_masters(const redisReply *reply, const struct redis_address *from,
			    struct redis_place **places, size_t *count)
{
	*count = 0;
	if (reply->type != REDIS_REPLY_ARRAY)
		return false;
	*places = memory_new(reply->elements + 1, sizeof(**places));
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *row = reply->element[i];

		if (!redis_has_shape(row, "iia") ||
		    !add_master(row->element[2], from, *places, count)) {
			free(*places);
			return false;
		}
	}
	return true;
}

static void cluster_finish(struct redis_route *route)
{
	struct cluster *cluster = cluster_from_route(route);

	free(cluster->route.places);
	free(cluster);
}

static const struct redis_route_ops cluster_ops = {
	.locate = cluster_locate,
	.lost = cluster_lost,
	.redirect = cluster_redirect,
	.confirm = cluster_confirm,
	.masters = cluster_masters,
	.finish = cluster_finish,
};

struct redis_route *redis_cluster_open(const struct uri *uri, struct error *err)
{
	struct cluster *cluster;

	if (uri->path[0] && uri->path[1]) {
		error_set(err, ERROR_USAGE, 0, "redis+cluster: a cluster has no databases; "
			  "leave out '%.100s'", uri->path);
		return NULL;
	}
	cluster = memory_new(1, sizeof(*cluster));
	cluster->route.ops = &cluster_ops;
	if (redis_places_read(uri, DEFAULT_PORT, &cluster->route.places, &cluster->route.count,
			      err)) {
		cluster_finish(&cluster->route);
		return NULL;
	}
	return &cluster->route;
}
