/* SPDX-License-Identifier: MIT */
/*
 * Locks in ZooKeeper, on libzookeeper_mt.
 *
 * A lock is a directory, <root>/<name>, a container, which the server removes when it has been
 * empty for a while. A process that wants the lock makes an ephemeral sequential node in it, an
 * entry of the queue, in Curator's layout (layout.h). The same transaction makes the shadow, by
 * which Curator's other recipe sees the entry. The first entry holds. The fence is the node's
 * czxid.
 *
 * A node's uuid is made of the token. So a process with the token finds the node, and a lost reply
 * does no harm: the request has made the node with our uuid and our session. A node with our uuid
 * and another session is a dead one.
 *
 * The lease. The leader ends sessions. The server that we are connected to reports the active
 * sessions to it only every half tick. When that server and we are cut off from the leader, the
 * leader may not know of a request that was answered a moment ago. So a reply proves only the
 * contact before it, at least a quarter of the session ago (a session is never shorter than two
 * ticks), or the start of the connection, which the leader itself confirmed. A lease is renewed
 * after a third of it, and there is another contact halfway. So zk_conn_lease() gives a lease of
 * 3/5 of the session or more; without that contact it could be 4/9. A renewal is a
 * transaction that checks that the nodes are there, because that needs a majority. A sync does not:
 * a leader that has lost its majority without noticing would answer it.
 *
 * Waiting. A waiter writes into its entry that it waits, and watches the end of the nearest entry
 * that blocks it. When that has ended, it writes that it holds and reads the queue, in one packet.
 * It holds if no entry blocks it then. The order of write and reading does not matter, because
 * entries before it only go away. If another entry still blocks it, it writes again that it waits.
 *
 * A waiter that could hold and has not written so within HOLD_LATE_MS is dead or hung. The same
 * counts for one that has written nothing and was seen blocked, because only an entry that was free
 * when it was made holds without a write. The waiters behind evict it: they delete its entry in the
 * version that waits. The server accepts either that or the waiter's own write, never both.
 *
 * The suspect is the last entry before a waiter's own that could hold. Near the head, a waiter also
 * watches the end of the suspect, and then reads the queue again, to learn of the next one. All else
 * is found by a check each HOLD_RETRY_MS, and less often far behind. A slot watches the directory
 * instead once any end may let it in.
 *
 * tests/model/line.pml is the model of this queue. In acquire.c, its try() is ensure_entry() and
 * send_try(), its take() is the write of "held" in send_try(), and its leave() of a late one is the
 * delete in evict_suspect(). Its release() is the delete in hold.c, and its send() are the server's
 * watches.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/version.h"
#include "lock/uri.h"
#include "lock.h"

#define DEFAULT_ROOT "/dlock"
/* Leaves room in ZK_PATH_SIZE for a lock's name and a node's. */
#define ROOT_MOST 300

static void close_backend(struct backend *backend)
{
	struct zk_backend *zk = zk_from_backend(backend);

	if (!zk)
		return;
	zk_own_clear(&zk->own);
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
	zk->conn.on_watch = zk_watch_fired;
	if (zk_conn_init(&zk->conn, &zk->base, uri, err) || uri_check_params(uri, known, err) ||
	    read_root(zk, uri, err) || read_strategy(zk, uri, err)) {
		close_backend(&zk->base);
		return NULL;
	}
	zk->base.can = zk->one_node ? 0 : BACKEND_SHARED | BACKEND_SLOTS;
	return &zk->base;
}

/* Connect. A session without nodes expires when this process is killed. */
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

static enum outcome acquire_lock(struct backend *backend, const struct request *request,
				 struct grant *grant, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum outcome outcome;

	zk_conn_begin(&zk->conn, backend->connect_timeout_ms);
	do {
		zk_directory(zk, request->name, zk->own.directory);
		zk_uuid(request->token, zk->own.uuid);
		outcome = zk->one_node ? zk_node_try(zk, request, grant, err)
				       : zk_queue_try(zk, request, grant, err);
	} while (outcome == OUTCOME_ERROR && err->errnum != ESTALE &&
		 zk_conn_again(&zk->conn, err));
	/* The session has expired, and our entry with it: the next try makes another one. */
	if (outcome == OUTCOME_ERROR && err->errnum == ESTALE)
		zk_own_leave(zk);
	/* Leave no entry without request->queue, or after a usage error. */
	zk->done = outcome == OUTCOME_BUSY && !request->queue;
	if (zk->done && !zk->one_node)
		zk_own_delete(zk);
	else if (outcome == OUTCOME_ERROR && err->kind == ERROR_USAGE)
		zk_own_leave(zk);
	zk_conn_free(&zk->conn);
	return outcome;
}

static int get_fd(struct backend *backend)
{
	return zk_conn_fd(&zk_from_backend(backend)->conn);
}

static const struct backend_ops zookeeper_ops = {
	.open = open_backend,
	.close = close_backend,
	.connect = connect_session,
	.acquire = acquire_lock,
	.fd = get_fd,
	.event = zk_event,
	.renew = zk_renew,
	.release = zk_release,
	.show = zk_show,
	.break_hold = zk_break,
	.setup = zk_setup,
	.check = zk_check,
};

static const char *describe_library(void)
{
	return "ZooKeeper C client " ZOO_VERSION;
}

const struct backend_module dlock_module = {
	.module = { DLOCK_VERSION, describe_library },
	.ops = &zookeeper_ops,
};
