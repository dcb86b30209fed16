/* SPDX-License-Identifier: MIT */
/*
 * Locks on one Redis server, which may be another one after a failover (route.h). The key
 * <prefix><name> is a string whose value is the token of the holder, as in redis-py, Redlock and
 * many other programs. A lock that several may hold, shared or by slots, is a sorted set of tokens
 * at the same key, which keeps those programs out, too. More keys stand beside it, in the same slot
 * of a cluster:
 *
 *	{<key>}:holders	hash: token -> fence, since, count, text of the holder
 *	{<key>}:fence	the last fence
 *	{<key>}:queue	sorted set: the tokens of the waiters by place, which is the time at which
 *			they came unless they have wishes (lock/queueing.h)
 *	{<key>}:waiters	hash: token -> place, mode, time of the last try, end of the loan that this
 *			try allows, time of arrival, text. A waiter that is being woken is still in
 *			it.
 *	{<key>}:newest	string: of the last come that replaces waiters, the time at which it came,
 *			token and text
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
 * A waiter that has wishes gets the time of its arrival with the first answer, before it stands in
 * line, and sends it with each try: so it keeps this time when an answer is lost, or when it was
 * taken for dead and comes back, and never replaces a waiter that is newer.
 *
 * Other programs know nothing of queues and wake nobody: while one of them holds the lock, the
 * first in line, and no other waiter, tries about every 250 ms.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lock/token.h"
#include "lock/uri.h"
#include "redisson.h"
#include "replicas.h"
#include "scriptless.h"

/* How often a waiter tries without being woken. */
#define LOOK_MS 5000
#define LOOK_JITTER_MS 500
/*
 * The same for the first in line while another program holds the lock. The pause varies, because a
 * program that takes and releases the lock at a steady pace could otherwise hold it at every try.
 */
#define FOREIGN_LOOK_MS 200
#define FOREIGN_JITTER_MS 100
/* The least pause before the first in line tries again when a lease is about to end. */
#define LOOK_LEAST_MS 20
/*
 * A waiter that hangs when it is handed the lock delays the others by at most this time. MOST_LOAN
 * in lib.lua is the same.
 */
#define LOAN_MS 4500

static const struct backend_ops scriptless_ops;

static struct backend *redis_open(const struct uri *uri, struct error *err)
{
	struct redis_backend *redis;
	bool scriptless;

	if (scriptless_read(uri, &scriptless, err))
		return NULL;

	if (uri_param(uri, "dialect") || uri_param(uri, "lock") || uri_param(uri, "watchdog"))
		return redisson_open(uri, err);
	redis = memory_new(1, sizeof(*redis));
	if (scriptless)
		redis->node.base.ops = &scriptless_ops;
	if (redis_node_init(&redis->node, uri, err) ||
	    redis_replicas_read(&redis->node, uri, err)) {
		redis_close(&redis->node.base);
		return NULL;
	}
	if (!scriptless)
		redis->node.base.queue_can = QUEUE_PRIORITY | QUEUE_NEWEST | QUEUE_REPLACE;
	return &redis->node.base;
}

static enum outcome odd_reply(struct redis_backend *redis, redisReply *reply,
			      struct error *err)
{
	redis_node_odd(&redis->node, reply, err);
	return OUTCOME_ERROR;
}

/* ---- giving back ---- */

/* Removes the fence of a name that will not be used again. */
static void forget(struct redis_backend *redis)
{
	const char *const argv[] = { "DEL", redis->node.keys[KEY_FENCE] };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_command(&redis->node, 2, argv, &ignored);

	if (reply)
		freeReplyObject(reply);
}

/*
 * Releases what was just acquired and is of no use, for too few replicas have it. If that fails,
 * too, the hold ends with its lease.
 */
static void give_back(struct redis_backend *redis, const struct request *request)
{
	static const char *const arguments[] = { "0", "3", "0", NULL };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_script(&redis->node, &script_release, request, arguments,
					      &ignored);

	if (reply)
		freeReplyObject(reply);
	if (request->forget)
		forget(redis);
}

/* ---- acquiring ---- */

static int64_t next_look(int64_t pttl_ms, int64_t ahead, bool foreign)
{
	int64_t now = clock_boot_ms(), look_ms = now + LOOK_MS + rand() % LOOK_JITTER_MS;
	int64_t expiry_ms = now + (pttl_ms > LOOK_LEAST_MS ? pttl_ms + 2 : LOOK_LEAST_MS);

	if (ahead == 0 && foreign)
		look_ms = now + FOREIGN_LOOK_MS + rand() % FOREIGN_JITTER_MS;
	/* -1: the lock has no lease, and only its holder ends it. */
	if (ahead == 0 && pttl_ms != -1 && expiry_ms < look_ms)
		return expiry_ms;
	return look_ms;
}

/* Reads {1, fence}, {3, newer} or {0, pttl, ahead, holder, age, foreign, came}: see acquire.lua. */
static enum outcome read_grant(struct redis_backend *redis, const redisReply *reply,
			       struct grant *grant)
{
	redisReply *const *e = reply->element;

	if (redis_has_shape(reply, "is") && e[0]->integer == 1) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
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
	if (holder_decode(&grant->holder, e[3]->str, e[3]->len))
		grant->holder = (struct holder){ 0 };
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

/* Notes the lease that a script has given for a request of sent_ms. ttl_ms 0: it has no end. */
static void note_lease(struct redis_backend *redis, int64_t sent_ms, int64_t ttl_ms,
		       struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = ttl_ms;
	redis->lease_end_ms = ttl_ms ? lease_end(sent_ms, ttl_ms) : CLOCK_NEVER;
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
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_mode(request, mode), in_line ? "1" : "0",
		holder, redis_digits(sent_ms, asked),
		redis_digits(allows_loan(redis, request) ? LOAN_MS : 0, loan),
		redis_digits(redis->came_us, came), NULL
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
		return odd_reply(redis, reply, err);
	freeReplyObject(reply);
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (redis_replicas_await(&redis->node, redis->node.sent_ms, err)) {
		/* The engine releases after a request that it has cancelled. */
		if (err->kind != ERROR_CANCELLED)
			give_back(redis, request);
		return OUTCOME_ERROR;
	}
	note_lease(redis, redis->node.sent_ms, request->ttl_ms, grant);
	return OUTCOME_HELD;
}

/* Has a message lent this token the lock, with enough time left to begin? */
static bool borrow(struct redis_backend *redis, struct grant *grant)
{
	const uint64_t fence = redis->lent_fence;

	redis->lent_fence = 0;
	if (!fence || clock_boot_ms() - redis->asked_ms >= LOAN_MS / 2)
		return false;
	note_lease(redis, redis->asked_ms, LOAN_MS, grant);
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
	enum outcome outcome = OUTCOME_BUSY;

	/*
	 * The next renewal closes the other connection, so that the command need not wait for it.
	 */
	if (borrow(redis, grant))
		return OUTCOME_HELD;
	/* Most locks are free: tries once before subscribing, unless this token is in line. */
	if (!redis_conn_is_open(&redis->node.wake))
		outcome = try_once(redis, request, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/* A waiter in line whose channel has no listener counts as dead. */
		if (redis_node_listen(&redis->node, request->token, err))
			return OUTCOME_ERROR;
		outcome = try_once(redis, request, true, grant, err);
		/* The lock has moved to another server, where this waiter does not listen yet. */
		if (!redis_conn_is_open(&redis->node.wake))
			grant->retry_ms = clock_boot_ms() + REDIS_FOLLOW_MS;
	}
	if (outcome == OUTCOME_HELD)
		redis_conn_close(&redis->node.wake);
	return outcome;
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
	return delay_ms > 0 && delay_ms < LOOK_MS ? clock_boot_ms() + delay_ms : 0;
}

static int64_t redis_event(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);
	struct redis_conn *conn = redis_listening_conn(&redis->node);
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
	/* When one connection has ended, the server is gone for both. */
	redis_conn_close(&redis->node.wake);
	redis_conn_close(&redis->node.main);
	return 0;
}

/* ---- releasing ---- */

static enum outcome redis_release(struct backend *backend, const struct request *request,
				  enum release how, int64_t keep_ms, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	int64_t sent_ms = clock_boot_ms(), answer;
	char keep[REDIS_DIGITS_SIZE], number[TOKEN_SIZE] = "0";
	static const char *const hows[] = {
		[RELEASE_ALL] = "1", [RELEASE_ONE] = "0", [RELEASE_COUNTED] = "2"
	};
	const char *const arguments[] = { redis_digits(keep_ms, keep), hows[how], number, NULL };
	redisReply *reply;

	if (how != RELEASE_ALL && token_make(number, err))
		return OUTCOME_ERROR;
	/* From here on another release must not hand the lock to this token. */
	redis_conn_close(&redis->node.wake);
	reply = redis_node_script(&redis->node, &script_release, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_integer(reply))
		return odd_reply(redis, reply, err);
	answer = reply->integer;
	freeReplyObject(reply);
	if (request->forget)
		forget(redis);
	if (answer != 0)
		return answer == 2 ? OUTCOME_BUSY : OUTCOME_HELD;
	if (lease_ended_by_resent(redis->node.resent, sent_ms, redis->lease_end_ms))
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' was not ours any more",
		  redis->node.address.label, redis->node.keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

/* ---- holding ---- */

static enum outcome redis_renew(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE], usual[REDIS_DIGITS_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_digits(BACKEND_TTL_MS, usual), NULL
	};
	int64_t answer, ttl_ms;
	redisReply *reply;

	reply = redis_node_script(&redis->node, &script_renew, request, arguments, err);
	redis_conn_close(&redis->node.wake);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_has_shape(reply, "ii"))
		return odd_reply(redis, reply, err);
	answer = reply->element[0]->integer;
	ttl_ms = reply->element[1]->integer;
	freeReplyObject(reply);
	if (answer == 1) {
		if (redis_replicas_await(&redis->node, redis->node.sent_ms, err))
			return OUTCOME_ERROR;
		note_lease(redis, redis->node.sent_ms, ttl_ms, grant);
		return OUTCOME_HELD;
	}
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
	/* A token never changes its mode, so that the result stays true until the script runs. */
	enum outcome outcome = redis_verify(backend, request, err);
	struct error ignored = { 0 };
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
	if (!redis_has_shape(reply, "i.i"))
		return odd_reply(redis, reply, err);
	outcome = OUTCOME_LOST;
	if (reply->element[0]->integer == 1 && redis_is_text(reply->element[1])) {
		grant->fence = strtoull(reply->element[1]->str, NULL, 10);
		note_lease(redis, sent_ms, reply->element[2]->integer, grant);
		outcome = OUTCOME_HELD;
	}
	freeReplyObject(reply);
	if (outcome != OUTCOME_HELD || !redis_replicas_await(&redis->node, sent_ms, err))
		return outcome;
	/* An acquisition that failed must not need a release. */
	redis_release(backend, request, RELEASE_ONE, 0, &ignored);
	return OUTCOME_ERROR;
}

#define TEXT_OF(number) #number
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *redis_library(void);
const char *redis_library(void)
{
	return "hiredis " VERSION_OF(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
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

static const struct backend_ops scriptless_ops = {
	.close = redis_close,
	.connect = redis_connect,
	.acquire = scriptless_acquire,
	.event_fd = redis_event_fd,
	.event = redis_event,
	.renew = scriptless_renew,
	.verify = scriptless_verify,
	.release = scriptless_release,
	.again = scriptless_again,
	.inspect = scriptless_inspect,
	.list = redis_list,
	.break_hold = scriptless_break,
	.setup = redis_setup,
	.plan = redis_plan,
	.check = scriptless_check,
};
