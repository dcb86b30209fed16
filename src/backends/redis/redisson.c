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
 *	redisson_lock_timeout:{NAME}	sorted set: until when each of them may stay there, in ms
 *	redisson_lock_token:{NAME}	the last fence of a fenced lock
 *	redisson_lock__channel:{NAME}	the channel of all who wait; redisson_rwlock for read/write
 *				locks, redisson_sc for semaphores. For a fair lock, one for each
 *				waiter: redisson_lock__channel:{NAME}:OWNER
 *
 * Beside them are dlock's own keys of the plain dialect (backend.c), which Redisson never sees,
 * with OWNER for a token. A fenced lock has Redisson's fence, and a fair one Redisson's queue and
 * channels.
 *
 * dlock's field is a hash of the token in the form of Redisson's, as of a first thread. Its value
 * is 1. The field exists for as long as the hold, so that a request can be repeated. Redisson's
 * watchdog renews only fields of its own program, with one effect on others: a renewed read lock
 * sets the lease of the whole key. With a longer shared hold of dlock, and a Java program that
 * renews and crashes, the key would expire before the hold. So such a lease is limited to
 * most_read_ms, and dlock renews it earlier than that. A minimum hold may be longer, and lasts as
 * long as no such program shortens it.
 *
 * dlock's waiters listen to their own channel and to that of Java's waiters. Those of a fair lock
 * are in Redisson's queue, among Java's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "client.h"

/* Redisson's default lockWatchdogTimeout. */
#define WATCHDOG_MS 30000

/* The first one is the default. */
static const struct redisson_kind kinds[] = {
	{ .name = "reentrant", .channel = "redisson_lock__channel" },
	{ .name = "fair", .channel = "redisson_lock__channel" },
	{ .name = "fenced", .channel = "redisson_lock__channel",
	  .fence = "redisson_lock_token" },
	{ .name = "readwrite", .channel = "redisson_rwlock", .can = BACKEND_SHARED },
	{ .name = "semaphore", .channel = "redisson_sc", .can = BACKEND_SLOTS },
};

static bool has_permits(const struct redisson_kind *kind)
{
	return kind->can == BACKEND_SLOTS;
}

/* ---- the URI ---- */

int redisson_read(struct redis_client *client, const struct uri *uri, struct error *err)
{
	const char *dialect = uri_param(uri, "dialect"), *lock = uri_param(uri, "lock");

	if (!dialect && !lock && !uri_param(uri, "watchdog"))
		return 0;
	if (!dialect)
		return error_set(err, ERROR_USAGE, 0, "redis: ?%s= is for ?dialect=redisson only",
				 lock ? "lock" : "watchdog");
	if (strcmp(dialect, "redisson") != 0)
		return error_set(err, ERROR_USAGE, 0,
				 "redis: unknown dialect '%.60s': known is redisson", dialect);
	if (uri_param(uri, "replicas"))
		return error_set(err, ERROR_USAGE, 0, "redis: ?dialect=redisson has no ?replicas=");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !client->kind; i++)
		if (!lock || !strcmp(kinds[i].name, lock))
			client->kind = &kinds[i];
	if (!client->kind)
		return error_set(err, ERROR_USAGE, 0, "?dialect=redisson: unknown lock '%.60s': "
				 "known are reentrant, fair, fenced, readwrite, semaphore", lock);
	/* Redisson uses names as they are. */
	if (!uri_param(uri, "prefix"))
		client->prefix = "";
	client->base.can = client->kind->can;
	client->sharded = client->route && client->route->cluster;
	return uri_param_duration(uri, "watchdog", WATCHDOG_MS, &client->most_read_ms, err);
}

bool redisson_admits(const struct redis_client *client, const struct request *request,
		     struct error *err)
{
	if (client->kind && request->mode == HOLD_EXCLUSIVE && has_permits(client->kind))
		error_set(err, ERROR_USAGE, 0, "?dialect=redisson&lock=%s needs --slots N, the "
			  "number of its permits; lock=reentrant is exclusive", client->kind->name);
	else if (client->kind && request->mode == HOLD_SHARED &&
		 request->ttl_ms > client->most_read_ms)
		error_set(err, ERROR_USAGE, 0, "a shared hold of Redisson can have a TTL of %"
			  PRId64 " ms at most, which is ?watchdog=", client->most_read_ms);
	else
		return true;
	return false;
}

/* ---- names ---- */

const char *redisson_owner(const struct redisson_kind *kind, const char *token,
			   char owner[static REDIS_OWNER_SIZE])
{
	char id[ROW_ID_SIZE];

	row_id(token, id);
	if (!kind || !token[0])
		snprintf(owner, REDIS_OWNER_SIZE, "%s", token);
	else if (has_permits(kind))
		snprintf(owner, REDIS_OWNER_SIZE, "%.32s", id);
	else
		snprintf(owner, REDIS_OWNER_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s:1", id, id + 8,
			 id + 12, id + 16, id + 20);
	return owner;
}

/*
 * Redisson puts a name without a brace into braces in the names of its other keys, so that a
 * cluster keeps them together. So the locks "a" and "{a}" share these keys, but not those of dlock.
 */
void redisson_make_keys(struct redis_client *client)
{
	const struct redisson_kind *kind = client->kind;
	char **keys = client->keys, *braced;

	braced = memory_format(strchr(keys[KEY_LOCK], '{') ? "%s" : "{%s}", keys[KEY_LOCK]);
	keys[KEY_TIMEOUTS] = memory_format(has_permits(kind) ? "%s:timeout"
					   : "redisson_lock_timeout:%s", braced);
	if (kind->fence)
		keys[KEY_FENCE] = memory_format("%s:%s", kind->fence, braced);
	if (!strcmp(kind->name, "fair")) {
		keys[KEY_QUEUE] = memory_format("redisson_lock_queue:%s", braced);
		keys[KEY_CHANNEL] = memory_format("%s:%s:", kind->channel, braced);
	} else {
		keys[KEY_SHARED] = memory_format("%s:%s", kind->channel, braced);
	}
	free(braced);
}
