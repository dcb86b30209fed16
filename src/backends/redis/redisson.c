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
 *	{NAME}:dlock		hash: OWNER -> fence, since, text of a holder; w:OWNER -> since,
 *				mode, last try, text of a waiter
 *	{NAME}:dlock.fence	the last fence that dlock has given to a lock without a fence
 *
 * dlock's field is a hash of the token in the form of Redisson's, and its value is 1. The field
 * exists for as long as the hold, so that a request can be sent again. Redisson's watchdog renews
 * only fields of its own program, with one effect on others: when it renews a read lock it sets the
 * lease of the whole key. A shared hold of dlock must not be longer, or the key could go before it,
 * with a Java program that renews and then crashes: so such a lease is limited to most_read_ms, and
 * the next renewal of dlock comes earlier than that.
 *
 * Waiters sleep until a message, the end of the lease, or 5 s, whichever comes first.
 */
#include "redisson.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/hold_mode.h"
#include "lock/uri.h"
#include "redisson_call.h"
#include "route.h"

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

	if (!dialect)
		return error_set(err, ERROR_USAGE, 0, "redis: ?%s= is for ?dialect=redisson only",
				 lock ? "lock" : "watchdog");
	if (strcmp(dialect, "redisson") != 0)
		return error_set(err, ERROR_USAGE, 0,
				 "redis: unknown dialect '%.60s': known is redisson", dialect);
	if (uri_param(uri, "replicas") || uri_param(uri, "wake"))
		return error_set(err, ERROR_USAGE, 0, "redis: ?dialect=redisson has no ?%s=",
				 uri_param(uri, "replicas") ? "replicas" : "wake");
	redisson->kind = find_kind(lock ? lock : "reentrant");
	if (redisson->kind)
		return uri_param_duration(uri, "watchdog", WATCHDOG_MS, &redisson->most_read_ms,
					  err);
	return error_set(err, ERROR_USAGE, 0, "?dialect=redisson: unknown lock '%.60s': known are "
			 "reentrant, fair, fenced, readwrite, semaphore", lock);
}

static const struct backend_ops redisson_ops;
static const struct redis_dialect dialect;

struct backend *redisson_open(const struct uri *uri, struct error *err)
{
	struct redisson *redisson = memory_new(1, sizeof(*redisson));
	struct redis_node *node = &redisson->redis.node;

	node->base.ops = &redisson_ops;
	redisson->redis.dialect = &dialect;
	if (redis_node_init(node, uri, err) || read_params(redisson, uri, err)) {
		redis_close(&node->base);
		return NULL;
	}
	/* Redisson uses names as they are. */
	if (!uri_param(uri, "prefix"))
		node->prefix[0] = '\0';
	node->base.no_shared = redisson->kind->shared ? NULL : "lock=readwrite has";
	node->base.no_slots = redisson->kind->slots ? NULL : "lock=semaphore has";
	node->sharded = node->route && node->route->ops->masters;
	return &node->base;
}

/* ---- acquiring ---- */

/* Can this kind of lock be had in this way, in a mode that it has? Else *err says why not. */
static bool admits(const struct redisson *redisson, const struct request *request,
		   struct error *err)
{
	const struct redisson_kind *kind = redisson->kind;

	if (request->mode == HOLD_EXCLUSIVE && kind->slots && !request->forget)
		error_set(err, ERROR_USAGE, 0, "?dialect=redisson&lock=%s needs --slots N, the "
			  "number of its permits; lock=reentrant is exclusive", kind->name);
	else if (request->mode == HOLD_SHARED && request->ttl_ms > redisson->most_read_ms)
		error_set(err, ERROR_USAGE, 0, "a shared hold of Redisson can have a TTL of %"
			  PRId64 " ms at most, which is ?watchdog=", redisson->most_read_ms);
	else
		return true;
	return false;
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
	grant->retry_ms = redis_next_look(e[1]->integer);
	holder_decode(&grant->holder, e[3]->str, e[3]->len);
	return OUTCOME_BUSY;
}

static enum outcome try_once(struct redis_backend *redis, const struct request *request,
			     bool in_line, struct grant *grant, struct error *err)
{
	struct redisson *redisson = redisson_from_backend(&redis->node.base);
	char ttl[REDIS_DIGITS_SIZE], mode[REDIS_DIGITS_SIZE], holder[REDIS_HOLDER_SIZE];
	/* The probe of `dlock check` on a semaphore. */
	const bool permit = redisson->kind->slots && request->mode == HOLD_EXCLUSIVE;
	const char *const arguments[] = {
		redis_digits(request->ttl_ms, ttl),
		permit ? "1" : hold_mode_text(request->mode, request->slots, mode),
		in_line ? "1" : "0", holder, NULL
	};
	const int64_t sent_ms = clock_boot_ms();
	enum outcome outcome;
	redisReply *reply;

	redis_holder_text(request, holder);
	reply = redisson_script(&redis->node, &script_redisson_acquire, request, arguments, err);
	if (!reply)
		return OUTCOME_ERROR;
	outcome = read_grant(reply, request, grant, err);
	if (outcome == OUTCOME_LOST)
		return redis_odd_reply(redis, reply, err);
	freeReplyObject(reply);
	if (outcome == OUTCOME_HELD)
		redis_note_lease(redis, sent_ms, request->ttl_ms, grant);
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
static int listen_for_turn(struct redis_backend *redis, const struct request *request,
			   struct error *err)
{
	struct redisson *redisson = redisson_from_backend(&redis->node.base);
	char channel[1 + REDISSON_OWNER_SIZE] = ":";

	redisson_owner(redisson, request->token, channel + 1);
	return redis_node_listen(&redis->node, is_fair(redisson) ? channel : "", err);
}

static enum outcome redisson_acquire(struct backend *backend, const struct request *request,
				     struct grant *grant, struct error *err)
{
	struct redisson *redisson = redisson_from_backend(backend);

	return admits(redisson, request, err)
	       ? redis_take_turn(&redisson->redis, request, grant, err) : OUTCOME_ERROR;
}

/*
 * When to try after a message: at once, whatever Redisson says. dlock tells the second in the line
 * of a fair lock after how many ms to look for the first.
 */
static int64_t read_message(struct redis_backend *redis, const redisReply *reply)
{
	struct redisson *redisson = redisson_from_backend(&redis->node.base);
	int64_t delay_ms = 0;

	if (is_fair(redisson) && redis_has_shape(reply, "..s"))
		delay_ms = strtoll(reply->element[2]->str, NULL, 10);
	return delay_ms > 1 && delay_ms < REDIS_LOOK_MS ? clock_boot_ms() + delay_ms : 0;
}

/* Fills *err for a lease that a shared hold cannot have. */
static enum outcome refuse_ttl(struct redis_backend *redis, struct error *err)
{
	const struct request asked = { .mode = HOLD_SHARED, .ttl_ms = INT64_MAX };

	admits(redisson_from_backend(&redis->node.base), &asked, err);
	return OUTCOME_ERROR;
}

static const struct redis_dialect dialect = {
	.inspect = &script_redisson_inspect,
	.release = &script_redisson_release,
	.renew = &script_redisson_renew,
	.verify = &script_redisson_verify,
	.make_keys = redisson_keys,
	.run = redisson_script,
	.try_once = try_once,
	.listen = listen_for_turn,
	.free = "",
	.read_message = read_message,
	.refuse_ttl = refuse_ttl,
};

static const struct backend_ops redisson_ops = {
	REDIS_SLOTS,
	.connect = redisson_connect,
	.acquire = redisson_acquire,
	.list = redisson_list,
};
