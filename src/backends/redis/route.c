/* SPDX-License-Identifier: MIT */
/*
 * A loop around the round to one server, which follows the lock to its present server.
 *
 * Sentinel. The sentinels are asked one after the other, each over a new connection, and the first
 * answer counts. It may be wrong: a sentinel that was cut off names the old master. So the server
 * that it names must also report to be a master (address->master), or the next sentinel is asked.
 * An old master still reports this after a failover. It accepts writes for some 10 s, until a
 * sentinel makes it a replica, and connections to it stay open for that long. Therefore a reply
 * counts only if a sentinel has named the server shortly before, or names it now. While no sentinel
 * can be reached, the reply counts: a failover is then as likely as ever, but to lose all locks
 * whenever the sentinels are restarted would be worse.
 *
 * Cluster. All keys of one lock are in one slot, which one master has at a time. A node that gets a
 * command for another one answers MOVED with its endpoint. So dlock asks the nodes of the URI, one
 * after the other, and follows MOVED. To compute the slot would save nothing, because the map from
 * slots to nodes would have to be read first. While a slot moves, its keys are on two nodes. A
 * command whose keys are all gone gets the answer ASK, and is sent to the new node behind ASKING.
 * Scripts use several keys, of which some seldom exist: they get TRYAGAIN until the whole slot has
 * moved. A script that has removed a key of a moving slot may fail in its next step. That does no
 * harm: the last step takes the lock, and each script can be sent a second time.
 */
#include "client.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/*
 * For how long a sentinel's answer counts, in ms: enough for a connection and its first command.
 */
#define NAMED_MS 500
/* The slots of a cluster, by its specification. */
#define MOST_SLOTS 16384
/* After this many redirections the nodes disagree on the slot: pause. */
#define MOST_HOPS 5

static void next_endpoint(struct redis_route *route)
{
	route->next = (route->next + 1) % route->count;
}

static void go_to(struct redis_client *client, const struct redis_endpoint *endpoint)
{
	struct redis_server *server = &client->servers[0];

	if (redis_endpoint_equal(&server->address.at, endpoint))
		return;
	redis_server_leave(server);
	redis_address_move(&server->address, endpoint);
	server->found_count = 0;
}

/* ---- Sentinel ---- */

/*
 * Ask sentinel number which for the master, for limit_ms at most. The answer is [host, port], both
 * strings; nil for a master that the sentinel does not watch.
 */
static int ask_sentinel(struct redis_client *client, size_t which, int64_t limit_ms,
			struct redis_endpoint *endpoint, struct error *err)
{
	struct redis_route *route = client->route;
	struct redis_client *sentinel = route->sentinel;
	const char *const argv[] = { "SENTINEL", "GET-MASTER-ADDR-BY-NAME", route->master, NULL };
	const redisReply *reply;
	int64_t port;
	int result = 0;

	sentinel->base = client->base;
	sentinel->base.connect_timeout_ms = sentinel->base.timeout_ms = limit_ms;
	sentinel->until_ms = clock_boot_ms() + limit_ms;
	reply = redis_command(sentinel, &route->endpoints[which], argv, err);
	if (!reply)
		result = -1;
	else if (reply->type == REDIS_REPLY_NIL)
		result = error_set(err, ERROR_REFUSED, 0, "%s: watches no master '%.100s'",
				   sentinel->servers[0].address.label, route->master);
	else if (!redis_has_shape(reply, "ss") ||
		 !text_number(reply->element[1]->str, reply->element[1]->len, &port) ||
		 !redis_endpoint_set(endpoint, reply->element[0]->str, reply->element[0]->len,
				     port))
		result = redis_odd(&sentinel->servers[0], err);
	redis_server_leave(&sentinel->servers[0]);
	return result;
}

/* Ask the sentinels for the master. Each gets half of the time that is left, the last one all. */
static int locate_master(struct redis_client *client, int64_t limit_ms,
			 struct redis_endpoint *endpoint, struct error *err)
{
	struct redis_route *route = client->route;
	const int64_t end_ms = clock_boot_ms() + limit_ms;
	int64_t asked_ms;
	struct error one;

	for (size_t i = 1; i <= route->count; i++) {
		one = (struct error){ 0 };
		asked_ms = clock_boot_ms();
		limit_ms = (end_ms - asked_ms) / (i < route->count ? 2 : 1);
		if (!ask_sentinel(client, route->next, limit_ms, endpoint, &one)) {
			route->named_ms = asked_ms;
			return 0;
		}
		/* A refusal is a better reason than a sentinel that is down. */
		if (i == 1 || one.kind != ERROR_UNAVAILABLE)
			*err = one;
		if (one.kind == ERROR_CANCELLED)
			break;
		next_endpoint(route);
	}
	return -1;
}

/* Does a sentinel still name this server? True also if none can be reached. */
static bool is_named(struct redis_client *client, int64_t limit_ms)
{
	struct redis_route *route = client->route;
	struct redis_endpoint endpoint;
	struct error ignored;

	if (route->cluster || clock_boot_ms() - route->named_ms < NAMED_MS ||
	    locate_master(client, limit_ms, &endpoint, &ignored))
		return true;
	return redis_endpoint_equal(&client->servers[0].address.at, &endpoint);
}

/* ---- Cluster ---- */

/* Choose the next endpoint. Returns the pause before it, which follows the last one of the URI. */
static int64_t start_over(struct redis_route *route)
{
	next_endpoint(route);
	route->target = route->endpoints[route->next];
	route->asking = false;
	return route->next ? 0 : REDIS_ROUTE_PAUSE_MS;
}

/* Read an endpoint that the node from has named: "" or "?" means its own host. */
static bool read_endpoint(const char *host, size_t length, int64_t port,
			  const struct redis_endpoint *from, struct redis_endpoint *endpoint)
{
	if (!length || (length == 1 && *host == '?')) {
		host = from->host;
		length = strlen(host);
	}
	return redis_endpoint_set(endpoint, host, length, port);
}

/* Read "... HOST:PORT". HOST may be IPv6 without brackets. */
static bool read_target(const char *text, const struct redis_endpoint *from,
			struct redis_endpoint *endpoint)
{
	const char *host = strchr(text, ' '), *colon = strrchr(text, ':');
	int64_t port;

	if (!host || !colon || colon < host || !text_number(colon + 1, strlen(colon + 1), &port))
		return false;
	host++;
	return read_endpoint(host, (size_t)(colon - host), port, from, endpoint);
}

/* Add the master of [first slot, last slot, [host, port, ...], ...]. Its host may be nil. */
static bool add_master(const redisReply *row, const struct redis_endpoint *from,
		       struct redis_endpoint *endpoints, size_t *count)
{
	const redisReply *node;
	size_t i = 0;

	if (!redis_has_shape(row, "iia") || !redis_has_shape(row->element[2], ".i"))
		return false;
	node = row->element[2];
	if (!read_endpoint(node->element[0]->str, node->element[0]->len,
			   node->element[1]->integer, from, &endpoints[*count]))
		return false;
	while (!redis_endpoint_equal(&endpoints[i], &endpoints[*count]))
		i++;
	*count += i == *count;
	return true;
}

bool redis_read_masters(const redisReply *reply, const struct redis_endpoint *from,
			struct redis_endpoint **endpoints, size_t *count)
{
	*count = 0;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements > MOST_SLOTS)
		return false;
	*endpoints = memory_new(reply->elements + 1, sizeof(**endpoints));
	for (size_t i = 0; i < reply->elements; i++)
		if (!add_master(reply->element[i], from, *endpoints, count)) {
			free(*endpoints);
			return false;
		}
	return true;
}

/* ---- the loop ---- */

/* Returns the time for a step that connects or asks for the server: half of the call at most. */
static int64_t step_limit(const struct redis_client *client)
{
	const int64_t left_ms = client->until_ms - clock_boot_ms();

	return clock_earlier(left_ms < 1 ? 1 : left_ms, client->base.connect_timeout_ms / 2 + 1);
}

int64_t redis_after_loss(struct redis_route *route)
{
	if (route->cluster && route->lost++ == route->count) {
		route->lost = 0;
		return REDIS_ROUTE_ENDS;
	}
	return start_over(route);
}

/* Is this the error of a server that is no master, or not yet? */
static bool is_no_master(const char *text)
{
	return strstr(text, "READONLY") || strstr(text, "MASTERDOWN") || strstr(text, "LOADING");
}

/* Use strstr() for errors in scripts, which Redis 5 and 6 wrap in another text. */
int64_t redis_after_error(struct redis_client *client, const char *text)
{
	struct redis_route *route = client->route;

	route->lost = 0;
	route->asking = !strncmp(text, "ASK ", 4);
	if (route->cluster && (route->asking || !strncmp(text, "MOVED ", 6))) {
		text = strchr(text, ' ') + 1;
		if (!read_target(text, &client->servers[0].address.at, &route->target))
			return REDIS_ROUTE_ENDS;
		return ++route->hops % MOST_HOPS ? 0 : REDIS_ROUTE_PAUSE_MS;
	}
	if (route->cluster && (!strncmp(text, "TRYAGAIN", 8) || redis_is_torn(text)))
		return REDIS_ROUTE_PAUSE_MS;
	if (!is_no_master(text) && !(route->cluster && strstr(text, "CLUSTERDOWN")))
		return REDIS_ROUTE_ENDS;
	start_over(route);
	return REDIS_ROUTE_PAUSE_MS;
}

/* Connect to the server that may have the lock. */
static int connect_there(struct redis_client *client, struct error *err)
{
	struct redis_route *route = client->route;

	if (redis_conn_is_open(&client->servers[0].main))
		return 0;
	if (!route->cluster && locate_master(client, step_limit(client), &route->target, err))
		return -1;
	go_to(client, &route->target);
	return redis_reach(client, step_limit(client), err);
}

/* Send the request. Returns the pause before another try, or REDIS_ROUTE_ENDS. */
static int64_t try_there(struct redis_client *client, const struct redis_call *call,
			 struct error *err)
{
	struct redis_route *route = client->route;
	struct redis_server *server = &client->servers[0];
	int64_t pause_ms = REDIS_ROUTE_ENDS;

	/* Without a server, or cancelled. */
	if ((connect_there(client, err) || redis_round(client, call, err)) &&
	    (server->state == SERVER_UNASKED || err->kind == ERROR_CANCELLED))
		return pause_ms;
	route->asking = false;
	if (server->state == SERVER_ANSWERED && is_named(client, step_limit(client))) {
		route->lost = 0;
		route->hops = 0;
		return pause_ms;
	}
	if (server->state == SERVER_ANSWERED) {
		error_set(&server->error, ERROR_UNAVAILABLE, 0, "%s: is not the master any more",
			  server->address.label);
		pause_ms = 0;
	} else if (server->reply) {
		pause_ms = redis_after_error(client, server->reply->str);
	} else if (server->error.kind == ERROR_UNAVAILABLE) {
		pause_ms = redis_after_loss(route);
	}
	server->state = SERVER_FAILED;
	*err = server->error;
	/* This state of the server is temporary. */
	if (pause_ms != REDIS_ROUTE_ENDS)
		err->kind = ERROR_UNAVAILABLE;
	return pause_ms;
}

/* Pause before the next step. False: there is none, and *err is that of the last one. */
static bool continue_call(struct redis_client *client, int64_t pause_ms, struct error *err)
{
	const int64_t next_ms = clock_boot_ms() + pause_ms;
	struct error waiting = { 0 };

	if (pause_ms == REDIS_ROUTE_ENDS || next_ms >= client->until_ms)
		return false;
	/* This wait ends with the time, or when the call is cancelled. */
	net_wait(-1, 0, next_ms, client->base.cancel_fd, &waiting);
	if (waiting.kind == ERROR_UNAVAILABLE)
		return true;
	*err = waiting;
	return false;
}

static int ask_routed(struct redis_client *client, const struct redis_call *call, struct error *err)
{
	const struct backend *base = &client->base;
	struct redis_server *server = &client->servers[0];
	struct redis_endpoint done_at = { .port = 0 };
	struct error before;
	int64_t pause_ms;

	client->until_ms = clock_boot_ms() + (base->timeout_ms > base->connect_timeout_ms
					      ? base->timeout_ms : base->connect_timeout_ms);
	*err = (struct error){ 0 };
	do {
		before = *err;
		*err = (struct error){ 0 };
		server->state = SERVER_UNASKED;
		pause_ms = try_there(client, call, err);
		if (pause_ms == REDIS_ROUTE_ENDS)
			break;
		if (redis_may_have_done(server) && !server->main.replica)
			done_at = server->address.at;
		redis_conn_close(&server->main);
	} while (continue_call(client, pause_ms, err));
	client->until_ms = 0;
	/* A timeout of the last try hides the reason. */
	if (err->errnum == ETIMEDOUT && before.kind != ERROR_NONE)
		*err = before;
	client->base.resent = server->resent ||
			      redis_endpoint_equal(&server->address.at, &done_at);
	return server->state == SERVER_ANSWERED ? 0 : -1;
}

/* ---- calls ---- */

int redis_ask(struct redis_client *client, const struct redis_call *call, struct error *err)
{
	struct redis_server *server = &client->servers[0];

	if (client->route)
		return ask_routed(client, call, err);
	if (redis_reach(client, client->base.connect_timeout_ms, err) ||
	    redis_round(client, call, err))
		return -1;
	client->base.resent = server->resent;
	if (server->state == SERVER_ANSWERED)
		return 0;
	*err = server->error;
	/* The name may lead to a new master. */
	if (server->reply && is_no_master(server->reply->str))
		redis_server_leave(server);
	return -1;
}

const struct redisReply *redis_command(struct redis_client *client,
				       const struct redis_endpoint *endpoint,
				       const char *const *command, struct error *err)
{
	const struct redis_call call = { .command = command };
	struct redis_route *route = client->route;
	int failed;

	if (endpoint) {
		client->route = NULL;
		go_to(client, endpoint);
	}
	failed = redis_ask(client, &call, err);
	client->route = route;
	return failed ? NULL : client->servers[0].reply;
}

int redis_run(struct redis_client *client, const char *name, struct redis_call *call,
	      struct error *err)
{
	if (name)
		redis_make_keys(client, name);
	if (!call->servers)
		call->least = client->quorum;
	return client->count == 1 ? redis_ask(client, call, err) : redis_round(client, call, err);
}

static bool is_majority(const struct redis_client *client, const void *state)
{
	(void)state;
	return redis_count(client, SERVER_ANSWERED) >= client->quorum;
}

int redis_ask_majority(struct redis_client *client, struct redis_call *call, struct error *err)
{
	call->decided = is_majority;
	if (redis_run(client, NULL, call, err))
		return -1;
	if (is_majority(client, NULL))
		return 0;
	return redis_no_majority(client, redis_count(client, SERVER_ANSWERED), err);
}
