/* SPDX-License-Identifier: MIT */
/* Acquiring, waiting, renewing and releasing. */
#include "lock.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "replicas.h"

/* The pause before a waiter follows a lock to another server, where it does not listen yet. */
#define FOLLOW_MS 100
/* The pause before another connection, for something may end each of them at once. */
#define RECONNECT_MS 100

/* ---- acquiring ---- */

/*
 * Release what was just acquired and is of no use, because too few replicas have it. If that fails,
 * too, the hold ends with its lease.
 */
static void give_back(struct redis_backend *redis, const struct request *request)
{
	static const char *const arguments[] = { "0", "", "0", "0", NULL };
	struct error ignored = { 0 };

	freeReplyObject(redis_call(redis, "release", request, arguments, &ignored));
}

static enum outcome hold_since(struct redis_backend *redis, const struct request *request,
			       struct grant *grant, struct error *err)
{
	if (redis_replicas_await(&redis->node, redis->node.sent_ms, err))
		return OUTCOME_ERROR;
	grant->sent_ms = redis->node.sent_ms;
	grant->ttl_ms = request->ttl_ms;
	return OUTCOME_HELD;
}

/* Read what acquire returns (lua/common.lua). LOST without grant->newer: it makes no sense. */
static enum outcome read_grant(struct redis_backend *redis, const redisReply *reply,
			       const struct request *request, struct grant *grant,
			       struct error *err)
{
	redisReply *const *e = reply->element;

	if (redis_has_shape(reply, "is") && e[0]->integer == 1) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
		return grant->fence ? OUTCOME_HELD : OUTCOME_LOST;
	}
	if (redis_has_shape(reply, "ii") && e[0]->integer == 2) {
		if (redis->kind)
			error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with the semaphore, "
				  "which has %lld permits", request->slots, e[1]->integer);
		else
			hold_mode_slots_agree((int)e[1]->integer, request, err);
		return OUTCOME_ERROR;
	}
	if (redis_has_shape(reply, "is") && e[0]->integer == 3) {
		grant->newer = memory_copy(e[1]->str);
		return OUTCOME_LOST;
	}
	if (!redis_has_shape(reply, "iiisi") || e[0]->integer != 0)
		return OUTCOME_LOST;
	redis->queued_us = strtoll(e[3]->str, NULL, 10);
	grant->retry_ms = hold_look_at(e[1]->integer, e[2]->integer == 0, e[4]->integer);
	return OUTCOME_BUSY;
}

static enum outcome try_once(struct redis_backend *redis, const struct request *request,
			     bool enqueue, struct grant *grant, struct error *err)
{
	char ttl[REDIS_DIGITS_SIZE], mode[REDIS_DIGITS_SIZE], queued_at[REDIS_DIGITS_SIZE];
	static const char *const options[2][2] = { { "", "e" }, { "r", "er" } };
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl),
		hold_mode_text(request->mode, request->slots, mode), request->text,
		redis_digits(redis->queued_us, queued_at), "0",
		options[request->replaces][enqueue], NULL
	};
	redisReply *reply = redis_call(redis, "acquire", request, arguments, err);
	enum outcome outcome;

	if (!reply)
		return OUTCOME_ERROR;
	outcome = read_grant(redis, reply, request, grant, err);
	if (outcome == OUTCOME_LOST && !grant->newer) {
		redis_node_odd(&redis->node, reply, err);
		return OUTCOME_ERROR;
	}
	freeReplyObject(reply);
	if (outcome != OUTCOME_HELD)
		return outcome;
	outcome = hold_since(redis, request, grant, err);
	/* The engine releases after a request that it has cancelled. */
	if (outcome == OUTCOME_ERROR && err->kind != ERROR_CANCELLED)
		give_back(redis, request);
	return outcome;
}

/* A waiter listens to a channel of its own, and to the one that all waiters of Java listen to. */
static int listen_for_call(struct redis_backend *redis, const struct request *request,
			   struct error *err)
{
	const bool shared = redis->kind && redis->node.keys[KEY_SHARED];
	char owner[REDIS_OWNER_SIZE];

	redisson_owner(redis->kind, request->token, owner);
	return redis_node_listen(&redis->node, owner, shared ? redis->node.keys[KEY_SHARED] : NULL,
				 err);
}

enum outcome redis_acquire(struct backend *backend, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_conn *wake = &redis->node.wake;
	enum outcome outcome = OUTCOME_BUSY;

	if (!redisson_admits(redis, request, err))
		return OUTCOME_ERROR;
	/* Most locks are free: try once before subscribing, unless this token is in the queue. */
	if (!redis_conn_is_open(wake))
		outcome = try_once(redis, request, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/*
		 * Before the next try, so that no message is missed in between. A waiter whose
		 * channel has no listener counts as dead.
		 */
		if (listen_for_call(redis, request, err))
			return OUTCOME_ERROR;
		outcome = try_once(redis, request, true, grant, err);
		/* The lock has moved to another server, where this waiter does not listen yet. */
		if (!redis_conn_is_open(wake))
			grant->retry_ms = clock_boot_ms() + FOLLOW_MS;
	}
	if (outcome == OUTCOME_HELD || outcome == OUTCOME_LOST)
		redis_conn_close(wake);
	return outcome;
}

/* ---- messages ---- */

/* The connection that something may come over unasked: a message, or the end of the connection. */
static struct redis_conn *listening_conn(struct redis_node *node)
{
	return redis_conn_is_open(&node->wake) ? &node->wake : &node->main;
}

int redis_fd(struct backend *backend)
{
	return listening_conn(&redis_from_backend(backend)->node)->fd;
}

/*
 * When to try because of a message: after so many ms, or at once. Redisson's own messages are
 * small numbers, too, which mean at once, and so does the end of a subscription, when a slot has
 * moved. Answers to SUBSCRIBE have no text.
 */
static int64_t read_message(const redisReply *reply)
{
	int64_t delay_ms;

	if (redis_has_shape(reply, "s") && !strcmp(reply->element[0]->str, "sunsubscribe"))
		return 0;
	if (!redis_has_shape(reply, "..s"))
		return CLOCK_NEVER;
	delay_ms = strtoll(reply->element[2]->str, NULL, 10);
	return delay_ms >= HOLD_LATE_MS && delay_ms < HOLD_LOOK_MS ? clock_boot_ms() + delay_ms
								    : 0;
}

int64_t redis_event(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_conn *conn = listening_conn(&redis->node);
	int64_t next_ms = CLOCK_NEVER;
	redisReply *reply;
	int state;

	while ((state = redis_conn_poll(conn, &reply)) > 0) {
		next_ms = clock_earlier(next_ms, read_message(reply));
		freeReplyObject(reply);
	}
	if (state == 0)
		return next_ms;
	/* When one connection has ended, the server is gone for both. */
	redis_conn_close(&redis->node.wake);
	redis_conn_close(&redis->node.main);
	return clock_boot_ms() + RECONNECT_MS;
}

/* ---- holding ---- */

static enum outcome lose(const struct redis_node *node, struct error *err, const char *how)
{
	error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' %s", node->address.label,
		  node->keys[KEY_LOCK], how);
	return OUTCOME_LOST;
}

enum outcome redis_renew(struct backend *backend, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), request->text ? request->text : "", NULL
	};
	const struct request shared = { .mode = HOLD_SHARED, .ttl_ms = INT64_MAX };
	redisReply *reply = redis_call(redis, "renew", request, arguments, err);
	int64_t answer;

	backend->resent = redis->node.resent;
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_has_shape(reply, "i") ||
	    (reply->element[0]->integer == 1 && !redis_has_shape(reply, "is"))) {
		redis_node_odd(&redis->node, reply, err);
		return OUTCOME_ERROR;
	}
	answer = reply->element[0]->integer;
	if (answer == 1)
		grant->fence = strtoull(reply->element[1]->str, NULL, 10);
	freeReplyObject(reply);
	if (answer == 1)
		return hold_since(redis, request, grant, err);
	if (answer == 3 && !redisson_admits(redis, &shared, err))
		return OUTCOME_ERROR;
	return lose(&redis->node, err, answer == 2 ? "belongs to somebody else now" : "is gone");
}

enum outcome redis_release(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	char keep[REDIS_DIGITS_SIZE];
	const char *const arguments[] = {
		redis_digits(request->keep_ms, keep), request->text ? request->text : "", "0", "0",
		NULL
	};
	redisReply *reply;
	bool held;

	/* From here on a script must not call this token. */
	redis_conn_close(&redis->node.wake);
	redis_conn_let_others_first(&redis->node.main);
	reply = redis_call(redis, "release", request, arguments, err);
	backend->resent = redis->node.resent;
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_integer(reply)) {
		redis_node_odd(&redis->node, reply, err);
		return OUTCOME_ERROR;
	}
	held = reply->integer != 0;
	freeReplyObject(reply);
	/* This object may wait again, at the end of the queue. */
	redis->queued_us = 0;
	return held ? OUTCOME_HELD
		    : lose(&redis->node, err, "does not have this token any more");
}
