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
 *	{<key>}:queue	sorted set: the tokens of the waiters by queued_at, the time of arrival
 *	{<key>}:waiters	hash: token -> queued_at, mode, replaces, text; "called" -> which waiter was
 *			called, and when
 *	{<key>}:newest	string: queued_at, token and text of the newest waiter that replaces others
 *	{<key>}:wake:<token>	the channel that this waiter listens to
 *
 * lua/ has the one script that does all of it. A release frees the lock and calls the first waiter,
 * which takes it like anybody else, while no newcomer of dlock may. A waiter that is dead has no
 * listener and is passed at once. One that was called and has not come within 900 ms is passed by
 * the next one, which is called for that time. Holders die, so each waiter also tries every 5 s,
 * and the first in the queue when the holder's lease ends.
 *
 * A waiter sends queued_at with each try. So it keeps its place when it was taken for dead and
 * comes back, also to a server that has lost the queue.
 *
 * tests/model/line.pml is the model of this queue. Its try() is acquire() in lua/lock.lua, its
 * take(), call_first() and leave() are take(), call() and leave() there, and its release() is
 * release(); send() is PUBLISH, and a waiter naps in the poll() of the engine.
 *
 * Other programs wake nobody: while one of them holds the lock, the first in the queue, and no
 * other waiter, tries about every 250 ms.
 */
#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "lock.h"
#include "replicas.h"

static struct backend *redis_open(const struct uri *uri, struct error *err)
{
	struct redis_backend *redis = memory_new(1, sizeof(*redis));
	struct backend *backend = &redis->node.base;

	backend->can = BACKEND_SHARED | BACKEND_SLOTS | BACKEND_REPLACES;
	if (!redis_node_init(&redis->node, uri, err) && !redisson_read(redis, uri, err) &&
	    !redis_replicas_read(&redis->node, uri, err))
		return backend;
	redis_close(backend);
	return NULL;
}

void redis_close(struct backend *backend)
{
	struct redis_backend *redis = redis_from_backend(backend);

	if (!redis)
		return;
	redis_node_finish(&redis->node);
	free(redis);
}

static int redis_connect(struct backend *backend, const struct request *request,
			 struct error *err)
{
	struct redis_backend *redis = redis_from_backend(backend);

	return redisson_admits(redis, request, err) ? redis_node_connect(&redis->node, err) : -1;
}

#define TEXT_OF(number) #number
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *redis_library(void);
const char *redis_library(void)
{
	return "hiredis " VERSION_OF(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

const struct backend_ops redis_ops = {
	.open = redis_open,
	.close = redis_close,
	.connect = redis_connect,
	.acquire = redis_acquire,
	.renew = redis_renew,
	.release = redis_release,
	.show = redis_show,
	.fd = redis_fd,
	.event = redis_event,
	.setup = redis_setup,
	.check = redis_check,
	.break_hold = redis_break,
};
