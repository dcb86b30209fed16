/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"
#include "cluster.h"
#include "route.h"
#include "sentinel.h"

/* The parameters that say how locks are kept, wherever the server is. */
#define LOCK_PARAMS "prefix", "replicas", "dialect", "lock", "watchdog"

static int read_host(struct redis_node *node, const struct uri *uri, struct error *err)
{
	if (uri->host_count == 1)
		return redis_address_tcp(&node->address, uri, uri->hosts, err) ||
		       redis_address_tls(&node->address, uri, err) ? -1 : 0;
	return error_set(err, ERROR_USAGE, 0, "%s: %s: write %s://HOST[:PORT][/DB]", uri->scheme,
			 uri->host_count ? "one host is wanted, and there are more"
					 : "there is no host", uri->scheme);
}

static int read_socket(struct redis_node *node, const struct uri *uri, struct error *err)
{
	return redis_address_unix(&node->address, uri, err);
}

static int read_sentinels(struct redis_node *node, const struct uri *uri, struct error *err)
{
	node->address.transport = &redis_tcp;
	if (redis_address_tls(&node->address, uri, err))
		return -1;
	node->route = redis_sentinel_open(uri, &node->address, err);
	return node->route ? 0 : -1;
}

static int read_cluster(struct redis_node *node, const struct uri *uri, struct error *err)
{
	node->address.transport = &redis_tcp;
	if (redis_address_tls(&node->address, uri, err))
		return -1;
	node->address.cluster = true;
	node->route = redis_cluster_open(uri, err);
	return node->route ? 0 : -1;
}

/* What is known, and how the rest of a URI is read. */
static const struct kind {
	const char *scheme;
	int (*read)(struct redis_node *node, const struct uri *uri, struct error *err);
	const char *known[20];
} kinds[] = {
	{ "redis", read_host, { LOCK_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "rediss", read_host, { LOCK_PARAMS, REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "redis+unix", read_socket, { LOCK_PARAMS, "db", URI_COMMON_PARAMS, NULL } },
	{ "redis+sentinel", read_sentinels,
	  { LOCK_PARAMS, "sentinel-user", "sentinel-password-file", "sentinel-tls", "tls",
	    REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
	{ "redis+cluster", read_cluster,
	  { LOCK_PARAMS, "tls", REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL } },
};

int redis_node_init(struct redis_node *node, const struct uri *uri, struct error *err)
{
	const char *prefix = uri_param(uri, "prefix");
	const struct kind *kind = kinds;

	while (strcmp(kind->scheme, uri->scheme) != 0)
		kind++;
	node->prefix = memory_copy(prefix ? prefix : REDIS_PREFIX);
	node->main = node->wake = (struct redis_conn){
		.backend = &node->base, .address = &node->address, .fd = -1,
	};
	if (uri_check_params(uri, kind->known, err) || kind->read(node, uri, err))
		return -1;
	return redis_address_login(&node->address, uri, err);
}

void redis_node_finish(struct redis_node *node)
{
	redis_conn_close(&node->wake);
	redis_conn_close(&node->main);
	for (int i = 0; i < REDIS_KEYS; i++)
		free(node->keys[i]);
	if (node->route)
		node->route->ops->finish(node->route);
	redis_address_finish(&node->address);
	free(node->prefix);
}

/*
 * Redis puts all keys with the same text in braces into the same slot of a cluster. A name with
 * braces may have such a text of its own, to which suffixes without braces belong, too (Redis
 * cluster specification, "Hash tags").
 */
void redis_make_keys(const char *prefix, const char *name, char *keys[static REDIS_KEYS])
{
	static const char *const suffixes[REDIS_KEYS] = {
		[KEY_HOLDERS] = ":holders", [KEY_QUEUE] = ":queue", [KEY_WAITERS] = ":waiters",
		[KEY_FENCE] = ":fence", [KEY_CHANNEL] = ":wake:",
	};
	const char *brace;

	if (keys[KEY_LOCK])
		return;
	keys[KEY_LOCK] = memory_format("%s%s", prefix, name);
	brace = strchr(keys[KEY_LOCK], '{');
	for (int i = 0; i < REDIS_KEYS; i++)
		if (suffixes[i])
			keys[i] = memory_format(brace && strchr(brace, '}') ? "%s%s" : "{%s}%s",
						keys[KEY_LOCK], suffixes[i]);
}

/* ---- one server ---- */

static redisReply *command_here(struct redis_node *node, int argc, const char *const argv[],
				struct error *err)
{
	redisReply *reply;

	for (;;) {
		err->kind = ERROR_NONE;
		err->errnum = 0;
		if (redis_conn_open(&node->main, false, err))
			return NULL;
		node->sent_ms = clock_boot_ms();
		reply = redis_conn_command(&node->main, argc, argv, err);
		if (reply || node->resent || err->kind != ERROR_UNAVAILABLE ||
		    err->errnum == ETIMEDOUT)
			return reply;
		node->resent = true;
	}
}

/* ---- wherever the lock is ---- */

/* One call, which may lead to several servers. */
struct search {
	int64_t timeout_ms, connect_timeout_ms;	/* as the backend has them outside of this call */
	int64_t until_ms;			/* CLOCK_BOOTTIME: the end of the call */
};

static struct search search_begin(const struct redis_node *node)
{
	const int64_t timeout_ms = node->base.timeout_ms;
	const int64_t connect_timeout_ms = node->base.connect_timeout_ms;

	return (struct search){
		.timeout_ms = timeout_ms, .connect_timeout_ms = connect_timeout_ms,
		.until_ms = clock_boot_ms() + (timeout_ms > connect_timeout_ms ? timeout_ms
									      : connect_timeout_ms),
	};
}

/*
 * No step takes longer than what is left of the call. One that connects, or asks where to, takes no
 * more than half of its time: a server that does not answer must leave some for the others.
 */
static void search_bound(struct redis_node *node, const struct search *search)
{
	int64_t rest_ms = search->until_ms - clock_boot_ms();

	if (rest_ms < 1)
		rest_ms = 1;
	node->base.timeout_ms = clock_earlier(rest_ms, search->timeout_ms);
	node->base.connect_timeout_ms = clock_earlier(rest_ms, search->connect_timeout_ms / 2 + 1);
}

static void search_end(struct redis_node *node, const struct search *search)
{
	node->base.timeout_ms = search->timeout_ms;
	node->base.connect_timeout_ms = search->connect_timeout_ms;
}

/* Pauses before the next step. False: there is none, and *err says why the last one failed. */
static bool search_on(struct redis_node *node, const struct search *search, int64_t pause_ms,
		      struct error *err)
{
	const int64_t next_ms = clock_boot_ms() + pause_ms;
	struct error waiting = { 0 };

	if (pause_ms == REDIS_ROUTE_ENDS || next_ms >= search->until_ms)
		return false;
	/* There is no descriptor to wait for: the time runs out, or the call is cancelled. */
	net_wait(-1, 0, next_ms, node->base.cancel_fd, &waiting);
	if (waiting.kind == ERROR_UNAVAILABLE)
		return true;
	*err = waiting;
	return false;
}

static void go_to(struct redis_node *node, const struct redis_place *place)
{
	if (redis_address_is_at(&node->address, place))
		return;
	redis_conn_close(&node->wake);
	redis_conn_close(&node->main);
	redis_address_move(&node->address, "redis", place);
}

/* Connects to where the route leads. */
static int reach(struct redis_node *node, const struct search *search, struct error *err)
{
	struct redis_route *route = node->route;
	struct redis_place place;

	while (!redis_conn_is_open(&node->main)) {
		search_bound(node, search);
		if (route->ops->locate(route, &node->base, &place, err))
			return -1;
		go_to(node, &place);
		search_bound(node, search);
		if (!redis_conn_open(&node->main, false, err))
			break;
		if (err->kind != ERROR_UNAVAILABLE ||
		    !search_on(node, search, route->ops->lost(route), err))
			return -1;
	}
	return 0;
}

static redisReply *send_routed(struct redis_node *node, int argc, const char *const argv[],
			       struct error *err)
{
	static const char *const asking[] = { "ASKING" };
	redisReply *reply;

	if (node->route->asking) {
		node->route->asking = false;
		reply = redis_conn_command(&node->main, 1, asking, err);
		if (!reply)
			return NULL;
		freeReplyObject(reply);
	}
	node->sent_ms = clock_boot_ms();
	return redis_conn_command(&node->main, argc, argv, err);
}

/* After how many ms to send the command again; REDIS_ROUTE_ENDS: reply or *err is the answer. */
static int64_t judge(struct redis_node *node, const redisReply *reply, struct error *err)
{
	struct redis_route *route = node->route;
	int64_t pause_ms;

	if (!reply)
		return err->kind == ERROR_UNAVAILABLE ? route->ops->lost(route) : REDIS_ROUTE_ENDS;
	if (reply->type == REDIS_REPLY_ERROR) {
		pause_ms = route->ops->redirect(route, &node->address, reply->str);
		redis_refusal(&node->address, reply->str, err);
		/* It is to change by itself. */
		err->kind = ERROR_UNAVAILABLE;
		return pause_ms;
	}
	if (route->ops->confirm(route, &node->base, &node->address))
		return REDIS_ROUTE_ENDS;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: is not the master any more",
		  node->address.label);
	return 0;
}

/* May the command that got this reply have been carried out, or a part of it? */
static bool maybe_done(const struct redis_node *node, const redisReply *reply)
{
	if (!reply)
		return !node->main.replica;
	return reply->type == REDIS_REPLY_ERROR && redis_route_torn(reply->str);
}

static redisReply *command_routed(struct redis_node *node, int argc, const char *const argv[],
				  struct error *err)
{
	const struct search search = search_begin(node);
	struct redis_place done_at = { .port = 0 };
	redisReply *reply = NULL;
	int64_t pause_ms;

	for (;;) {
		*err = (struct error){ 0 };
		if (reach(node, &search, err))
			break;
		search_bound(node, &search);
		reply = send_routed(node, argc, argv, err);
		search_bound(node, &search);
		pause_ms = judge(node, reply, err);
		if (pause_ms == REDIS_ROUTE_ENDS)
			break;
		if (maybe_done(node, reply))
			redis_place_set(&done_at, node->address.host,
					strlen(node->address.host), node->address.port);
		freeReplyObject(reply);
		reply = NULL;
		redis_conn_close(&node->main);
		if (!search_on(node, &search, pause_ms, err))
			break;
	}
	search_end(node, &search);
	node->resent = redis_address_is_at(&node->address, &done_at);
	return reply;
}

int redis_node_connect(struct redis_node *node, struct error *err)
{
	struct search search;
	int result;

	if (!node->route)
		return redis_conn_open(&node->main, false, err);
	search = search_begin(node);
	result = reach(node, &search, err);
	search_end(node, &search);
	return result;
}

struct redisReply *redis_node_command(struct redis_node *node, int argc, const char *const argv[],
				      struct error *err)
{
	node->resent = false;
	return node->route ? command_routed(node, argc, argv, err)
			   : command_here(node, argc, argv, err);
}

/*
 * Turns an error reply into *err. A server that is no master any more may keep its connections,
 * while the name in the URI leads to the new master already: the next call looks the name up again.
 */
static redisReply *refuse_errors(struct redis_node *node, redisReply *reply, struct error *err)
{
	if (!reply || reply->type != REDIS_REPLY_ERROR)
		return reply;
	redis_refusal(&node->address, reply->str, err);
	if (!node->route && redis_route_no_master(reply->str)) {
		redis_conn_close(&node->wake);
		redis_conn_close(&node->main);
	}
	freeReplyObject(reply);
	return NULL;
}

struct redisReply *redis_node_ask(struct redis_node *node, int argc,
				  const char *const argv[], struct error *err)
{
	return refuse_errors(node, redis_node_command(node, argc, argv, err), err);
}

int redis_node_time(struct redis_node *node, int64_t *us, struct error *err)
{
	static const char *const argv[] = { "TIME" };
	redisReply *reply = redis_node_ask(node, 1, argv, err);

	if (!reply)
		return -1;
	if (!redis_has_shape(reply, "ss"))
		return redis_node_odd(node, reply, err);
	*us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
	      strtoll(reply->element[1]->str, NULL, 10);
	freeReplyObject(reply);
	return 0;
}

int redis_node_visit(struct redis_node *node, const struct redis_place *places, size_t count,
		     int (*visit)(struct redis_node *node, void *context, struct error *err),
		     void *context, struct error *err)
{
	struct redis_route *route = node->route;
	int result = 0;

	/* The server that is visited is meant, wherever any lock is. */
	node->route = NULL;
	for (size_t i = 0; i < count && !result; i++) {
		go_to(node, &places[i]);
		result = visit(node, context, err);
	}
	node->route = route;
	return result;
}

int redis_node_each(struct redis_node *node,
		    int (*visit)(struct redis_node *node, void *context, struct error *err),
		    void *context, struct error *err)
{
	static const char *const argv[] = { "CLUSTER", "SLOTS" };
	struct redis_place *places;
	redisReply *reply;
	size_t count;
	int result;

	if (!node->route || !node->route->ops->masters)
		return visit(node, context, err);
	reply = redis_node_ask(node, 2, argv, err);
	if (!reply)
		return -1;
	if (!node->route->ops->masters(reply, &node->address, &places, &count))
		return redis_node_odd(node, reply, err);
	freeReplyObject(reply);
	result = redis_node_visit(node, places, count, visit, context, err);
	free(places);
	return result;
}

/* The part of a key by which a cluster finds its slot. */
static const char *hash_tag(const char *key, size_t *length)
{
	const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;

	if (close && close > open + 1)
		key = open + 1;
	*length = close && close > open + 1 ? (size_t)(close - key) : strlen(key);
	return key;
}

/* A cluster runs scripts with keys of one slot only. 0, or -1 with *err: it refuses the name. */
static int check_slots(const struct redis_node *node, struct error *err)
{
	const char *first, *tag;
	size_t first_length, length;

	if (!node->address.cluster)
		return 0;
	first = hash_tag(node->keys[KEY_LOCK], &first_length);
	for (int i = 0; i < REDIS_KEYS; i++) {
		if (!node->keys[i])
			continue;
		tag = hash_tag(node->keys[i], &length);
		if (length != first_length || memcmp(tag, first, length) != 0)
			return error_set(err, ERROR_REFUSED, 0, "key '%.220s': in a cluster a name "
					 "with a '}' needs a text in braces before, as in a{b}c",
					 node->keys[KEY_LOCK]);
	}
	return 0;
}

struct redisReply *redis_node_script(struct redis_node *node, const struct script *script,
				     const char *const arguments[], struct error *err)
{
	const char *argv[3 + REDIS_KEYS + REDIS_ARGUMENTS] = { "EVALSHA", script->sha1 };
	char count[REDIS_DIGITS_SIZE];
	redisReply *reply;
	bool resent;
	int argc = 3;

	if (check_slots(node, err))
		return NULL;
	for (int i = 0; i < KEY_CHANNEL; i++)
		if (node->keys[i])
			argv[argc++] = node->keys[i];
	argv[2] = redis_digits(argc - 3, count);
	for (int i = 0; arguments[i]; i++)
		argv[argc++] = arguments[i];
	reply = redis_node_command(node, argc, argv, err);
	if (reply && reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "NOSCRIPT", 8)) {
		freeReplyObject(reply);
		resent = node->resent;
		argv[0] = "EVAL";
		argv[1] = script->text;
		reply = redis_node_command(node, argc, argv, err);
		node->resent |= resent;
	}
	return refuse_errors(node, reply, err);
}

/* Makes sure that node->main is at the server that has the lock. */
static int settle_at_lock(struct redis_node *node, struct error *err)
{
	const char *const argv[] = { "EXISTS", node->keys[KEY_LOCK] };
	redisReply *reply;

	if (!node->route || redis_conn_is_open(&node->main))
		return 0;
	reply = redis_node_ask(node, 2, argv, err);
	if (!reply)
		return -1;
	freeReplyObject(reply);
	return 0;
}

static redisReply *subscribe(struct redis_node *node, const char *command, const char *channel,
			     struct error *err)
{
	return redis_conn_command(&node->wake, 2, (const char *const[]){ command, channel }, err);
}

/*
 * Redis has sharded messages from version 7 on. The slot may have moved to another node meanwhile:
 * the next try finds out, and listens there.
 */
static bool has_no_shards(const redisReply *reply)
{
	return reply && reply->type == REDIS_REPLY_ERROR &&
	       (strstr(reply->str, "unknown command") || !strncmp(reply->str, "MOVED ", 6));
}

/*
 * Subscribes in both ways where node->sharded asks for it. A message that comes between two answers
 * is taken for the second one, which does no harm: the caller's next step is to look at the lock.
 */
static redisReply *subscribe_all(struct redis_node *node, const char *channel, struct error *err)
{
	redisReply *reply;

	if (node->sharded) {
		reply = subscribe(node, "SSUBSCRIBE", channel, err);
		if (!has_no_shards(reply) && !(reply = refuse_errors(node, reply, err)))
			return NULL;
		freeReplyObject(reply);
	}
	return refuse_errors(node, subscribe(node, "SUBSCRIBE", channel, err), err);
}

int redis_node_listen(struct redis_node *node, const char *who, const char *shared,
		      struct error *err)
{
	char *channel;
	redisReply *reply;

	if (redis_conn_is_open(&node->wake))
		return 0;
	if (check_slots(node, err) || settle_at_lock(node, err) ||
	    redis_conn_open(&node->wake, true, err))
		return -1;
	channel = memory_format("%s%s", node->keys[KEY_CHANNEL], who);
	reply = subscribe_all(node, channel, err);
	free(channel);
	if (reply && shared) {
		freeReplyObject(reply);
		reply = subscribe_all(node, shared, err);
	}
	if (!reply) {
		redis_conn_close(&node->wake);
		return -1;
	}
	freeReplyObject(reply);
	return 0;
}

int redis_node_odd(struct redis_node *node, struct redisReply *reply, struct error *err)
{
	freeReplyObject(reply);
	redis_conn_close(&node->main);
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
			 node->address.label);
}

const char *redis_digits(int64_t number, char buf[static REDIS_DIGITS_SIZE])
{
	text_digits(buf, (uint64_t)number);
	return buf;
}
