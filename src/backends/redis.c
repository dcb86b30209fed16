/* SPDX-License-Identifier: MIT */
/*
 * Locks on one Redis server, in the plain dialect: a string at <prefix><name>
 * whose value is the token, as redis-py, redlock and many others have it. Beside
 * it, in the same cluster slot:
 *
 *	{<key>}:holder	hash: token, fence, text, since; for people and for lost replies
 *	{<key>}:fence	the last fence
 *	{<key>}:queue	sorted set: tokens of waiters by the time they came
 *	{<key>}:waiters	hash: token -> place and text, also of one being woken
 *	{<key>}:wake:<token>	channel that this waiter listens to
 *
 * Who releases hands the lock to the first waiter whose channel has a listener,
 * for 900 ms, in which that one confirms by acquiring; a dead one has no listener
 * and is passed over at once, a hung one loses its turn to the next, which is told
 * to look after that time. A waiter also looks every 5 s, and the first in line when
 * the holder's lease runs out, for holders that die or know nothing of queues.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "clock.h"
#include "error.h"
#include "lease.h"
#include "redis_conn.h"
#include "token.h"
#include "uri.h"
#include "version.h"

struct script {
	const char *sha1;
	const char *text;
};

#include "redis_scripts.h"

#define DEFAULT_PORT 6379
#define DEFAULT_PREFIX "dlock:"

/* A waiter looks so often, for what nobody wakes it for (SPEC, 2.7). */
#define LOOK_MS 5000
#define LOOK_JITTER_MS 500
/* Least pause before the first in line looks again as a lease runs out. */
#define LOOK_LEAST_MS 20

enum key { KEY_LOCK, KEY_HOLDER, KEY_QUEUE, KEY_WAITERS, KEY_FENCE, KEY_CHANNEL, KEYS };

#define MOST_ARGUMENTS 5
#define DIGITS_SIZE 24

struct redis_backend {
	struct backend base;
	struct redis_address address;
	char *prefix;
	char *keys[KEYS];		/* of the one name this object is used for */
	struct redis_conn main;
	struct redis_conn wake;		/* subscribed, while waiting */
	int64_t lease_end_ms;		/* of the last grant, 0: none */
	bool resent;			/* the last call was sent twice */
};

static struct redis_backend *redis_from_backend(struct backend *backend)
{
	return (struct redis_backend *)backend;
}

/* ---- making and freeing ---- */

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

	if (uri->host_count != 1) {
		error_set(err, ERROR_USAGE, 0, "redis: wants one host, as in "
			  "redis://HOST[:PORT][/DB]; %zu are given", uri->host_count);
		return -1;
	}
	if (uri->path[0] && uri->path[1] && read_db(uri->path + 1, &address->db, err))
		return -1;
	address->host = strdup(host->name);
	address->port = host->port ? host->port : DEFAULT_PORT;
	snprintf(address->label, sizeof(address->label),
		 strchr(host->name, ':') ? "redis [%.90s]:%u" : "redis %.90s:%u", host->name,
		 (unsigned)address->port);
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
	snprintf(address->label, sizeof(address->label), "redis %.100s", uri->path);
	return 0;
}

static void redis_close(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	if (!redis)
		return;
	redis_conn_close(&redis->wake);
	redis_conn_close(&redis->main);
	for (int i = 0; i < KEYS; i++)
		free(redis->keys[i]);
	if (redis->address.password)
		explicit_bzero(redis->address.password, strlen(redis->address.password));
	free(redis->address.password);
	free(redis->address.user);
	free(redis->address.host);
	free(redis->address.unix_path);
	free(redis->prefix);
	free(redis);
}

static struct backend *redis_open(const struct uri *uri, struct error *err)
{
	static const char *const tcp_known[] = {
		"prefix", "timeout", "connect-timeout", "password-file", NULL
	};
	static const char *const unix_known[] = {
		"prefix", "timeout", "connect-timeout", "password-file", "db", NULL
	};
	bool tcp = !strcmp(uri->scheme, "redis");
	const char *prefix = uri_param(uri, "prefix");
	struct redis_backend *redis;

	if (uri_check_params(uri, tcp ? tcp_known : unix_known, err))
		return NULL;
	redis = calloc(1, sizeof(*redis));
	if (!redis) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return NULL;
	}
	if (tcp ? read_tcp_address(&redis->address, uri, err)
		: read_unix_address(&redis->address, uri, err))
		goto fail;
	redis->prefix = strdup(prefix ? prefix : DEFAULT_PREFIX);
	if (uri->user && uri->user[0])
		redis->address.user = strdup(uri->user);
	if (uri->password)
		redis->address.password = strdup(uri->password);
	if (redis->address.user && !uri->password) {
		error_set(err, ERROR_USAGE, 0, "redis: user '%s' without a password",
			  redis->address.user);
		goto fail;
	}
	return &redis->base;
fail:
	redis_close(&redis->base);
	return NULL;
}

/*
 * A name with a brace may carry a hash tag of its own; then suffixes without
 * braces keep all keys in its slot (Redis cluster specification, "Hash tags").
 */
static int make_keys(struct redis_backend *redis, const char *name, struct error *err)
{
	static const char *const suffixes[KEYS] = {
		"", ":holder", ":queue", ":waiters", ":fence", ":wake:"
	};
	bool tagged = strchr(name, '{') || strchr(redis->prefix, '{');

	if (redis->keys[0])
		return 0;
	for (int i = 0; i < KEYS; i++) {
		bool braces = i != KEY_LOCK && !tagged;

		if (asprintf(&redis->keys[i], "%s%s%s%s%s", braces ? "{" : "",
			     redis->prefix, name, braces ? "}" : "", suffixes[i]) < 0) {
			redis->keys[i] = NULL;
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			return -1;
		}
	}
	return 0;
}

/* ---- calls ---- */

static struct redis_limits limits_of(const struct redis_backend *redis)
{
	return (struct redis_limits){
		.connect_ms = redis->base.connect_timeout_ms,
		.request_ms = redis->base.timeout_ms,
		.cancel_fd = redis->base.cancel_fd,
	};
}

/*
 * Sends a command, connecting if need be. When the connection breaks under it, it
 * is sent once more over a new one: all our commands can be repeated with the same
 * token. Not after a timeout, for a server that hangs would do so again.
 */
static redisReply *command(struct redis_backend *redis, int argc, const char *const argv[],
			   struct error *err)
{
	struct redis_limits limits = limits_of(redis);
	redisReply *reply;

	redis->resent = false;
	for (;;) {
		err->kind = ERROR_NONE;
		err->errnum = 0;
		if (redis_conn_open(&redis->main, &redis->address, false, &limits, err))
			return NULL;
		if (redis->base.engaged)
			atomic_store(redis->base.engaged, 1);
		reply = redis_conn_command(&redis->main, &redis->address, argc, argv, &limits,
					   err);
		if (reply || redis->resent || err->kind != ERROR_UNAVAILABLE ||
		    err->errnum == ETIMEDOUT)
			return reply;
		redis->resent = true;
	}
}

/* Runs a script; arguments end with NULL. NULL with *err, error replies included. */
static redisReply *run_script(struct redis_backend *redis, const struct script *script,
			      const struct request *request, const char *const arguments[],
			      struct error *err)
{
	const char *argv[3 + KEYS + 1 + MOST_ARGUMENTS];
	int argc = 0;
	redisReply *reply;
	bool resent;

	if (make_keys(redis, request->name, err))
		return NULL;
	argv[argc++] = "EVALSHA";
	argv[argc++] = script->sha1;
	argv[argc++] = "5";
	for (int i = 0; i < KEYS; i++)
		argv[argc++] = redis->keys[i];
	argv[argc++] = request->token;
	for (int i = 0; arguments[i]; i++)
		argv[argc++] = arguments[i];
	reply = command(redis, argc, argv, err);
	if (reply && reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "NOSCRIPT", 8)) {
		freeReplyObject(reply);
		resent = redis->resent;
		argv[0] = "EVAL";
		argv[1] = script->text;
		reply = command(redis, argc, argv, err);
		redis->resent |= resent;
	}
	if (reply && reply->type == REDIS_REPLY_ERROR) {
		err->kind = ERROR_NONE;
		redis_refusal(&redis->address, reply->str, err);
		freeReplyObject(reply);
		return NULL;
	}
	return reply;
}

static enum outcome odd_reply(struct redis_backend *redis, redisReply *reply,
			      struct error *err)
{
	if (reply)
		freeReplyObject(reply);
	redis_conn_close(&redis->main);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
		  redis->address.label);
	return OUTCOME_ERROR;
}

static const char *digits(int64_t number, char buf[static DIGITS_SIZE])
{
	snprintf(buf, DIGITS_SIZE, "%" PRId64, number);
	return buf;
}

static bool is_integer(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_INTEGER;
}

static bool is_text(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING;
}

/* ---- acquiring ---- */

/* Listens on the waiter's channel; from then on it counts as alive. */
static int subscribe(struct redis_backend *redis, const struct request *request,
		     struct error *err)
{
	struct redis_limits limits = limits_of(redis);
	const char *argv[2] = { "SUBSCRIBE" };
	char *channel;
	redisReply *reply = NULL;

	if (redis->wake.context)
		return 0;
	if (asprintf(&channel, "%s%s", redis->keys[KEY_CHANNEL], request->token) < 0) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	argv[1] = channel;
	if (!redis_conn_open(&redis->wake, &redis->address, true, &limits, err))
		reply = redis_conn_command(&redis->wake, &redis->address, 2, argv, &limits, err);
	free(channel);
	if (!reply)
		return -1;
	if (reply->type == REDIS_REPLY_ERROR) {
		err->kind = ERROR_NONE;
		redis_refusal(&redis->address, reply->str, err);
		redis_conn_close(&redis->wake);
	}
	freeReplyObject(reply);
	return redis->wake.context ? 0 : -1;
}

static int64_t next_look(int64_t pttl_ms, int64_t ahead)
{
	int64_t now = clock_boot_ms(), look_ms = now + LOOK_MS + rand() % LOOK_JITTER_MS;
	int64_t expiry_ms = now + (pttl_ms > LOOK_LEAST_MS ? pttl_ms + 2 : LOOK_LEAST_MS);

	/* -1: a lock without a lease, which only its holder ends. */
	if (ahead == 0 && pttl_ms != -1 && expiry_ms < look_ms)
		return expiry_ms;
	return look_ms;
}

/* {1, fence} or {0, pttl, ahead, holder, age}: see acquire.lua. */
static enum outcome read_grant(const redisReply *reply, struct grant *grant)
{
	redisReply *const *e = reply->element;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || !is_integer(e[0]))
		return OUTCOME_ERROR;
	if (e[0]->integer == 1 && is_text(e[1])) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
		return grant->fence ? OUTCOME_HELD : OUTCOME_ERROR;
	}
	if (e[0]->integer != 0 || reply->elements < 5 || !is_integer(e[1]) ||
	    !is_integer(e[2]) || !is_text(e[3]) || !is_integer(e[4]))
		return OUTCOME_ERROR;
	grant->ahead = e[2]->integer;
	grant->age_ms = e[4]->integer;
	grant->retry_ms = next_look(e[1]->integer, grant->ahead);
	if (holder_decode(&grant->holder, e[3]->str, e[3]->len))
		grant->holder = (struct holder){ 0 };
	return OUTCOME_BUSY;
}

static enum outcome try_once(struct redis_backend *redis, const struct request *request,
			     bool in_line, struct grant *grant, struct error *err)
{
	char ttl[DIGITS_SIZE], holder[HOLDER_TEXT_SIZE];
	const char *const arguments[] = {
		digits(request->ttl_ms, ttl), in_line ? "1" : "0", holder, NULL
	};
	enum outcome outcome;
	redisReply *reply;

	holder_encode(&request->self, holder);
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = request->ttl_ms;
	reply = run_script(redis, &script_acquire, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	outcome = read_grant(reply, grant);
	if (outcome == OUTCOME_ERROR)
		return odd_reply(redis, reply, err);
	freeReplyObject(reply);
	if (outcome == OUTCOME_HELD)
		redis->lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	return outcome;
}

static enum outcome redis_acquire(struct backend *backend, const struct request *request,
				  struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	enum outcome outcome = OUTCOME_BUSY;

	/* In line already, or not: most locks are free, so try before subscribing. */
	if (!redis->wake.context)
		outcome = try_once(redis, request, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/* Listening comes first: who is in line and deaf counts as dead. */
		if (subscribe(redis, request, err))
			return OUTCOME_ERROR;
		outcome = try_once(redis, request, true, grant, err);
	}
	if (outcome == OUTCOME_HELD)
		redis_conn_close(&redis->wake);
	return outcome;
}

static int redis_event_fd(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	return redis_conn_fd(redis->wake.context ? &redis->wake : &redis->main);
}

/* A message's text is the delay in ms after which to try. */
static int64_t read_message(const redisReply *reply)
{
	int64_t delay_ms;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
	    !is_text(reply->element[2]))
		return CLOCK_NEVER;
	delay_ms = strtol(reply->element[2]->str, NULL, 10);
	return delay_ms > 0 && delay_ms < LOOK_MS ? clock_boot_ms() + delay_ms : 0;
}

static int64_t redis_event(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_conn *conn = redis->wake.context ? &redis->wake : &redis->main;
	int64_t next_ms = CLOCK_NEVER, message_ms;
	redisReply *reply;
	int state;

	while ((state = redis_conn_poll(conn, &reply)) > 0) {
		message_ms = read_message(reply);
		if (message_ms < next_ms)
			next_ms = message_ms;
		freeReplyObject(reply);
	}
	if (state == 0)
		return next_ms;
	/* A server that went away took both connections along. */
	redis_conn_close(&redis->wake);
	redis_conn_close(&redis->main);
	return 0;
}

/* ---- holding and releasing ---- */

static enum outcome redis_renew(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	int64_t sent_ms = clock_boot_ms(), answer;
	char ttl[DIGITS_SIZE];
	const char *const arguments[] = { digits(request->ttl_ms, ttl), NULL };
	redisReply *reply = run_script(redis, &script_renew, request, arguments, err);

	if (!reply)
		return OUTCOME_ERROR;
	if (!is_integer(reply))
		return odd_reply(redis, reply, err);
	answer = reply->integer;
	freeReplyObject(reply);
	if (answer == 1) {
		grant->sent_ms = sent_ms;
		grant->ttl_ms = request->ttl_ms;
		redis->lease_end_ms = lease_end(sent_ms, request->ttl_ms);
		return OUTCOME_HELD;
	}
	error_set(err, ERROR_REFUSED, 0, answer == 2
		  ? "%s: key '%.220s' belongs to somebody else now"
		  : "%s: key '%.220s' is gone", redis->address.label, redis->keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

static enum outcome redis_verify(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	const char *argv[2] = { "GET" };
	redisReply *reply;
	bool held;

	if (make_keys(redis, request->name, err))
		return OUTCOME_ERROR;
	argv[1] = redis->keys[KEY_LOCK];
	reply = command(redis, 2, argv, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) != 0) {
		err->kind = ERROR_NONE;
		redis_refusal(&redis->address, reply->str, err);
		freeReplyObject(reply);
		return OUTCOME_ERROR;
	}
	held = is_text(reply) && !strcmp(reply->str, request->token);
	freeReplyObject(reply);
	return held ? OUTCOME_HELD : OUTCOME_LOST;
}

static enum outcome redis_release(struct backend *backend, const struct request *request,
				  int64_t keep_ms, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	int64_t sent_ms = clock_boot_ms(), answer;
	char keep[DIGITS_SIZE];
	const char *const arguments[] = { digits(keep_ms, keep), NULL };
	redisReply *reply;

	/* Deaf from here on: the release of another must not choose us. */
	redis_conn_close(&redis->wake);
	reply = run_script(redis, &script_release, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!is_integer(reply))
		return odd_reply(redis, reply, err);
	answer = reply->integer;
	freeReplyObject(reply);
	if (answer == 1)
		return OUTCOME_HELD;
	/* Sent twice within the lease: it was the first one that released. */
	if (redis->resent && sent_ms < redis->lease_end_ms)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' was not ours any more",
		  redis->address.label, redis->keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

static const struct backend_ops redis_ops = {
	.open = redis_open,
	.close = redis_close,
	.acquire = redis_acquire,
	.event_fd = redis_event_fd,
	.event = redis_event,
	.renew = redis_renew,
	.verify = redis_verify,
	.release = redis_release,
};

extern const struct backend_module dlock_backend_module;
const struct backend_module dlock_backend_module = {
	.version = DLOCK_VERSION,
	.ops = &redis_ops,
};
