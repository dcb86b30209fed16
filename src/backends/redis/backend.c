/* SPDX-License-Identifier: MIT */
/*
 * Locks on one Redis server, which may be another one after a failover (route.h). The key
 * <prefix><name> is a string whose value is the token of the holder, as in redis-py, Redlock and
 * many other programs. A lock that several may hold, shared or by slots, is a sorted set of tokens
 * at the same key, which keeps those programs out, too. More keys stand beside it, in the same slot
 * of a cluster:
 *
 *	{<key>}:holders	hash: token -> fence, since, text of the holder
 *	{<key>}:fence	the last fence
 *	{<key>}:queue	sorted set: the tokens of the waiters by place, which is the time at which
 *			they came
 *	{<key>}:waiters	hash: token -> place, mode, time of the last try, end of the loan that this
 *			try allows, time of arrival, text. A waiter that is being woken is still in
 *			it.
 *	{<key>}:newest	string: time of arrival, token and text of the newest waiter that replaces
 *			others
 *	{<key>}:wake:<token>	the channel that this waiter listens to
 *
 * A release hands the lock to the first waiter whose channel has a listener, in one of two ways:
 *
 * - As a loan. Each try of a waiter allows the server to lend it the lock for LOAN_MS, counted from
 *   when the try was sent, as every lease is. If enough of that time is left, the message names the
 *   try and the fence, and the command starts without another request. A renewal makes the loan a
 *   whole lease a moment later.
 * - For 900 ms otherwise, in which the waiter confirms by acquiring.
 *
 * A waiter that is dead has no listener and is left out at once. A waiter that hangs loses its turn
 * to the next one, which is told to try after the time that the lock was handed over for. Holders
 * die, so each waiter also tries every 5 s, and the first in line when the holder's lease ends.
 * A waiter gets the time of its arrival when it stands in line, or with the first answer, before
 * that, if it has wishes. It sends this time with each try: so it keeps its place when it was taken
 * for dead and comes back, also to a server that has lost the queue. A waiter that has wishes keeps
 * the time also when an answer is lost, and never replaces a waiter that is newer.
 *
 * Other programs know nothing of queues and wake nobody: while one of them holds the lock, the
 * first in line, and no other waiter, tries about every 250 ms.
 */
#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"
#include "lock/uri.h"
#include "lock.h"
#include "redisson.h"
#include "replicas.h"

/*
 * How often the first in line tries while another program holds the lock. The pause varies, because
 * a program that takes and releases the lock at a steady pace could otherwise hold it at every try.
 */
#define FOREIGN_LOOK_MS 200
#define FOREIGN_JITTER_MS 100
/*
 * A waiter that hangs when it is handed the lock delays the others by at most this time. MOST_LOAN
 * in lib.lua is the same.
 */
#define LOAN_MS 4500

static const struct redis_dialect dialect;

static struct backend *redis_open(const struct uri *uri, struct error *err)
{
	struct redis_backend *redis;

	if (uri_param(uri, "dialect") || uri_param(uri, "lock") || uri_param(uri, "watchdog"))
		return redisson_open(uri, err);
	redis = memory_new(1, sizeof(*redis));
	redis->dialect = &dialect;
	if (redis_node_init(&redis->node, uri, err) ||
	    redis_replicas_read(&redis->node, uri, err)) {
		redis_close(&redis->node.base);
		return NULL;
	}
	redis->node.base.replaces = true;
	return &redis->node.base;
}

/* ---- giving back ---- */

/*
 * Releases what was just acquired and is of no use, for too few replicas have it. If that fails,
 * too, the hold ends with its lease.
 */
static void give_back(struct redis_backend *redis, const struct request *request)
{
	static const char *const arguments[] = { "0", "1", NULL };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_script(&redis->node, &script_release, request, arguments,
					      &ignored);

	freeReplyObject(reply);
	if (request->forget)
		redis_forget(redis);
}

/* ---- acquiring ---- */

static int64_t next_look(int64_t pttl_ms, int64_t ahead, bool foreign)
{
	const int64_t look_ms = redis_next_look(ahead == 0 ? pttl_ms : -1);

	if (ahead != 0 || !foreign)
		return look_ms;
	return clock_earlier(look_ms, clock_boot_ms() + FOREIGN_LOOK_MS +
				      rand() % FOREIGN_JITTER_MS);
}

/* Reads a fence, {3, newer} or {0, pttl, ahead, holder, age, foreign, came}: see acquire.lua. */
static enum outcome read_grant(struct redis_backend *redis, const redisReply *reply,
			       struct grant *grant)
{
	redisReply *const *e = reply->element;

	if (redis_is_text(reply)) {
		grant->fence = strtoull(reply->str, NULL, 10);
		return grant->fence ? OUTCOME_HELD : OUTCOME_ERROR;
	}
	if (redis_has_shape(reply, "is") && e[0]->integer == 3) {
		holder_decode(&grant->holder, e[1]->str, e[1]->len);
		grant->replaced = true;
		return OUTCOME_LOST;
	}
	if (!redis_has_shape(reply, "iiisiii") || e[0]->integer != 0)
		return OUTCOME_ERROR;
	redis->came_us = e[6]->integer;
	grant->ahead = e[2]->integer;
	grant->age_ms = e[4]->integer;
	grant->retry_ms = next_look(e[1]->integer, grant->ahead, e[5]->integer);
	holder_decode(&grant->holder, e[3]->str, e[3]->len);
	return OUTCOME_BUSY;
}

/* Is the reply {2, N}: do the present holders use the lock with another number of slots, N? */
static bool disagrees(const redisReply *reply, const struct request *request,
		      struct error *err)
{
	if (!redis_has_shape(reply, "ii") || reply->elements != 2 ||
	    reply->element[0]->integer != 2)
		return false;
	return !hold_mode_slots_agree((int)reply->element[1]->integer, request, err);
}

/*
 * May the server lend the lock in a message? Not with ?replicas=, where a command starts only after
 * an answer, which no message gives. And not with a route: a master passes messages on to the
 * subscribers of its replicas, and a node of a cluster to those of the other nodes. The script that
 * sends a message does not count them: a waiter that listens at a server which does not have the
 * lock any more would take a loan that was never given.
 */
static bool allows_loan(const struct redis_backend *redis, const struct request *request)
{
	return request->borrow && request->ttl_ms >= LOAN_MS && !redis->node.replicas &&
	       !redis->node.route;
}

static enum outcome try_once(struct redis_backend *redis, const struct request *request,
			     bool in_line, struct grant *grant, struct error *err)
{
	char ttl[REDIS_DIGITS_SIZE], mode[REDIS_DIGITS_SIZE], asked[REDIS_DIGITS_SIZE];
	char loan[REDIS_DIGITS_SIZE], came[REDIS_DIGITS_SIZE], holder[REDIS_HOLDER_SIZE];
	const int64_t sent_ms = clock_boot_ms();
	/* Each argument costs the server about a microsecond. */
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl),
		hold_mode_text(request->mode, request->slots, mode), holder,
		in_line || redis->came_us ? redis_digits(redis->came_us, came) : NULL,
		in_line ? redis_digits(sent_ms, asked) : NULL,
		redis_digits(allows_loan(redis, request) ? LOAN_MS : 0, loan), NULL
	};
	enum outcome outcome;
	redisReply *reply;

	redis_holder_text(request, holder);
	redis->asked_ms = sent_ms;
	redis->lent_fence = 0;
	reply = redis_node_script(&redis->node, &script_acquire, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (disagrees(reply, request, err)) {
		freeReplyObject(reply);
		return OUTCOME_ERROR;
	}
	outcome = read_grant(redis, reply, grant);
	if (outcome == OUTCOME_ERROR)
		return redis_odd_reply(redis, reply, err);
	freeReplyObject(reply);
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (redis_replicas_await(&redis->node, redis->node.sent_ms, err)) {
		/* The engine releases after a request that it has cancelled. */
		if (err->kind != ERROR_CANCELLED)
			give_back(redis, request);
		return OUTCOME_ERROR;
	}
	redis_note_lease(redis, redis->node.sent_ms, request->ttl_ms, grant);
	return OUTCOME_HELD;
}

/* Has a message lent this token the lock, with enough time left to begin? */
static bool borrow(struct redis_backend *redis, struct grant *grant)
{
	const uint64_t fence = redis->lent_fence;

	redis->lent_fence = 0;
	if (!fence || clock_boot_ms() - redis->asked_ms >= LOAN_MS / 2)
		return false;
	redis_note_lease(redis, redis->asked_ms, LOAN_MS, grant);
	grant->fence = fence;
	grant->lent = true;
	return true;
}

static int redis_connect(struct backend *backend, const struct request *request,
			 struct error *err)
{
	(void)request;
	return redis_node_connect(&redis_from_backend(backend)->node, err);
}

static enum outcome redis_acquire(struct backend *backend, const struct request *request,
				  struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);

	/*
	 * The next renewal closes the other connection, so that the command need not wait for it.
	 */
	return borrow(redis, grant) ? OUTCOME_HELD : redis_take_turn(redis, request, grant, err);
}

static int listen_for_turn(struct redis_backend *redis, const struct request *request,
			   struct error *err)
{
	return redis_node_listen(&redis->node, request->token, err);
}

/*
 * The text of a message is the delay in ms after which to try, or "0 ASKED FENCE": the lock is lent
 * to this token, on the try made at ASKED, which must be the last one. Returns when to try.
 */
static int64_t read_message(struct redis_backend *redis, const redisReply *reply)
{
	int64_t delay_ms;
	char *next;

	if (!redis_has_shape(reply, "..s"))
		return CLOCK_NEVER;
	delay_ms = strtoll(reply->element[2]->str, &next, 10);
	if (strtoll(next, &next, 10) == redis->asked_ms)
		redis->lent_fence = strtoull(next, NULL, 10);
	return delay_ms > 0 && delay_ms < REDIS_LOOK_MS ? clock_boot_ms() + delay_ms : 0;
}

static const struct redis_dialect dialect = {
	.inspect = &script_inspect,
	.release = &script_release,
	.renew = &script_renew,
	.verify = &script_verify,
	.make_keys = redis_node_keys,
	.run = redis_node_script,
	.try_once = try_once,
	.listen = listen_for_turn,
	.free = REDIS_FREE,
	.read_message = read_message,
};

#define TEXT_OF(number) #number
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *redis_library(void);
const char *redis_library(void)
{
	return "hiredis " VERSION_OF(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

const struct backend_ops redis_ops = {
	REDIS_SLOTS,
	.open = redis_open,
	.connect = redis_connect,
	.acquire = redis_acquire,
	.list = redis_list,
};
