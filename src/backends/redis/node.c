/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lock/uri.h"

#define DEFAULT_PORT 6379
#define DEFAULT_PREFIX "dlock:"
#define MOST_ARGUMENTS 8
/* Of a host or a path, so much goes into the label. */
#define LABEL_PLACE 100

static int read_db(const char *text, long *db, struct error *err)
{
	char *end;

	*db = strtol(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end && *db <= 100000)
		return 0;
	error_set(err, ERROR_USAGE, 0, "redis: '%s' is not the number of a database", text);
	return -1;
}

static int read_tcp_address(struct redis_address *address, const struct uri *uri,
			    struct error *err)
{
	const struct uri_host *host = uri->hosts;
	bool is_v6;

	if (uri->host_count != 1) {
		error_set(err, ERROR_USAGE, 0, "redis: wants one host, as in "
			  "redis://HOST[:PORT][/DB]; %zu are given", uri->host_count);
		return -1;
	}
	if (uri->path[0] && uri->path[1] && read_db(uri->path + 1, &address->db, err))
		return -1;
	address->host = strdup(host->name);
	address->port = host->port ? host->port : DEFAULT_PORT;
	is_v6 = strchr(host->name, ':');
	strcpy(address->label, is_v6 ? "redis [" : "redis ");
	strncat(address->label, host->name, LABEL_PLACE);
	strcat(address->label, is_v6 ? "]:" : ":");
	text_digits(address->label + strlen(address->label), address->port);
	return 0;
}

static int read_unix_address(struct redis_address *address, const struct uri *uri,
			     struct error *err)
{
	const char *db = uri_param(uri, "db");

	if (uri->host_count || !uri->path[0]) {
		error_set(err, ERROR_USAGE, 0,
			  "redis+unix: wants a socket's path: redis+unix:///PATH[?db=N]");
		return -1;
	}
	if (db && read_db(db, &address->db, err))
		return -1;
	address->unix_path = strdup(uri->path);
	strcpy(address->label, "redis ");
	strncat(address->label, uri->path, LABEL_PLACE);
	return 0;
}

int redis_node_init(struct redis_node *node, const struct uri *uri, struct error *err)
{
	static const char *const tcp_known[] = {
		"prefix", "timeout", "connect-timeout", "password-file", NULL
	};
	static const char *const unix_known[] = {
		"prefix", "timeout", "connect-timeout", "password-file", "db", NULL
	};
	bool tcp = !strcmp(uri->scheme, "redis");
	const char *prefix = uri_param(uri, "prefix");

	if (uri_check_params(uri, tcp ? tcp_known : unix_known, err))
		return -1;
	if (tcp ? read_tcp_address(&node->address, uri, err)
		: read_unix_address(&node->address, uri, err))
		return -1;
	node->prefix = strdup(prefix ? prefix : DEFAULT_PREFIX);
	if (uri->user && uri->user[0])
		node->address.user = strdup(uri->user);
	if (uri->password)
		node->address.password = strdup(uri->password);
	if (node->address.user && !uri->password) {
		error_set(err, ERROR_USAGE, 0, "redis: user '%s' without a password",
			  node->address.user);
		return -1;
	}
	return 0;
}

void redis_node_finish(struct redis_node *node)
{
	redis_conn_close(&node->wake);
	redis_conn_close(&node->main);
	for (int i = 0; i < REDIS_KEYS; i++)
		free(node->keys[i]);
	if (node->address.password)
		explicit_bzero(node->address.password, strlen(node->address.password));
	free(node->address.password);
	free(node->address.user);
	free(node->address.host);
	free(node->address.unix_path);
	free(node->prefix);
}

/*
 * A name with a brace may carry a hash tag of its own; then suffixes without
 * braces keep all keys in its slot (Redis cluster specification, "Hash tags").
 */
int redis_node_keys(struct redis_node *node, const char *name, struct error *err)
{
	static const char *const suffixes[REDIS_KEYS] = {
		"", ":holders", ":queue", ":waiters", ":fence", ":wake:"
	};
	const size_t stem = strlen(node->prefix) + strlen(name) + sizeof("{}");
	bool tagged = strchr(name, '{') || strchr(node->prefix, '{');

	if (node->keys[0])
		return 0;
	for (int i = 0; i < REDIS_KEYS; i++) {
		bool braces = i != KEY_LOCK && !tagged;
		char *end = node->keys[i] = malloc(stem + strlen(suffixes[i]));

		if (!end) {
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			return -1;
		}
		if (braces)
			*end++ = '{';
		end = stpcpy(stpcpy(end, node->prefix), name);
		if (braces)
			*end++ = '}';
		strcpy(end, suffixes[i]);
	}
	return 0;
}

static struct redis_limits limits_of(const struct redis_node *node)
{
	return (struct redis_limits){
		.connect_ms = node->base.connect_timeout_ms,
		.request_ms = node->base.timeout_ms,
		.cancel_fd = node->base.cancel_fd,
	};
}

int redis_node_connect(struct redis_node *node, struct error *err)
{
	struct redis_limits limits = limits_of(node);

	return redis_conn_open(&node->main, &node->address, false, &limits, err);
}

struct redisReply *redis_node_command(struct redis_node *node, int argc, const char *const argv[],
			   struct error *err)
{
	struct redis_limits limits = limits_of(node);
	redisReply *reply;

	node->resent = false;
	for (;;) {
		err->kind = ERROR_NONE;
		err->errnum = 0;
		if (redis_conn_open(&node->main, &node->address, false, &limits, err))
			return NULL;
		reply = redis_conn_command(&node->main, &node->address, argc, argv, &limits, err);
		if (reply || node->resent || err->kind != ERROR_UNAVAILABLE ||
		    err->errnum == ETIMEDOUT)
			return reply;
		node->resent = true;
	}
}

/* An error reply becomes *err. */
static redisReply *refuse_errors(const struct redis_node *node, redisReply *reply,
				 struct error *err)
{
	if (!reply || reply->type != REDIS_REPLY_ERROR)
		return reply;
	err->kind = ERROR_NONE;
	redis_refusal(&node->address, reply->str, err);
	freeReplyObject(reply);
	return NULL;
}

struct redisReply *redis_node_ask(struct redis_node *node, int argc,
				  const char *const argv[], struct error *err)
{
	return refuse_errors(node, redis_node_command(node, argc, argv, err), err);
}

#define SCRIPT_WORDS (3 + REDIS_KEYS + 1 + MOST_ARGUMENTS)

/* The words of a script's command to argv. Returns how many. */
static int script_words(const struct redis_node *node, const struct script *script,
			const struct request *request, const char *const arguments[],
			const char *argv[static SCRIPT_WORDS])
{
	int argc = 0;

	argv[argc++] = "EVALSHA";
	argv[argc++] = script->sha1;
	argv[argc++] = "5";
	for (int i = 0; i < REDIS_KEYS; i++)
		argv[argc++] = node->keys[i];
	argv[argc++] = request->token;
	for (int i = 0; arguments[i]; i++)
		argv[argc++] = arguments[i];
	return argc;
}

struct redisReply *redis_node_script(struct redis_node *node, const struct script *script,
			      const struct request *request, const char *const arguments[],
			      struct error *err)
{
	const char *argv[SCRIPT_WORDS];
	redisReply *reply;
	bool resent;
	int argc;

	if (redis_node_keys(node, request->name, err))
		return NULL;
	argc = script_words(node, script, request, arguments, argv);
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
	struct redis_limits limits = limits_of(node);
	const char *argv[2] = { "SUBSCRIBE" };
	char *channel;
	redisReply *reply = NULL;

	if (node->wake.context)
		return 0;
	if (asprintf(&channel, "%s%s", node->keys[KEY_CHANNEL], who) < 0) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	argv[1] = channel;
	if (!redis_conn_open(&node->wake, &node->address, true, &limits, err))
		reply = redis_conn_command(&node->wake, &node->address, 2, argv, &limits, err);
	free(channel);
	if (!reply)
		return -1;
	if (reply->type == REDIS_REPLY_ERROR) {
		err->kind = ERROR_NONE;
		redis_refusal(&node->address, reply->str, err);
		redis_conn_close(&node->wake);
	}
	freeReplyObject(reply);
	return node->wake.context ? 0 : -1;
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

bool redis_is_integer(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_INTEGER;
}

bool redis_is_text(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING;
}

bool redis_is_array(const struct redisReply *reply, size_t least)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}
