/* SPDX-License-Identifier: MIT */
/*
 * Locks on a server that runs no scripts, as some providers offer it. A lock is the key
 * <prefix><name> with the token as its value, as in backend.c, and there is nothing beside it. Each
 * change is one command that the server itself makes conditional:
 *
 *	acquire		SET key token NX PX ttl
 *	renew		SET key token IFEQ token PX ttl		Valkey 8.1, Redis 8.4
 *	release		DELIFEQ key token			Valkey 9.0
 *			DELEX key IFEQ token			Redis 8.4
 *			SET key token IFEQ token PX 1		where neither is known or allowed
 *
 * Without IFEQ nobody could renew or release safely. Therefore the first command of an acquisition
 * is a renewal, which a server without IFEQ refuses before anything is taken. The same command
 * finds the lock that an earlier request has taken whose reply was lost: it answers whether the
 * token is the value of the key, and begins a new lease. So every command can be repeated, and
 * the lease always counts from when the command left that the server has answered.
 *
 * What needs more than one key is not there: the queue and its messages, shared holds and slots,
 * the count of acquisitions, and the description of the holder. A waiter looks again after a pause
 * that grows from 250 ms to 5 s, and when the lease ends that it has seen. The fence is the
 * server's clock, read while the token holds the lock: it grows as long as that clock is not set
 * back.
 */
#include "scriptless.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lock/uri.h"
#include "lock/view.h"

/* A waiter's first pause, which doubles each time, and the longest one. */
#define PAUSE_FIRST_MS 250
#define PAUSE_MS 5000
/* Waiters that saw the same lease end look within this time after it. */
#define EXPIRY_JITTER_MS 100
/* The least pause before another look. */
#define PAUSE_LEAST_MS 20
/* The key expires at once; PX takes no 0. */
#define RELEASED_MS 1

/* What PTTL says of a key that is not there, and of one that does not expire. */
enum { PTTL_NO_KEY = -2, PTTL_NO_END = -1 };

int scriptless_read(const struct uri *uri, bool *scriptless, struct error *err)
{
	static const char *const scripted[] = { "dialect", "replicas", "wake" };
	bool scripts;

	if (uri_param_flag(uri, "scripts", true, &scripts, err))
		return -1;
	*scriptless = !scripts;
	for (size_t i = 0; *scriptless && i < sizeof(scripted) / sizeof(scripted[0]); i++) {
		if (!uri_param(uri, scripted[i]))
			continue;
		return error_set(err, ERROR_USAGE, 0, "redis: ?scripts=no has no ?%s=",
				 scripted[i]);
	}
	return 0;
}

/* ---- the commands ---- */

/* Does an error reply say that the value of the key is no string, and so no token? */
static bool is_wrong_type(const redisReply *reply)
{
	return !strncmp(reply->str, "WRONGTYPE", 9);
}

/*
 * What came of a SET: HELD, the key is set; LOST, its condition was not met; ERROR. Frees reply,
 * which may be NULL.
 */
static enum outcome read_set(struct redis_node *node, redisReply *reply, struct error *err)
{
	enum outcome outcome = OUTCOME_ERROR;

	if (!reply)
		return OUTCOME_ERROR;
	if (reply->type == REDIS_REPLY_STATUS) {
		outcome = OUTCOME_HELD;
	} else if (reply->type == REDIS_REPLY_NIL) {
		outcome = OUTCOME_LOST;
	} else if (reply->type != REDIS_REPLY_ERROR) {
		redis_node_odd(node, reply, err);
		return OUTCOME_ERROR;
	} else if (is_wrong_type(reply)) {
		outcome = OUTCOME_LOST;
	} else if (strstr(reply->str, "syntax error")) {
		error_set(err, ERROR_REFUSED, 0, "%s: does not know SET with IFEQ, which "
			  "?scripts=no needs: take Valkey 8.1, Redis 8.4 or newer, or a "
			  "server that runs scripts", node->address.label);
	} else {
		redis_refusal(&node->address, reply->str, err);
	}
	freeReplyObject(reply);
	return outcome;
}

/* Sets the key to token for ttl_ms if nobody holds the lock. */
static enum outcome set_if_free(struct redis_node *node, const char *token, int64_t ttl_ms,
				struct error *err)
{
	char ttl[REDIS_DIGITS_SIZE];
	const char *const argv[] = {
		"SET", node->keys[KEY_LOCK], token, "NX", "PX", redis_digits(ttl_ms, ttl)
	};

	return read_set(node, redis_node_command(node, 6, argv, err), err);
}

/* Lets the key expire after ttl_ms if token is its value. */
static enum outcome set_if_ours(struct redis_node *node, const char *token, int64_t ttl_ms,
				struct error *err)
{
	char ttl[REDIS_DIGITS_SIZE];
	const char *const argv[] = {
		"SET", node->keys[KEY_LOCK], token, "IFEQ", token, "PX", redis_digits(ttl_ms, ttl)
	};

	return read_set(node, redis_node_command(node, 7, argv, err), err);
}

/*
 * Deletes the key if token is its value: HELD, LOST or ERROR. *resent becomes true if a command was
 * sent twice. A server that does not know one of the first two ways, or does not allow it to this
 * user, has done nothing.
 */
static enum outcome delete_if_ours(struct redis_node *node, const char *token, bool *resent,
				   struct error *err)
{
	const char *const key = node->keys[KEY_LOCK];
	const struct {
		int argc;
		const char *argv[4];
	} ways[] = { { 3, { "DELIFEQ", key, token } }, { 4, { "DELEX", key, "IFEQ", token } } };
	enum outcome outcome;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		redisReply *reply = redis_node_command(node, ways[i].argc, ways[i].argv, err);
		bool done, deleted;

		*resent |= node->resent;
		if (!reply)
			return OUTCOME_ERROR;
		done = redis_is_integer(reply);
		deleted = done && reply->integer;
		freeReplyObject(reply);
		if (done)
			return deleted ? OUTCOME_HELD : OUTCOME_LOST;
	}
	outcome = set_if_ours(node, token, RELEASED_MS, err);
	*resent |= node->resent;
	return outcome;
}

/* When the key expires, in ms from now, or one of the two PTTL_ values. 0 or -1. */
static int read_expiry(struct redis_node *node, int64_t *pttl_ms, struct error *err)
{
	const char *const argv[] = { "PTTL", node->keys[KEY_LOCK] };
	redisReply *reply = redis_node_ask(node, 2, argv, err);

	if (!reply)
		return -1;
	if (!redis_is_integer(reply))
		return redis_node_odd(node, reply, err);
	*pttl_ms = reply->integer;
	freeReplyObject(reply);
	return 0;
}

/* ---- acquiring ---- */

/* Fills *grant for a lock that the last command has taken. */
static enum outcome held(struct redis_backend *redis, const struct request *request,
			 struct grant *grant, struct error *err)
{
	const int64_t sent_ms = redis->node.sent_ms;
	int64_t server_us;

	/* Read after the lock was taken, the clock is past what each earlier holder has read. */
	if (redis_node_time(&redis->node, &server_us, err))
		return OUTCOME_ERROR;
	redis->pause_ms = 0;
	redis_note_lease(redis, sent_ms, request->ttl_ms, grant);
	grant->fence = (uint64_t)server_us;
	return OUTCOME_HELD;
}

/* Fills *grant for a lock that somebody else holds. */
static enum outcome busy(struct redis_backend *redis, struct grant *grant, struct error *err)
{
	int64_t look_ms, pttl_ms;

	if (read_expiry(&redis->node, &pttl_ms, err))
		return OUTCOME_ERROR;
	redis->pause_ms = redis->pause_ms ? clock_earlier(2 * redis->pause_ms, PAUSE_MS)
					  : PAUSE_FIRST_MS;
	/* Waiters that came together are not to look together. */
	look_ms = redis->pause_ms - rand() % (redis->pause_ms / 4 + 1);
	if (pttl_ms == PTTL_NO_KEY)
		look_ms = 0;
	else if (pttl_ms != PTTL_NO_END && pttl_ms < look_ms)
		look_ms = clock_earlier(look_ms, pttl_ms + 2 + rand() % EXPIRY_JITTER_MS);
	if (look_ms < PAUSE_LEAST_MS)
		look_ms = PAUSE_LEAST_MS;
	grant->age_ms = grant->ahead = -1;
	grant->retry_ms = clock_boot_ms() + look_ms;
	return OUTCOME_BUSY;
}

enum outcome scriptless_acquire(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_node *node = &redis->node;
	const bool free_of_ours = redis->free_of_ours;
	enum outcome outcome = OUTCOME_LOST;

	if (request->min_hold_ms > 0) {
		error_set(err, ERROR_USAGE, 0, "redis: ?scripts=no cannot store --min-hold with "
			  "the lock, for whoever releases it: only 'dlock run' has it");
		return OUTCOME_ERROR;
	}
	redis_node_keys(node, request->name);
	redis->free_of_ours = false;
	if (!free_of_ours)
		outcome = set_if_ours(node, request->token, request->ttl_ms, err);
	if (outcome == OUTCOME_LOST)
		outcome = set_if_free(node, request->token, request->ttl_ms, err);
	/*
	 * The first of two requests may have taken the lock. After a failover, node->resent does
	 * not tell of a request that the old master has carried out.
	 */
	if (outcome == OUTCOME_LOST && (node->resent || node->route))
		outcome = set_if_ours(node, request->token, request->ttl_ms, err);
	if (outcome == OUTCOME_HELD)
		return held(redis, request, grant, err);
	if (outcome == OUTCOME_ERROR)
		return OUTCOME_ERROR;
	redis->free_of_ours = true;
	return busy(redis, grant, err);
}

/* ---- holding ---- */

enum outcome scriptless_renew(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_node *node = &redis->node;
	int64_t ttl_ms = request->ttl_ms;
	enum outcome outcome;

	redis_node_keys(node, request->name);
	/* The TTL of the hold is not stored. */
	if (!ttl_ms && read_expiry(node, &ttl_ms, err))
		return OUTCOME_ERROR;
	if (!request->ttl_ms && ttl_ms < BACKEND_TTL_MS)
		ttl_ms = BACKEND_TTL_MS;
	outcome = set_if_ours(node, request->token, ttl_ms, err);
	if (outcome == OUTCOME_LOST)
		return redis_not_ours(node, err);
	if (outcome == OUTCOME_HELD)
		redis_note_lease(redis, node->sent_ms, ttl_ms, grant);
	return outcome;
}

/*
 * Reads the key: 1 with *value, a string that the caller frees with freeReplyObject(); 0, it is not
 * there; -1 with *err, and *foreign tells whether a value of another type is the reason.
 */
static int read_value(struct redis_node *node, redisReply **value, bool *foreign,
		      struct error *err)
{
	const char *const argv[] = { "GET", node->keys[KEY_LOCK] };
	redisReply *reply = redis_node_command(node, 2, argv, err);
	int there = 0;

	*foreign = false;
	if (!reply)
		return -1;
	if (redis_is_text(reply)) {
		*value = reply;
		return 1;
	}
	if (reply->type == REDIS_REPLY_ERROR) {
		*foreign = is_wrong_type(reply);
		redis_refusal(&node->address, reply->str, err);
		there = -1;
	} else if (reply->type != REDIS_REPLY_NIL) {
		return redis_node_odd(node, reply, err);
	}
	freeReplyObject(reply);
	return there;
}

enum outcome scriptless_verify(struct backend *backend, const struct request *request,
			       struct error *err)
{
	struct redis_node *node = &redis_from_backend(backend)->node;
	redisReply *value;
	bool foreign, ours;

	redis_node_keys(node, request->name);
	switch (read_value(node, &value, &foreign, err)) {
	case 0:
		return OUTCOME_LOST;
	case 1:
		ours = !strcmp(value->str, request->token);
		freeReplyObject(value);
		return ours ? hold_mode_covers(HOLD_EXCLUSIVE, 0, request, err) : OUTCOME_LOST;
	}
	return foreign ? OUTCOME_LOST : OUTCOME_ERROR;
}

enum outcome scriptless_again(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	const enum outcome outcome = scriptless_verify(backend, request, err);

	(void)grant;
	if (outcome != OUTCOME_HELD)
		return outcome;
	error_set(err, ERROR_USAGE, 0, "redis: ?scripts=no cannot count how often the lock was "
		  "acquired; redis: with scripts can");
	return OUTCOME_ERROR;
}

/* ---- giving back ---- */

enum outcome scriptless_release(struct backend *backend, const struct request *request,
				enum release how, int64_t keep_ms, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_node *node = &redis->node;
	const int64_t sent_ms = clock_boot_ms();
	enum outcome outcome;
	bool resent = false;

	redis_node_keys(node, request->name);
	if (how == RELEASE_COUNTED) {
		/* A token has one acquisition, which is the last. */
		outcome = scriptless_verify(backend, request, err);
	} else if (keep_ms > 0) {
		outcome = set_if_ours(node, request->token, keep_ms, err);
		resent = node->resent;
	} else {
		outcome = delete_if_ours(node, request->token, &resent, err);
	}
	if (outcome == OUTCOME_LOST && lease_ended_by_resent(resent, sent_ms, redis->lease_end_ms))
		return OUTCOME_HELD;
	return outcome == OUTCOME_LOST ? redis_not_ours(node, err) : outcome;
}

/* ---- showing and breaking ---- */

/* The value of the key is a secret, and nothing else is known of the holder. */
int scriptless_inspect(struct backend *backend, const char *name, bool listen,
		       struct lock_view *view, struct error *err)
{
	struct redis_node *node = &redis_from_backend(backend)->node;
	int64_t pttl_ms;

	(void)listen;
	redis_node_keys(node, name);
	if (read_expiry(node, &pttl_ms, err))
		return -1;
	view->held = pttl_ms != PTTL_NO_KEY;
	if (view->held)
		lock_view_add_hold(view)->expires_ms = pttl_ms;
	return 0;
}

int scriptless_break(struct backend *backend, const char *name, struct lock_view *view,
		     struct error *err)
{
	struct redis_node *node = &redis_from_backend(backend)->node;
	enum outcome outcome = OUTCOME_ERROR;
	bool foreign, resent = false;
	redisReply *value;
	int there;

	redis_node_keys(node, name);
	there = read_value(node, &value, &foreign, err);
	if (foreign)
		error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' is no string, but belongs to "
			  "another program: dlock does not delete it", node->address.label,
			  node->keys[KEY_LOCK]);
	if (there <= 0)
		return there;
	/* What is deleted is what was seen, and not what has come to the key since. */
	if (!scriptless_inspect(backend, name, false, view, err))
		outcome = delete_if_ours(node, value->str, &resent, err);
	freeReplyObject(value);
	if (outcome == OUTCOME_LOST && !resent)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "%s: key '%.220s' has changed at this moment, and was not deleted",
				 node->address.label, node->keys[KEY_LOCK]);
	return outcome == OUTCOME_ERROR ? -1 : 0;
}

int scriptless_check(struct backend *backend, struct findings *findings, struct error *err)
{
	static const char lost[] = "?scripts=no: no queue, no shared holds, no slots, fences by "
		"the server's clock alone, and waiters look every 0.25 to 5 s";
	static const char *const argv[] = { "EVAL", "return 1", "0" };
	struct error refused = { 0 };
	redisReply *reply;

	if (redis_check(backend, findings, err))
		return -1;
	reply = redis_node_ask(&redis_from_backend(backend)->node, 3, argv, &refused);
	if (reply) {
		freeReplyObject(reply);
		findings_add(findings, FINDING_WARNING, "scripts", "leave out ?scripts=no",
			     "the server runs scripts, and they are not used. %s", lost);
	} else {
		findings_add(findings, FINDING_OK, "scripts", NULL, "%s", lost);
	}
	return 0;
}
