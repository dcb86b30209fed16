/* SPDX-License-Identifier: MIT */
/* How a lock on Redis is given back. */
#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/token.h"
#include "lock.h"

/* Who has held for less is hardly waited for. */
#define SHORT_HOLD_MS 10

/* A name that will never be used again leaves no fence. */
static void forget(struct redis_backend *redis)
{
	const char *argv[] = { "DEL", redis->node.keys[KEY_FENCE] };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_command(&redis->node, 2, argv, &ignored);

	if (reply)
		freeReplyObject(reply);
}

/*
 * What goes in front of a release. A server writes last to whom it had something to say first:
 * with an answer to us under way already, the waiter that the script wakes hears of it before we
 * do. After a short hold there is none most often.
 */
static const char *const *before_release(const struct redis_backend *redis, const char *words[3])
{
	words[0] = clock_boot_ms() - redis->asked_ms >= SHORT_HOLD_MS ? "EXISTS" : NULL;
	words[1] = redis->node.keys[KEY_LOCK];
	words[2] = NULL;
	return words;
}

enum outcome redis_release(struct backend *backend, const struct request *request,
			   enum release how, int64_t keep_ms, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	int64_t sent_ms = clock_boot_ms(), answer;
	char keep[REDIS_DIGITS_SIZE], number[TOKEN_SIZE] = "0";
	static const char *const hows[] = {
		[RELEASE_ALL] = "1", [RELEASE_ONE] = "0", [RELEASE_COUNTED] = "2"
	};
	const char *const arguments[] = { redis_digits(keep_ms, keep), hows[how], number, NULL };
	const char *words[3];
	redisReply *reply;

	if (how != RELEASE_ALL && token_make(number, err))
		return OUTCOME_ERROR;
	/* Deaf from here on: the release of another must not choose us. */
	redis_conn_close(&redis->node.wake);
	redis_conn_ahead(&redis->node.main, before_release(redis, words));
	reply = redis_node_script(&redis->node, &script_release, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_integer(reply)) {
		redis_node_odd(&redis->node, reply, err);
		return OUTCOME_ERROR;
	}
	answer = reply->integer;
	freeReplyObject(reply);
	if (request->forget)
		forget(redis);
	if (answer != 0)
		return answer == 2 ? OUTCOME_BUSY : OUTCOME_HELD;
	/* Sent twice within the lease: it was the first one that released. */
	if (redis->node.resent && sent_ms < redis->lease_end_ms)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' was not ours any more",
		  redis->node.address.label, redis->node.keys[KEY_LOCK]);
	return OUTCOME_LOST;
}
