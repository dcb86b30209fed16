/* SPDX-License-Identifier: MIT */
/*
 * Locks in ZooKeeper, on libzookeeper_mt.
 *
 * A lock is a directory, <root>/<name>. Where the server knows containers (3.5.3 and newer) it is
 * one, so that the server removes it when it has been empty for a while. A process that wants
 * the lock makes an ephemeral sequential node in it, in Curator's layout (place.h), and a twin
 * of that node, in one transaction. The first in line holds. Everybody else watches the place
 * before its own, and the twin of that place, and nothing else: the twin tells when the place
 * holds, which means that nobody is left before it, and then nothing need be asked at its end.
 * The fence is the node's czxid.
 *
 * A node is known by a uuid made of the token, so that a process with the token finds it, and
 * so that a lost answer does no harm: a node with our uuid whose owner is our session is the one
 * that was asked for. A node with our uuid of another session is a dead one.
 *
 * The lease. The session ends at the leader. The leader hears of us through the server that we
 * are connected to, which tells it only every half tick whom it has heard from: when both of us
 * are cut off from the leader, it may not have been told of a request that was answered a moment
 * ago. So an answer proves only the contact before it, at least a quarter of the session ago (a
 * session is never shorter than two ticks), or the start of the connection, of which the leader
 * itself is told. So zk_conn_lease() gives a lease of 3/5 of the session or more, which is
 * renewed every third of the lease. A renewal is no sync, because a leader that has lost its
 * majority without knowing it yet would answer a sync. It is a transaction that checks that the
 * nodes are there, which needs the majority.
 *
 * A waiter whose turn has come writes so into its twin before it holds. This tells it from a
 * waiter that is dead, whose session has yet to run out, or hung: the holder that goes waits for
 * the next one to take its turn, and removes the nodes of a waiter that has not done so within
 * ZK_GRACE_MS, provided that they have not changed. A waiter that finds itself behind such a one
 * does the same. It notices within 5 s when the last holder could not or would not do it (after
 * a crash, or with Curator or kazoo).
 *
 * For the rest of a minimum hold, a process that stays behind takes the session over.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "lock/uri.h"
#include "lock.h"
#include "ops.h"
#include "queue.h"

#define DEFAULT_ROOT "/dlock"
/* With a name and a node's below it, a path must have room in ZK_PATH_SIZE. */
#define ROOT_MOST 300

static void close_backend(struct backend *backend)
{
	struct zk_backend *zk = zk_from_backend(backend);

	if (!zk)
		return;
	zk_seat_forget(&zk->seat);
	zk_conn_finish(&zk->conn);
	free(zk->root);
	free(zk);
}

static int read_root(struct zk_backend *zk, const struct uri *uri, struct error *err)
{
	size_t length = strlen(uri->path);

	while (length && uri->path[length - 1] == '/')
		length--;
	zk->root = length ? memory_copy_part(uri->path, length) : memory_copy(DEFAULT_ROOT);
	if (length <= ROOT_MOST && !strstr(zk->root, "//") && !strstr(zk->root, "/./") &&
	    !strstr(zk->root, "/../") && strcmp(zk->root, "/zookeeper") != 0)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "zookeeper: '%.100s' cannot be the root of locks: "
			 "want a path of at most %d bytes, without empty parts and dots", zk->root,
			 ROOT_MOST);
}

static int read_strategy(struct zk_backend *zk, const struct uri *uri, struct error *err)
{
	const char *strategy = uri_param(uri, "strategy");

	if (!strategy || !strcmp(strategy, "queue"))
		return 0;
	zk->one_node = !strcmp(strategy, "node");
	if (zk->one_node)
		return 0;
	return error_set(err, ERROR_USAGE, 0,
			 "zookeeper: strategy '%.60s' is not known: queue, node", strategy);
}

static struct backend *open_backend(const struct uri *uri, struct error *err)
{
	static const char *const known[] = {
		URI_COMMON_PARAMS, "strategy", "ssl-ca", "cert", "key", NULL
	};
	struct zk_backend *zk = memory_new(1, sizeof(*zk));

	zk->base.session = true;
	if (zk_conn_init(&zk->conn, &zk->base, uri, err) || uri_check_params(uri, known, err) ||
	    read_root(zk, uri, err) || read_strategy(zk, uri, err)) {
		close_backend(&zk->base);
		return NULL;
	}
	zk->base.no_shared = zk->base.no_slots = zk->one_node ? "?strategy=queue has" : NULL;
	return &zk->base;
}

/* A session that has no nodes yet ends by itself when this process is killed. */
static int connect_session(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	int failed;

	zk_conn_begin(&zk->conn, backend->connect_timeout_ms);
	do
		failed = zk_conn_open(&zk->conn, request->ttl_ms, err);
	while (failed && zk_conn_again(&zk->conn, err));
	return failed;
}

static enum outcome acquire(struct backend *backend, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);

	return zk->one_node ? zk_node_acquire(zk, request, grant, err)
			    : zk_queue_acquire(zk, request, grant, err);
}

static int event_fd(struct backend *backend)
{
	return zk_from_backend(backend)->conn.event_fd;
}

static int64_t event(struct backend *backend)
{
	struct zk_backend *zk = zk_from_backend(backend);
	uint32_t watch = zk->inspect_watch ? zk->inspect_watch : zk->seat.place_watch;
	struct zk_event event;
	int64_t next_ms = CLOCK_NEVER;

	/* Not to be readable again for what is taken in now. */
	zk_conn_rest(&zk->conn, 0);
	if (!zk->inspect_watch && !zk->one_node)
		return zk_queue_event(zk);
	while (zk_conn_event(&zk->conn, &event))
		if (event.watch == watch)
			next_ms = 0;
	return zk_conn_broken(&zk->conn) ? 0 : next_ms;
}

static const struct backend_ops zookeeper_ops = {
	.open = open_backend,
	.close = close_backend,
	.connect = connect_session,
	.acquire = acquire,
	.event_fd = event_fd,
	.event = event,
	.renew = zk_renew,
	.verify = zk_verify,
	.release = zk_release,
	.inspect = zk_inspect,
	.list = zk_list_names,
	.break_hold = zk_break,
	.setup = zk_setup,
	.plan = zk_plan,
	.check = zk_check,
};

static const char *library(void)
{
	return "ZooKeeper C client " ZOO_VERSION;
}

const struct backend_module dlock_backend_module = {
	.version = DLOCK_VERSION,
	.ops = &zookeeper_ops,
	.library = library,
};
