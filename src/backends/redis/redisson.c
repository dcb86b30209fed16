/* SPDX-License-Identifier: MIT */
/*
 * Locks that Java programs share through Redisson. The lock's key, the keys "redisson_..." and the
 * messages are as Redisson 3 and 4 have them (its classes RedissonLock, RedissonFairLock,
 * RedissonReadLock, RedissonWriteLock, RedissonFencedLock and RedissonPermitExpirableSemaphore):
 *
 *	NAME			hash: "<uuid>:<thread>" -> how often it was acquired. A read/write
 *				lock has "mode", too, and a writer's field ends in :write. It
 *				expires with the lease. Of a semaphore: the number of free permits
 *	{NAME}:OWNER:rwlock_timeout:N	expires with the Nth acquisition of a read lock
 *	{NAME}:timeout		sorted set: permits of a semaphore by the end of their leases, in ms
 *	redisson_lock_queue:{NAME}	list: who waits for a fair lock
 *	redisson_lock_timeout:{NAME}	sorted set: until when each of them may stay in line, in ms
 *	redisson_lock_token:{NAME}	the last fence of a fenced lock
 *	redisson_lock__channel:{NAME}	the channel of all who wait; redisson_rwlock for read/write
 *				locks, redisson_sc for semaphores. For a fair lock, one for each
 *				waiter: redisson_lock__channel:{NAME}:OWNER
 *
 * Beside them dlock has two keys that Redisson never sees, and that expire:
 *
 *	{NAME}:dlock		hash: OWNER -> fence, since, count, text of a holder; w:OWNER ->
 *				since, mode, last try, text of a waiter
 *	{NAME}:dlock.fence	the last fence that dlock has given to a lock without a fence
 *
 * dlock's field is a hash of the token in the form of Redisson's. The field exists for as long as
 * the hold, so that a request can be sent again; one that counts is noted (is_counted in
 * common.lua). Redisson's watchdog renews only fields of its own program, with one effect on
 * others: when it renews a read lock it sets the lease of the whole key. A shared hold of dlock must
 * not be longer, or the key could go before it, with a Java program that renews and then crashes: so
 * such a lease is limited to most_read_ms, and the next renewal of dlock comes earlier than that.
 *
 * Waiters sleep until a message, the end of the lease, or 5 s, whichever comes first.
 */
#include "redisson.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lock/token.h"
#include "lock/uri.h"
#include "reply.h"
#include "route.h"

/* How often a waiter tries without being woken. ALIVE in lib.lua is more than twice as long. */
#define LOOK_MS 5000
#define LOOK_JITTER_MS 500
/* The least pause before another try when a lease is about to end. */
#define LOOK_LEAST_MS 20
/* Redisson's default lockWatchdogTimeout. */
#define WATCHDOG_MS 30000

static const struct redisson_kind kinds[] = {
	{ .name = "reentrant", .channel = "redisson_lock__channel" },
	{ .name = "fair", .channel = "redisson_lock__channel" },
	{ .name = "fenced", .channel = "redisson_lock__channel",
	  .fence = "redisson_lock_token" },
	{ .name = "readwrite", .channel = "redisson_rwlock", .shared = true },
	{ .name = "semaphore", .channel = "redisson_sc", .slots = true },
};

/* ---- the object ---- */

static const struct redisson_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

/* Reads the parameters that only this dialect has. 0, or -1 with *err. */
static int read_params(struct redisson *redisson, const struct uri *uri, struct error *err)
{
	const char *dialect = uri_param(uri, "dialect"), *lock = uri_param(uri, "lock");

	if (!dialect) {
		error_set(err, ERROR_USAGE, 0, "redis: ?%s= is for ?dialect=redisson only",
			  lock ? "lock" : "watchdog");
		return -1;
	}
	if (strcmp(dialect, "redisson") != 0) {
		error_set(err, ERROR_USAGE, 0, "redis: unknown dialect '%.60s': known is redisson",
			  dialect);
		return -1;
	}
	if (uri_param(uri, "replicas") || uri_param(uri, "wake")) {
		error_set(err, ERROR_USAGE, 0, "redis: ?dialect=redisson has no ?%s=",
			  uri_param(uri, "replicas") ? "replicas" : "wake");
		return -1;
	}
	redisson->kind = find_kind(lock ? lock : "reentrant");
	if (redisson->kind)
		return uri_param_duration(uri, "watchdog", WATCHDOG_MS, &redisson->most_read_ms,
					  err);
	error_set(err, ERROR_USAGE, 0, "?dialect=redisson: unknown lock '%.60s': known are "
		  "reentrant, fair, fenced, readwrite, semaphore", lock);
	return -1;
}

extern const struct backend_ops redisson_ops;

struct backend *redisson_open(const struct uri *uri, struct error *err)
{
	struct redisson *redisson = memory_new(1, sizeof(*redisson));
	struct redis_node *node = &redisson->redis.node;

	node->base.ops = &redisson_ops;
	if (redis_node_init(node, uri, err) || read_params(redisson, uri, err)) {
		redis_close(&node->base);
		return NULL;
	}
	/* Redisson uses names as they are. */
	if (!uri_param(uri, "prefix"))
		node->prefix[0] = '\0';
	node->sharded = node->route && node->route->ops->masters;
	return &node->base;
}

static enum outcome odd_reply(struct redisson *redisson, redisReply *reply, struct error *err)
{
	redis_node_odd(&redisson->redis.node, reply, err);
	return OUTCOME_ERROR;
}

/* ---- acquiring ---- */

/* Does this kind of lock have what is asked for? Else *err names one that has. */
static bool admits(const struct redisson *redisson, const struct request *request,
		   struct error *err)
{
	const struct redisson_kind *kind = redisson->kind;
	char most[TEXT_DIGITS_SIZE];

	text_digits(most, (uint64_t)redisson->most_read_ms);
	if (request->mode == HOLD_SLOT && !kind->slots)
		error_set(err, ERROR_USAGE, 0, "?dialect=redisson&lock=%s has no --slots; "
			  "lock=semaphore has", kind->name);
	else if (request->mode == HOLD_SHARED && !kind->shared)
		error_set(err, ERROR_USAGE, 0, "?dialect=redisson&lock=%s has no shared holds; "
			  "lock=readwrite has", kind->name);
	else if (request->mode == HOLD_EXCLUSIVE && kind->slots && !request->forget)
		error_set(err, ERROR_USAGE, 0, "?dialect=redisson&lock=%s wants --slots N, the "
			  "number of its permits; lock=reentrant is exclusive", kind->name);
	else if (request->mode == HOLD_SHARED && request->ttl_ms > redisson->most_read_ms)
		error_set(err, ERROR_USAGE, 0, "a shared hold of Redisson can have a TTL of %s ms "
			  "at most, which is ?watchdog=", most);
	else
		return true;
	return false;
}

/* after_ms: from acquire.lua. */
static int64_t next_look(int64_t after_ms)
{
	int64_t now = clock_boot_ms(), look_ms = now + LOOK_MS + rand() % LOOK_JITTER_MS;

	if (after_ms < 0)
		return look_ms;
	after_ms = after_ms > LOOK_LEAST_MS ? after_ms + 2 : LOOK_LEAST_MS;
	return clock_earlier(look_ms, now + after_ms);
}

/* Reads {1, fence}, {2, permits} or {0, after, ahead, holder, age}: see acquire.lua. */
static enum outcome read_grant(const redisReply *reply, const struct request *request,
			       struct grant *grant, struct error *err)
{
	redisReply *const *e = reply->element;

	if (redis_has_shape(reply, "is") && e[0]->integer == 1) {
		grant->fence = strtoull(e[1]->str, NULL, 10);
		return OUTCOME_HELD;
	}
	if (redis_has_shape(reply, "ii") && e[0]->integer == 2) {
		error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with the semaphore, which "
			  "has %lld permits", request->slots, e[1]->integer);
		return OUTCOME_ERROR;
	}
	if (!redis_has_shape(reply, "iiisi") || e[0]->integer != 0)
		return OUTCOME_LOST;
	grant->ahead = e[2]->integer;
	grant->age_ms = e[4]->integer;
	grant->retry_ms = next_look(e[1]->integer);
	if (holder_decode(&grant->holder, e[3]->str, e[3]->len))
		grant->holder = (struct holder){ 0 };
	return OUTCOME_BUSY;
}

/* Notes the lease that a script has given for a request of sent_ms. */
static void note_lease(struct redisson *redisson, int64_t sent_ms, int64_t ttl_ms,
		       struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = ttl_ms;
	redisson->redis.lease_end_ms = lease_end(sent_ms, ttl_ms);
}

static enum outcome try_once(struct redisson *redisson, const struct request *request,
			     bool in_line, struct grant *grant, struct error *err)
{
	char ttl[REDIS_DIGITS_SIZE], mode[REDIS_DIGITS_SIZE], holder[REDIS_HOLDER_SIZE];
	/* The probe of `dlock check` on a semaphore. */
	const bool permit = redisson->kind->slots && request->mode == HOLD_EXCLUSIVE;
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), permit ? "1" : redis_mode(request, mode),
		in_line ? "1" : "0", holder, NULL
	};
	const int64_t sent_ms = clock_boot_ms();
	enum outcome outcome;
	redisReply *reply;

	redis_holder_text(request, holder);
	reply = redisson_script(redisson, &script_redisson_acquire, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	outcome = read_grant(reply, request, grant, err);
	if (outcome == OUTCOME_LOST)
		return odd_reply(redisson, reply, err);
	freeReplyObject(reply);
	if (outcome == OUTCOME_HELD)
		note_lease(redisson, sent_ms, request->ttl_ms, grant);
	return outcome;
}

static int redisson_connect(struct backend *backend, const struct request *request,
			    struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);

	if (!admits(redisson, request, err))
		return -1;
	return redis_node_connect(&redisson->redis.node, err);
}

static bool is_fair(const struct redisson *redisson)
{
	return !strcmp(redisson->kind->name, "fair");
}

/* The waiters of a fair lock have a channel each, all others one together. 0 or -1. */
static int listen_for_turn(struct redisson *redisson, const struct request *request,
			   struct error *err)
{
	char channel[1 + REDISSON_OWNER_SIZE] = ":";

	redisson_owner(redisson, request->token, channel + 1);
	return redis_node_listen(&redisson->redis.node,
				 is_fair(redisson) ? channel : "", err);
}

static enum outcome redisson_acquire(struct backend *backend, const struct request *request,
				     struct grant *grant, struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);
	struct redis_node *node = &redisson->redis.node;
	enum outcome outcome = OUTCOME_BUSY;

	if (!admits(redisson, request, err))
		return OUTCOME_ERROR;
	/* Most locks are free: tries once before subscribing, unless this token is in line. */
	if (!redis_conn_is_open(&node->wake))
		outcome = try_once(redisson, request, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		/* Subscribes before the try, so that no message is missed in between. */
		if (listen_for_turn(redisson, request, err))
			return OUTCOME_ERROR;
		outcome = try_once(redisson, request, true, grant, err);
		/* The lock has moved to another server, where this waiter does not listen yet. */
		if (!redis_conn_is_open(&node->wake))
			grant->retry_ms = clock_boot_ms() + REDIS_FOLLOW_MS;
	}
	if (outcome == OUTCOME_HELD)
		redis_conn_close(&node->wake);
	return outcome;
}

/*
 * When to try after a message: at once, whatever Redisson says. dlock tells the second in the line
 * of a fair lock after how many ms to look for the first.
 */
static int64_t read_message(const struct redisson *redisson, const redisReply *reply)
{
	int64_t delay_ms = 0;

	if (is_fair(redisson) && redis_has_shape(reply, "..s"))
		delay_ms = strtoll(reply->element[2]->str, NULL, 10);
	return delay_ms > 1 && delay_ms < LOOK_MS ? clock_boot_ms() + delay_ms : 0;
}

static int64_t redisson_event(struct backend *backend)
{
	struct redisson *redisson = redisson_from_backend(backend);
	struct redis_conn *conn = redis_listening_conn(&redisson->redis.node);
	int64_t next_ms = CLOCK_NEVER;
	redisReply *reply;
	int state;

	while ((state = redis_conn_poll(conn, &reply)) > 0) {
		next_ms = clock_earlier(next_ms, read_message(redisson, reply));
		freeReplyObject(reply);
	}
	if (state == 0)
		return next_ms;
	/* When one connection has ended, the server is gone for both. */
	redis_conn_close(&redisson->redis.node.wake);
	redis_conn_close(&redisson->redis.node.main);
	return 0;
}

/* ---- holding ---- */

/* Fills *err for a lease that a shared hold cannot have. */
static enum outcome refuse_ttl(const struct redisson *redisson, struct error *err)
{
	const struct request asked = { .mode = HOLD_SHARED, .ttl_ms = INT64_MAX };

	admits(redisson, &asked, err);
	return OUTCOME_ERROR;
}

static enum outcome redisson_renew(struct backend *backend, const struct request *request,
				   struct grant *grant, struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE], usual[REDIS_DIGITS_SIZE], most[REDIS_DIGITS_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_digits(BACKEND_TTL_MS, usual),
		redis_digits(redisson->most_read_ms, most), NULL
	};
	struct redis_node *node = &redisson->redis.node;
	int64_t sent_ms = clock_boot_ms(), answer;
	redisReply *reply;

	reply = redisson_script(redisson, &script_redisson_renew, request, arguments, err);
	redis_conn_close(&node->wake);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_has_shape(reply, "ii"))
		return odd_reply(redisson, reply, err);
	answer = reply->element[0]->integer;
	if (answer == 1)
		note_lease(redisson, sent_ms, reply->element[1]->integer, grant);
	freeReplyObject(reply);
	if (answer == 1)
		return OUTCOME_HELD;
	if (answer == 3)
		return refuse_ttl(redisson, err);
	error_set(err, ERROR_REFUSED, 0, answer == 2
		  ? "%s: key '%.220s' belongs to somebody else now"
		  : "%s: key '%.220s' is gone", node->address.label, node->keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

static enum outcome redisson_verify(struct backend *backend, const struct request *request,
				    struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);
	static const char *const none[] = { NULL };
	enum outcome outcome = OUTCOME_LOST;
	enum hold_mode mode;
	redisReply *reply;
	int slots;

	reply = redisson_script(redisson, &script_redisson_verify, request, none, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_text(reply))
		return odd_reply(redisson, reply, err);
	if (reply->str[0]) {
		redis_read_mode(reply->str, &mode, &slots);
		outcome = hold_mode_covers(mode, slots, request, err);
	}
	freeReplyObject(reply);
	return outcome;
}

static enum outcome redisson_again(struct backend *backend, const struct request *request,
				   struct grant *grant, struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);
	char ttl[REDIS_DIGITS_SIZE], usual[REDIS_DIGITS_SIZE], most[REDIS_DIGITS_SIZE];
	char number[TOKEN_SIZE];
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl), redis_digits(BACKEND_TTL_MS, usual),
		redis_digits(redisson->most_read_ms, most), number, NULL
	};
	/* A token never changes its mode, so that the result stays true until the script runs. */
	enum outcome outcome = redisson_verify(backend, request, err);
	int64_t sent_ms, answer;
	redisReply *reply;

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (token_make(number, err))
		return OUTCOME_ERROR;
	sent_ms = clock_boot_ms();
	reply = redisson_script(redisson, &script_redisson_again, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_has_shape(reply, "i.i"))
		return odd_reply(redisson, reply, err);
	answer = reply->element[0]->integer;
	if (answer == 1 && redis_is_text(reply->element[1])) {
		grant->fence = strtoull(reply->element[1]->str, NULL, 10);
		note_lease(redisson, sent_ms, reply->element[2]->integer, grant);
	}
	freeReplyObject(reply);
	if (answer == 3)
		return refuse_ttl(redisson, err);
	return answer == 1 ? OUTCOME_HELD : OUTCOME_LOST;
}

/* ---- releasing ---- */

/* Removes the fence of a name that will not be used again, and the permits of a semaphore. */
static void forget(struct redisson *redisson)
{
	struct redis_node *node = &redisson->redis.node;
	const char *const argv[] = { "DEL", node->keys[KEY_FENCE], node->keys[KEY_LOCK] };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_command(node, redisson->kind->slots ? 3 : 2, argv, &ignored);

	if (reply)
		freeReplyObject(reply);
}

static enum outcome redisson_release(struct backend *backend, const struct request *request,
				     enum release how, int64_t keep_ms, struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);
	struct redis_node *node = &redisson->redis.node;
	int64_t sent_ms = clock_boot_ms(), answer;
	char keep[REDIS_DIGITS_SIZE], number[TOKEN_SIZE] = "0";
	static const char *const hows[] = {
		[RELEASE_ALL] = "1", [RELEASE_ONE] = "0", [RELEASE_COUNTED] = "2"
	};
	const char *const arguments[] = { redis_digits(keep_ms, keep), hows[how], number, NULL };
	redisReply *reply;

	if (how != RELEASE_ALL && token_make(number, err))
		return OUTCOME_ERROR;
	/* Nobody listens any more: the script counts this token no longer among the waiters. */
	redis_conn_close(&node->wake);
	reply = redisson_script(redisson, &script_redisson_release, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	if (!redis_is_integer(reply))
		return odd_reply(redisson, reply, err);
	answer = reply->integer;
	freeReplyObject(reply);
	if (request->forget)
		forget(redisson);
	if (answer != 0)
		return answer == 2 ? OUTCOME_BUSY : OUTCOME_HELD;
	if (lease_ended_by_resent(node->resent, sent_ms, redisson->redis.lease_end_ms))
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: key '%.220s' was not ours any more",
		  node->address.label, node->keys[KEY_LOCK]);
	return OUTCOME_LOST;
}

const struct backend_ops redisson_ops = {
	.close = redis_close,
	.connect = redisson_connect,
	.acquire = redisson_acquire,
	.event_fd = redis_event_fd,
	.event = redisson_event,
	.renew = redisson_renew,
	.verify = redisson_verify,
	.release = redisson_release,
	.again = redisson_again,
	.inspect = redisson_inspect,
	.list = redisson_list,
	.break_hold = redisson_break,
	.setup = redis_setup,
	.plan = redis_plan,
	.check = redis_check,
};
