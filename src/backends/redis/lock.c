/* SPDX-License-Identifier: MIT */
/* What the dialects of the Redis backend share. */
#include "lock.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "replicas.h"

#define LOOK_JITTER_MS 500
/* The least pause before another try when a lease is about to end. */
#define LOOK_LEAST_MS 20

void redis_close(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	if (!redis)
		return;
	redis_node_finish(&redis->node);
	free(redis);
}

void redis_note_lease(struct redis_backend *redis, int64_t sent_ms, int64_t ttl_ms,
		      struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = ttl_ms;
	redis->lease_end_ms = ttl_ms ? lease_end(sent_ms, ttl_ms) : CLOCK_NEVER;
}

enum outcome redis_odd_reply(struct redis_backend *redis, redisReply *reply, struct error *err)
{
	redis_node_odd(&redis->node, reply, err);
	return OUTCOME_ERROR;
}

enum outcome redis_not_ours(const struct redis_node *node, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' does not have this token any more",
		  node->address.label, node->keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

/* ---- waiting ---- */

int64_t redis_next_look(int64_t rest_ms)
{
	int64_t pause_ms = REDIS_LOOK_MS + rand() % LOOK_JITTER_MS;

	if (rest_ms != -1 && rest_ms < pause_ms)
		pause_ms = rest_ms > LOOK_LEAST_MS ? rest_ms + 2 : LOOK_LEAST_MS;
	return clock_boot_ms() + pause_ms;
}

enum outcome redis_take_turn(struct redis_backend *redis, const struct request *request,
			     struct grant *grant, struct error *err)
{
	enum outcome outcome = OUTCOME_BUSY;

	/* Most locks are free: tries once before subscribing, unless this token is in line. */
	if (!redis_conn_is_open(&redis->node.wake))
		outcome = redis->dialect->try_once(redis, request, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/*
		 * Before the next try, so that no message is missed in between. A waiter in line
		 * whose channel has no listener counts as dead.
		 */
		if (redis->dialect->listen(redis, request, err))
			return OUTCOME_ERROR;
		outcome = redis->dialect->try_once(redis, request, true, grant, err);
		/* The lock has moved to another server, where this waiter does not listen yet. */
		if (!redis_conn_is_open(&redis->node.wake))
			grant->retry_ms = clock_boot_ms() + REDIS_FOLLOW_MS;
	}
	if (outcome == OUTCOME_HELD)
		redis_conn_close(&redis->node.wake);
	return outcome;
}

/* The connection that something may come over unasked: a message, or the end of the connection. */
static struct redis_conn *listening_conn(struct redis_node *node)
{
	return redis_conn_is_open(&node->wake) ? &node->wake : &node->main;
}

int redis_event_fd(struct backend *backend)
{
	return listening_conn(&redis_from_backend(backend)->node)->fd;
}

/* The pause before another connection, for something may end each of them at once. */
#define RECONNECT_MS 100

int64_t redis_event(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_conn *conn = listening_conn(&redis->node);
	int64_t next_ms = CLOCK_NEVER;
	redisReply *reply;
	int state;

	while ((state = redis_conn_poll(conn, &reply)) > 0) {
		next_ms = clock_earlier(next_ms, redis->dialect->read_message(redis, reply));
		freeReplyObject(reply);
	}
	if (state == 0)
		return next_ms;
	/* When one connection has ended, the server is gone for both. */
	redis_conn_close(&redis->node.wake);
	redis_conn_close(&redis->node.main);
	return clock_boot_ms() + RECONNECT_MS;
}

/* ---- releasing ---- */

void redis_forget(struct redis_backend *redis)
{
	char *const *keys = redis->node.keys;
	const char *const argv[] = { "DEL", keys[KEY_FENCE], keys[KEY_LOCK] };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_command(&redis->node, 3, argv, &ignored);

	freeReplyObject(reply);
}

enum outcome redis_release(struct backend *backend, const struct request *request,
			   int64_t keep_ms, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	int64_t sent_ms = clock_boot_ms(), answer;
	char keep[REDIS_DIGITS_SIZE];
	const char *const arguments[] = { redis_digits(keep_ms, keep), NULL };
	redisReply *reply;

	/*
	 * From here on another release must not hand the lock to this token, which a script counts
	 * no longer among the waiters when nobody listens.
	 */
	redis_conn_close(&redis->node.wake);
	redis_conn_let_others_first(&redis->node.main);
	reply = redis->dialect->run(&redis->node, redis->dialect->release, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_integer(reply))
		return redis_odd_reply(redis, reply, err);
	answer = reply->integer;
	freeReplyObject(reply);
	if (request->forget)
		redis_forget(redis);
	if (answer != 0)
		return OUTCOME_HELD;
	if (lease_ended_by_resent(redis->node.resent, sent_ms, redis->lease_end_ms))
		return OUTCOME_HELD;
	return redis_not_ours(&redis->node, err);
}

/* ---- holding ---- */

enum outcome redis_renew(struct backend *backend, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE], usual[REDIS_DIGITS_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_digits(BACKEND_TTL_MS, usual), NULL
	};
	int64_t answer, ttl_ms;
	uint64_t fence;
	redisReply *reply;

	reply = redis->dialect->run(&redis->node, redis->dialect->renew, request, arguments, err);
	redis_conn_close(&redis->node.wake);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_has_shape(reply, "iis"))
		return redis_odd_reply(redis, reply, err);
	answer = reply->element[0]->integer;
	ttl_ms = reply->element[1]->integer;
	fence = strtoull(reply->element[2]->str, NULL, 10);
	freeReplyObject(reply);
	if (answer == 1) {
		if (redis_replicas_await(&redis->node, redis->node.sent_ms, err))
			return OUTCOME_ERROR;
		redis_note_lease(redis, redis->node.sent_ms, ttl_ms, grant);
		if (!grant->fence)
			grant->fence = fence;
		return OUTCOME_HELD;
	}
	if (answer == 3 && redis->dialect->refuse_ttl)
		return redis->dialect->refuse_ttl(redis, err);
	error_set(err, ERROR_REFUSED, 0, answer == 2
		  ? "%s: key '%.220s' belongs to somebody else now"
		  : "%s: key '%.220s' is gone", redis->node.address.label,
		  redis->node.keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

enum outcome redis_verify(struct backend *backend, const struct request *request,
			  struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	static const char *const none[] = { NULL };
	redisReply *reply = redis->dialect->run(&redis->node, redis->dialect->verify, request,
						none, err);
	enum outcome outcome = OUTCOME_LOST;
	enum hold_mode mode;
	int slots;

	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_text(reply))
		return redis_odd_reply(redis, reply, err);
	if (reply->str[0]) {
		hold_mode_read(reply->str, &mode, &slots);
		outcome = hold_mode_covers(mode, slots, request, err);
	}
	freeReplyObject(reply);
	return outcome;
}
