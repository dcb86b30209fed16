/* SPDX-License-Identifier: MIT */
/*
 * Locks on one Redis server, in the plain dialect: a string at <prefix><name>
 * whose value is the token, as redis-py, redlock and many others have it. (A lock
 * that several may hold, shared or by slots, is a sorted set there instead, which
 * excludes those all the same.) Beside it, in the same cluster slot:
 *
 *	{<key>}:holders	hash: token -> fence, since, count, text of the holder
 *	{<key>}:fence	the last fence
 *	{<key>}:queue	sorted set: tokens of waiters by the time they came
 *	{<key>}:waiters	hash: token -> place, mode, last try, end of a loan on that,
 *			text; also of one being woken
 *	{<key>}:wake:<token>	channel that this waiter listens to
 *
 * Who releases hands the lock to the first waiter whose channel has a listener. One that
 * asked a moment ago is lent it: with each try a waiter says that from then on it may be
 * given a lease of LOAN_MS, counted from when it asked, as every lease is; the message
 * names the try and the fence, and the command starts without a further question. The
 * loan becomes a whole lease a moment later, by a renewal. Any other has it for 900 ms, in which
 * it confirms by acquiring. A dead one has no listener and is passed over at once, a hung
 * one loses its turn to the next, which is told to look after that time. A waiter also
 * looks every 5 s, and the first in line when the holder's lease runs out, for holders
 * that die or know nothing of queues.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lock/token.h"
#include "lock.h"

struct redis_backend *redis_from_backend(struct backend *backend)
{
	return (struct redis_backend *)backend;
}

/* A waiter looks so often, for what nobody wakes it for (SPEC, 2.7). */
#define LOOK_MS 5000
#define LOOK_JITTER_MS 500
/* Least pause before the first in line looks again as a lease runs out. */
#define LOOK_LEAST_MS 20
/*
 * Who is handed the lock and hangs keeps the others waiting for so long at most (SPEC, 2.7).
 * MOST_LOAN in lib.lua is the same.
 */
#define LOAN_MS 4500

static void redis_close(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	if (!redis)
		return;
	redis_node_finish(&redis->node);
	free(redis);
}

static struct backend *redis_open(const struct uri *uri, struct error *err)
{
	struct redis_backend *redis = calloc(1, sizeof(*redis));

	if (!redis) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return NULL;
	}
	if (redis_node_init(&redis->node, uri, err)) {
		redis_close(&redis->node.base);
		return NULL;
	}
	return &redis->node.base;
}

static enum outcome odd_reply(struct redis_backend *redis, redisReply *reply,
			      struct error *err)
{
	redis_node_odd(&redis->node, reply, err);
	return OUTCOME_ERROR;
}

/* ---- acquiring ---- */

static int64_t next_look(int64_t pttl_ms, int64_t ahead)
{
	int64_t now = clock_boot_ms(), look_ms = now + LOOK_MS + rand() % LOOK_JITTER_MS;
	int64_t expiry_ms = now + (pttl_ms > LOOK_LEAST_MS ? pttl_ms + 2 : LOOK_LEAST_MS);

	/* -1: a lock without a lease, which only its holder ends. */
	if (ahead == 0 && pttl_ms != -1 && expiry_ms < look_ms)
		return expiry_ms;
	return look_ms;
}

/* What the scripts call the mode of a hold. */
static const char *mode_of(const struct request *request, char buf[static REDIS_DIGITS_SIZE])
{
	switch (request->mode) {
	case HOLD_SHARED:
		return "s";
	case HOLD_SLOT:
		return redis_digits(request->slots, buf);
	case HOLD_ANY:
	case HOLD_EXCLUSIVE:
		break;
	}
	return "x";
}

/* {1, fence} or {0, pttl, ahead, holder, age}: see acquire.lua. */
static enum outcome read_grant(const redisReply *reply, struct grant *grant)
{
	redisReply *const *e = reply->element;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || !redis_is_integer(e[0]))
		return OUTCOME_ERROR;
	if (e[0]->integer == 1 && redis_is_text(e[1])) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
		return grant->fence ? OUTCOME_HELD : OUTCOME_ERROR;
	}
	if (e[0]->integer != 0 || reply->elements < 5 || !redis_is_integer(e[1]) ||
	    !redis_is_integer(e[2]) || !redis_is_text(e[3]) || !redis_is_integer(e[4]))
		return OUTCOME_ERROR;
	grant->ahead = e[2]->integer;
	grant->age_ms = e[4]->integer;
	grant->retry_ms = next_look(e[1]->integer, grant->ahead);
	if (holder_decode(&grant->holder, e[3]->str, e[3]->len))
		grant->holder = (struct holder){ 0 };
	return OUTCOME_BUSY;
}

/* {2, N}: the lock has N slots for those who use it now. */
static bool disagrees(const redisReply *reply, const struct request *request,
		      struct error *err)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    !redis_is_integer(reply->element[0]) || reply->element[0]->integer != 2 ||
	    !redis_is_integer(reply->element[1]))
		return false;
	return !hold_mode_slots_agree((int)reply->element[1]->integer, request, err);
}

static enum outcome try_once(struct redis_backend *redis, const struct request *request,
			     bool in_line, struct grant *grant, struct error *err)
{
	char ttl[REDIS_DIGITS_SIZE], mode[REDIS_DIGITS_SIZE], asked[REDIS_DIGITS_SIZE];
	char loan[REDIS_DIGITS_SIZE], holder[HOLDER_TEXT_SIZE + 32];
	struct holder self = request->self;
	const int64_t sent_ms = clock_boot_ms();
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), mode_of(request, mode), in_line ? "1" : "0",
		holder, redis_digits(sent_ms, asked),
		redis_digits(request->borrow && request->ttl_ms >= LOAN_MS ? LOAN_MS : 0, loan),
		NULL
	};
	enum outcome outcome;
	redisReply *reply;
	size_t used;

	self.ttl_ms = request->ttl_ms;
	used = holder_encode(&self, holder);
	/* release.lua reads it, for a release that comes from anywhere. */
	if (request->min_hold_ms > 0)
		snprintf(holder + used, sizeof(holder) - used, "&min=%" PRId64,
			 request->min_hold_ms);
	grant->sent_ms = sent_ms;
	grant->ttl_ms = request->ttl_ms;
	redis->asked_ms = sent_ms;
	redis->lent_fence = 0;
	reply = redis_node_script(&redis->node, &script_acquire, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (disagrees(reply, request, err)) {
		freeReplyObject(reply);
		return OUTCOME_ERROR;
	}
	outcome = read_grant(reply, grant);
	if (outcome == OUTCOME_ERROR)
		return odd_reply(redis, reply, err);
	freeReplyObject(reply);
	if (outcome == OUTCOME_HELD)
		redis->lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	return outcome;
}

/* Has a message lent us the lock, with time enough to begin? */
static bool borrow(struct redis_backend *redis, struct grant *grant)
{
	const uint64_t fence = redis->lent_fence;

	redis->lent_fence = 0;
	if (!fence || clock_boot_ms() - redis->asked_ms >= LOAN_MS / 2)
		return false;
	grant->sent_ms = redis->asked_ms;
	grant->ttl_ms = LOAN_MS;
	grant->fence = fence;
	grant->lent = true;
	redis->lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
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
	enum outcome outcome = OUTCOME_BUSY;

	/* Its renewal closes the other connection: the command must not wait for that. */
	if (borrow(redis, grant))
		return OUTCOME_HELD;
	/* In line already, or not: most locks are free, so try before subscribing. */
	if (!redis->node.wake.context)
		outcome = try_once(redis, request, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/* Listening comes first: who is in line and deaf counts as dead. */
		if (redis_node_listen(&redis->node, request->token, err))
			return OUTCOME_ERROR;
		outcome = try_once(redis, request, true, grant, err);
	}
	if (outcome == OUTCOME_HELD)
		redis_conn_close(&redis->node.wake);
	return outcome;
}

static int redis_event_fd(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	return redis_conn_fd(redis->node.wake.context ? &redis->node.wake : &redis->node.main);
}

/*
 * A message's text is the delay in ms after which to try; or "0 ASKED FENCE": the lock is
 * lent to us, on the try made at ASKED, which must be our last one.
 */
static int64_t read_message(struct redis_backend *redis, const redisReply *reply)
{
	int64_t delay_ms;
	char *next;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
	    !redis_is_text(reply->element[2]))
		return CLOCK_NEVER;
	delay_ms = strtoll(reply->element[2]->str, &next, 10);
	if (strtoll(next, &next, 10) == redis->asked_ms)
		redis->lent_fence = strtoull(next, NULL, 10);
	return delay_ms > 0 && delay_ms < LOOK_MS ? clock_boot_ms() + delay_ms : 0;
}

static int64_t redis_event(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_conn *conn = redis->node.wake.context ? &redis->node.wake : &redis->node.main;
	int64_t next_ms = CLOCK_NEVER, message_ms;
	redisReply *reply;
	int state;

	while ((state = redis_conn_poll(conn, &reply)) > 0) {
		message_ms = read_message(redis, reply);
		if (message_ms < next_ms)
			next_ms = message_ms;
		freeReplyObject(reply);
	}
	if (state == 0)
		return next_ms;
	/* A server that went away took both connections along. */
	redis_conn_close(&redis->node.wake);
	redis_conn_close(&redis->node.main);
	return 0;
}

/* ---- holding and releasing ---- */

/* Notes the lease that a script has given, asked for at sent_ms; ttl_ms 0: one without an end. */
static void note_lease(struct redis_backend *redis, int64_t sent_ms, int64_t ttl_ms,
		       struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = ttl_ms;
	redis->lease_end_ms = ttl_ms ? lease_end(sent_ms, ttl_ms) : CLOCK_NEVER;
}

static enum outcome redis_renew(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE], usual[REDIS_DIGITS_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_digits(BACKEND_TTL_MS, usual), NULL
	};
	int64_t sent_ms = clock_boot_ms(), answer;
	redisReply *reply;

	reply = redis_node_script(&redis->node, &script_renew, request, arguments, err);
	redis_conn_close(&redis->node.wake);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_array(reply, 2) || !redis_is_integer(reply->element[0]) ||
	    !redis_is_integer(reply->element[1]))
		return odd_reply(redis, reply, err);
	answer = reply->element[0]->integer;
	if (answer == 1)
		note_lease(redis, sent_ms, reply->element[1]->integer, grant);
	freeReplyObject(reply);
	if (answer == 1)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, answer == 2
		  ? "%s: key '%.220s' belongs to somebody else now"
		  : "%s: key '%.220s' is gone", redis->node.address.label,
		  redis->node.keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

static enum outcome redis_verify(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	static const char *const none[] = { NULL };
	redisReply *reply = redis_node_script(&redis->node, &script_verify, request, none, err);
	enum outcome outcome = OUTCOME_LOST;
	enum hold_mode mode;
	int slots;

	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_text(reply))
		return odd_reply(redis, reply, err);
	if (reply->str[0]) {
		redis_read_mode(reply->str, &mode, &slots);
		outcome = hold_mode_covers(mode, slots, request, err);
	}
	freeReplyObject(reply);
	return outcome;
}

static enum outcome redis_again(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE], usual[REDIS_DIGITS_SIZE];
	char number[TOKEN_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_digits(BACKEND_TTL_MS, usual), number,
		NULL
	};
	/* How a token holds never changes, so that nothing can come in between. */
	enum outcome outcome = redis_verify(backend, request, err);
	int64_t sent_ms;
	redisReply *reply;

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (token_make(number, err))
		return OUTCOME_ERROR;
	sent_ms = clock_boot_ms();
	reply = redis_node_script(&redis->node, &script_again, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_array(reply, 3) || !redis_is_integer(reply->element[0]) ||
	    !redis_is_integer(reply->element[2]))
		return odd_reply(redis, reply, err);
	outcome = OUTCOME_LOST;
	if (reply->element[0]->integer == 1 && redis_is_text(reply->element[1])) {
		grant->fence = strtoull(reply->element[1]->str, NULL, 10);
		note_lease(redis, sent_ms, reply->element[2]->integer, grant);
		outcome = OUTCOME_HELD;
	}
	freeReplyObject(reply);
	return outcome;
}

extern const struct backend_ops redis_ops;
const struct backend_ops redis_ops = {
	.open = redis_open,
	.close = redis_close,
	.connect = redis_connect,
	.acquire = redis_acquire,
	.event_fd = redis_event_fd,
	.event = redis_event,
	.renew = redis_renew,
	.verify = redis_verify,
	.release = redis_release,
	.again = redis_again,
	.inspect = redis_inspect,
	.list = redis_list,
	.break_hold = redis_break,
	.setup = redis_setup,
	.plan = redis_plan,
	.check = redis_check,
};
