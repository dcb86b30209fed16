/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"

#define MOST_ARGUMENTS 8

/* What python-redis-lock puts before the name of a lock, and of the list that its waiters watch. */
#define PYTHON_PREFIX "lock:"
#define PYTHON_SIGNAL "lock-signal:"

/* The parameters that say how locks are kept, wherever the server is. */
#define LOCK_PARAMS "prefix", "replicas", "wake"

/* Reads ?prefix= and ?wake=, which go together. 0, or -1 with *err. */
static int read_prefix(struct redis_node *node, const struct uri *uri, struct error *err)
{
	const char *prefix = uri_param(uri, "prefix"), *wake = uri_param(uri, "wake");

	node->wakes_python = wake != NULL;
	if (!prefix)
		prefix = wake ? PYTHON_PREFIX : REDIS_PREFIX;
	node->prefix = memory_copy(prefix);
	if (!wake)
		return 0;
	if (strcmp(wake, "python-redis-lock") != 0) {
		error_set(err, ERROR_USAGE, 0, "redis: ?wake= knows only python-redis-lock");
		return -1;
	}
	if (strcmp(prefix, PYTHON_PREFIX) != 0) {
		error_set(err, ERROR_USAGE, 0, "redis: ?wake=python-redis-lock goes with "
			  "?prefix=" PYTHON_PREFIX " alone, which is then the default");
		return -1;
	}
	return 0;
}

int redis_node_init(struct redis_node *node, const struct uri *uri, struct error *err)
{
	static const char *const tcp_known[] = {
		LOCK_PARAMS, URI_COMMON_PARAMS, NULL
	};
	static const char *const tls_known[] = {
		LOCK_PARAMS, REDIS_TLS_PARAMS, URI_COMMON_PARAMS, NULL
	};
	static const char *const unix_known[] = {
		LOCK_PARAMS, "db", URI_COMMON_PARAMS, NULL
	};
	const bool tls = !strcmp(uri->scheme, "rediss"), tcp = tls || !strcmp(uri->scheme, "redis");

	node->main = node->wake = (struct redis_conn){
		.backend = &node->base, .address = &node->address, .fd = -1,
	};
	if (uri_check_params(uri, tls ? tls_known : tcp ? tcp_known : unix_known, err))
		return -1;
	if (tcp && uri->host_count != 1) {
		error_set(err, ERROR_USAGE, 0, "%s: wants one host, as in "
			  "%s://HOST[:PORT][/DB]; %zu are given", uri->scheme, uri->scheme,
			  uri->host_count);
		return -1;
	}
	if (tcp ? redis_address_tcp(&node->address, uri, uri->hosts, err) ||
		  redis_address_tls(&node->address, uri, err)
		: redis_address_unix(&node->address, uri, err))
		return -1;
	if (read_prefix(node, uri, err))
		return -1;
	return redis_address_login(&node->address, uri, err);
}

void redis_node_finish(struct redis_node *node)
{
	redis_conn_close(&node->wake);
	redis_conn_close(&node->main);
	for (int i = 0; i < REDIS_KEYS; i++)
		free(node->keys[i]);
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
		[KEY_FENCE] = ":fence", [KEY_CHANNEL] = ":wake:"
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

void redis_node_keys(struct redis_node *node, const char *name)
{
	redis_make_keys(node->prefix, name, node->keys);
	if (node->wakes_python && !node->keys[KEY_SIGNAL])
		node->keys[KEY_SIGNAL] = memory_format(PYTHON_SIGNAL "%s", name);
}

struct redisReply *redis_node_command(struct redis_node *node, int argc, const char *const argv[],
				      struct error *err)
{
	redisReply *reply;

	node->resent = false;
	for (;;) {
		err->kind = ERROR_NONE;
		err->errnum = 0;
		if (redis_conn_open(&node->main, false, err))
			return NULL;
		reply = redis_conn_command(&node->main, argc, argv, err);
		if (reply || node->resent || err->kind != ERROR_UNAVAILABLE ||
		    err->errnum == ETIMEDOUT)
			return reply;
		node->resent = true;
	}
}

/* Turns an error reply into *err. */
static redisReply *refuse_errors(const struct redis_node *node, redisReply *reply,
				 struct error *err)
{
	if (!reply || reply->type != REDIS_REPLY_ERROR)
		return reply;
	redis_refusal(&node->address, reply->str, err);
	freeReplyObject(reply);
	return NULL;
}

struct redisReply *redis_node_ask(struct redis_node *node, int argc,
				  const char *const argv[], struct error *err)
{
	return refuse_errors(node, redis_node_command(node, argc, argv, err), err);
}

struct redisReply *redis_node_script(struct redis_node *node, const struct script *script,
				     const struct request *request, const char *const arguments[],
				     struct error *err)
{
	const char *argv[3 + REDIS_KEYS + 1 + MOST_ARGUMENTS] = {
		"EVALSHA", script->sha1, node->wakes_python ? "6" : "5"
	};
	redisReply *reply;
	bool resent;
	int argc = 3;

	redis_node_keys(node, request->name);
	for (int i = 0; i < REDIS_KEYS; i++)
		if (node->keys[i])
			argv[argc++] = node->keys[i];
	argv[argc++] = request->token;
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

int redis_node_listen(struct redis_node *node, const char *who, struct error *err)
{
	char *channel;
	redisReply *reply;

	if (redis_conn_is_open(&node->wake))
		return 0;
	if (redis_conn_open(&node->wake, true, err))
		return -1;
	channel = memory_format("%s%s", node->keys[KEY_CHANNEL], who);
	reply = redis_conn_command(&node->wake, 2, (const char *const[]){ "SUBSCRIBE", channel },
				   err);
	free(channel);
	reply = refuse_errors(node, reply, err);
	if (!reply) {
		redis_conn_close(&node->wake);
		return -1;
	}
	freeReplyObject(reply);
	return 0;
}

void redis_node_odd(struct redis_node *node, struct redisReply *reply, struct error *err)
{
	if (reply)
		freeReplyObject(reply);
	redis_conn_close(&node->main);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
		  node->address.label);
}

const char *redis_digits(int64_t number, char buf[static REDIS_DIGITS_SIZE])
{
	text_digits(buf, (uint64_t)number);
	return buf;
}
