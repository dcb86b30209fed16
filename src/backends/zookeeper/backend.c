/* SPDX-License-Identifier: MIT */
/*
 * Locks in ZooKeeper, on libzookeeper_mt.
 *
 * A lock is a directory, <root>/<name>, a container where the server knows those (3.5), so
 * that the server removes it when it has been empty for a while. Who wants the lock makes
 * an ephemeral sequential node in it, in Curator's layout (place.h), and a twin
 * of it, in one transaction. The first in line holds; everybody else watches the one before
 * and its twin, and nothing else: the twin tells that the one before holds, so that nobody
 * is left before it, and at its end nothing need be asked. The fence is the node's czxid.
 *
 * A node is known by a uuid made of the token, so that a process with the token finds it,
 * and an answer that was lost is made up for: a node with our uuid, and with our session as
 * its owner, is the one that was asked for. One of another session is a dead one.
 *
 * The lease. The session ends at the leader, and the leader hears of us through the server
 * that we are connected to, which tells it only now and then (half a tick) whom it has heard
 * from: a request that was answered a moment ago may not have been told yet, should the two
 * of us be cut off. So what is proven by an answer is the contact before it, at least a
 * quarter of the session ago (a session is never shorter than two ticks), or the start of
 * the connection, of which the leader itself is told. Hence zk_conn_lease(): the lease is
 * from 3/5 of the session upwards, renewed every third of that. What is sent to prove it is
 * no sync: a leader that has lost its majority without knowing yet would answer it. A
 * transaction that checks that the nodes are there needs the majority.
 *
 * Who has waited and gets its turn writes so into its twin, before it holds. That makes the
 * difference to one that is dead, whose session has yet to run out, or hung: the holder that
 * goes sees to it that the next one takes its turn, and if that has not happened within
 * ZK_GRACE_MS it removes that one's nodes, provided that they have not changed. Who finds
 * itself behind such a one does the same, which it notices within 5 s if the last holder
 * could not or would not see to it (a crash; Curator, kazoo).
 *
 * A least time to hold goes on in a process that takes the session over.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/version.h"
#include "lock/uri.h"
#include "lock.h"

#define DEFAULT_ROOT "/dlock"
/* With a name and a node's below it, a path must have room in ZK_PATH_SIZE. */
#define ROOT_MOST 300

struct zk_backend *zk_from_backend(struct backend *backend)
{
	return (struct zk_backend *)backend;
}

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
	zk->root = length ? strndup(uri->path, length) : strdup(DEFAULT_ROOT);
	if (!zk->root) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	if (length <= ROOT_MOST && !strstr(zk->root, "//") && !strstr(zk->root, "/./") &&
	    !strstr(zk->root, "/../") && strcmp(zk->root, "/zookeeper") != 0)
		return 0;
	error_set(err, ERROR_USAGE, 0, "zookeeper: '%.100s' cannot be the root of locks: want a "
		  "path of at most %d bytes, without empty parts and dots", zk->root, ROOT_MOST);
	return -1;
}

static int read_strategy(struct zk_backend *zk, const struct uri *uri, struct error *err)
{
	const char *strategy = uri_param(uri, "strategy");

	if (!strategy || !strcmp(strategy, "queue"))
		return 0;
	zk->one_node = !strcmp(strategy, "node");
	if (zk->one_node)
		return 0;
	error_set(err, ERROR_USAGE, 0, "zookeeper: strategy '%.60s' is not known: queue, node",
		  strategy);
	return -1;
}

static struct backend *open_backend(const struct uri *uri, struct error *err)
{
	static const char *const known[] = {
		"strategy", "timeout", "connect-timeout", "password-file", "ssl-ca", "cert", "key",
		NULL
	};
	struct zk_backend *zk = calloc(1, sizeof(*zk));

	if (!zk) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return NULL;
	}
	zk->base.session = true;
	if (zk_conn_init(&zk->conn, &zk->base, uri, err) || uri_check_params(uri, known, err) ||
	    read_root(zk, uri, err) || read_strategy(zk, uri, err)) {
		close_backend(&zk->base);
		return NULL;
	}
	return &zk->base;
}

/* A session that has no nodes yet ends by itself when this process is killed. */
static int connect_session(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	int failed;

	zk_conn_begin(&zk->conn, backend->connect_timeout_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		failed = zk_conn_open(&zk->conn, request->ttl_ms, err);
	} while (failed && zk_conn_again(&zk->conn, err));
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
	struct zk_event event;
	int64_t next_ms = CLOCK_NEVER;

	/* Not to be readable again for what is taken in now. */
	zk_conn_rest(&zk->conn, 0);
	if (!zk->inspect_watch)
		return zk->one_node ? zk_node_event(zk) : zk_queue_event(zk);
	while (zk_conn_event(&zk->conn, &event))
		if (event.watch == zk->inspect_watch)
			next_ms = 0;
	return zk_conn_broken(&zk->conn) ? 0 : next_ms;
}

static enum outcome renew(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	return zk_hold_renew(zk_from_backend(backend), request, grant, err);
}

static enum outcome verify(struct backend *backend, const struct request *request,
			   struct error *err)
{
	return zk_hold_verify(zk_from_backend(backend), request, err);
}

static enum outcome release(struct backend *backend, const struct request *request,
			    enum release how, int64_t keep_ms, struct error *err)
{
	return zk_hold_release(zk_from_backend(backend), request, how, keep_ms, err);
}

static enum outcome again(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	return zk_hold_again(zk_from_backend(backend), request, grant, err);
}

static const struct backend_ops zookeeper_ops = {
	.open = open_backend,
	.close = close_backend,
	.connect = connect_session,
	.acquire = acquire,
	.event_fd = event_fd,
	.event = event,
	.renew = renew,
	.verify = verify,
	.release = release,
	.again = again,
	.inspect = zk_inspect,
	.list = zk_list_names,
	.break_hold = zk_break,
	.setup = zk_setup,
	.plan = zk_plan,
	.check = zk_check,
};

extern const struct backend_module dlock_backend_module;
const struct backend_module dlock_backend_module = {
	.version = DLOCK_VERSION,
	.ops = &zookeeper_ops,
};
