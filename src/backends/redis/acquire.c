/* SPDX-License-Identifier: MIT */
/* Acquiring and waiting: a try on one server, and the loop around tries on any number. */
#include "lock.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold.h"
#include "lock/hold_mode.h"

/* The pause before a waiter follows a lock to another server. */
#define FOLLOW_MS 100

int redis_send_acquire(struct redis_client *client, const struct request *request, bool enqueue,
		       uint64_t least, struct redis_call *call, struct error *err)
{
	static const char *const options[2][2] = { { "", "e" }, { "r", "er" } };
	char ttl[REDIS_DIGITS_SIZE], mode[REDIS_DIGITS_SIZE], queued_at[REDIS_DIGITS_SIZE];
	char fence[REDIS_DIGITS_SIZE];

	call->what = "acquire";
	call->token = request->token;
	call->arguments[0] = redis_digits(request->ttl_ms, ttl);
	call->arguments[1] = hold_mode_text(request->mode, request->slots, mode);
	call->arguments[2] = request->text;
	call->arguments[3] = redis_digits(client->queued_us, queued_at);
	call->arguments[4] = redis_digits((int64_t)least, fence);
	call->arguments[5] = options[request->replaces][enqueue];
	return redis_run(client, request->name, call, err);
}

/* Read the reply of acquire (lua/common.lua). LOST without grant->newer: it is not valid. */
static enum outcome read_grant(struct redis_client *client, const redisReply *reply,
			       const struct request *request, struct grant *grant,
			       struct error *err)
{
	redisReply *const *e = reply->element;

	if (redis_has_shape(reply, "is") && e[0]->integer == 1) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
		return grant->fence ? OUTCOME_HELD : OUTCOME_LOST;
	}
	if (redis_has_shape(reply, "ii") && e[0]->integer == 2) {
		if (client->kind)
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
	client->queued_us = strtoll(e[3]->str, NULL, 10);
	grant->retry_ms = hold_retry_at(e[1]->integer, e[2]->integer == 0, e[4]->integer);
	return OUTCOME_BUSY;
}

static enum outcome try_acquire(struct redis_client *client, const struct request *request,
				bool enqueue, struct grant *grant, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	struct redis_call call = { .what = NULL };
	struct error ignored = { 0 };
	enum outcome outcome;

	if (redis_send_acquire(client, request, enqueue, 0, &call, err))
		return OUTCOME_ERROR;
	outcome = read_grant(client, client->servers[0].reply, request, grant, err);
	if (outcome == OUTCOME_LOST && !grant->newer) {
		redis_odd(&client->servers[0], err);
		return OUTCOME_ERROR;
	}
	if (outcome != OUTCOME_HELD)
		return outcome;
	outcome = redis_grant(client, sent_ms, request, grant, err);
	/* Too few replicas have it. The engine releases after a request that it has cancelled. */
	if (outcome == OUTCOME_ERROR && err->kind != ERROR_CANCELLED)
		redis_release(&client->base, request, &ignored);
	return outcome;
}

enum outcome redis_acquire(struct backend *backend, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	redis_attempt_fn *const attempt = client->attempt ? client->attempt : try_acquire;
	char owner[REDIS_OWNER_SIZE];
	enum outcome outcome;
	bool queued;

	if (!redisson_admits(client, request, err))
		return OUTCOME_ERROR;
	for (int i = 0; i < client->count; i++)
		client->servers[i].woken = false;
	/* Most locks are free: try once before subscribing, unless this token is in the queue. */
	queued = request->queue && redis_listens(client);
	outcome = attempt(client, request, queued, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue && (!queued || redis_listens(client))) {
		/*
		 * Listen before the next try, so that no message is missed. A waiter whose channel
		 * has no listener counts as dead.
		 */
		redisson_owner(client->kind, request->token, owner);
		if (redis_listen(client, owner, err))
			return OUTCOME_ERROR;
		if (!queued)
			outcome = attempt(client, request, true, grant, err);
	}
	/* The lock has moved to another server: listen there at the next try. */
	if (outcome == OUTCOME_BUSY && request->queue && !redis_listens(client))
		grant->retry_ms = clock_boot_ms() + FOLLOW_MS;
	if (outcome == OUTCOME_HELD || outcome == OUTCOME_LOST)
		redis_stop_listening(client);
	return outcome;
}
