/* SPDX-License-Identifier: MIT */
/*
 * Locks in ZooKeeper, on libzookeeper_mt.
 *
 * A lock is a directory, <root>/<name>, a container, which the server removes when it has been
 * empty for a while. A process that wants the lock makes an ephemeral sequential node in it, an
 * entry of the queue, in Curator's layout (layout.h). The same transaction makes the shadow, by
 * which Curator's other recipe sees the entry. An entry holds when no entry before it excludes it.
 * The fence is the node's czxid.
 *
 * The session decides who lives, as with all users of ZooKeeper: the entry of a client that is
 * dead, stopped or cut off ends with its session. A process that is not killed ends its session
 * before it ends.
 *
 * A waiter watches the end of the nearest entry that blocks it. When that has ended, the waiter
 * claims the lock by a write into its own entry, and reads the queue, in one packet. The write
 * proves the entry and its session. It holds if no entry blocks it then. The order of write and
 * reading does not matter, because entries before it only go away. A slot that waits behind slots
 * alone watches the last S of them: any other ends leave S entries before it, so it cannot miss the
 * end that lets it in.
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
 * 3/5 of the session or more; without that contact it could be 4/9. A waiter has a contact each
 * HOLD_RETRY_MS, or each quarter of the session if that is less. A claim and a renewal are
 * transactions that check that the nodes are there, because that needs a majority. A sync does not:
 * a leader that has lost its majority without noticing would answer it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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

	zk->one_node = strategy && !strcmp(strategy, "node");
	if (!strategy || zk->one_node || !strcmp(strategy, "queue"))
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
	zk->base.can = zk->one_node ? 0 : BACKEND_SHARED | BACKEND_SLOTS;
	return &zk->base;
}

/* Connect. A session without nodes expires when this process is killed. */
static int connect_session(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum zk_end end = zk_conn_begin(&zk->conn, backend->connect_timeout_ms, request->ttl_ms);

	return zk_conn_try(&zk->conn, true, &end, err) ? 0 : -1;
}

/* ---- renewing and releasing, by proof ---- */

/*
 * Prove by a transaction, which a majority confirms, that both nodes are there and that our session
 * made them. Stores the text, if there is one.
 */
static enum zk_end prove_hold(struct zk_backend *zk, const char *text, struct error *err)
{
	struct zk_own *own = &zk->own;
	char data[ZK_RECORD_SIZE];
	struct zk_call *proof, *node;
	enum zk_end end;

	if (text)
		zk_record_write(data, zk->one_node ? own->uuid : NULL, own->taken_ms, text);
	own->unwatched = false;
	own->sent_ms = clock_boot_ms();
	proof = zk_prove_pair(&zk->conn, &own->at, text ? data : NULL);
	node = zk_list(&zk->conn, own->at.node, &own->unwatched);
	end = zk_own_await(zk, proof, "prove", err);
	return end ? end : zk_own_await(zk, node, "prove", err);
}

static enum outcome renew_hold(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum zk_end end;

	if (!zk->own.held)
		return OUTCOME_LOST;
	/* A server that hangs must leave time to ask another one. */
	end = zk_conn_begin(&zk->conn, clock_earlier(zk->base.timeout_ms, zk->conn.ttl_ms / 3),
			    request->ttl_ms);
	while (zk_conn_try(&zk->conn, false, &end, err)) {
		end = prove_hold(zk, zk->one_node ? NULL : request->text, err);
		/* With strategy node, the path may have become that of another holder's node. */
		if (!end && zk->one_node && request->text)
			end = prove_hold(zk, request->text, err);
	}
	if (end)
		return end == ZK_ENDED ? OUTCOME_LOST : OUTCOME_ERROR;
	zk_grant(zk, grant);
	/* Halfway to the next renewal, which needs a contact that is not too old. */
	grant->event_ms = zk->own.contact_ms = grant->sent_ms + grant->ttl_ms / 6;
	return OUTCOME_HELD;
}

static enum outcome release_lock(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	const struct zk_own *own = &zk->own;
	enum zk_end end = zk_conn_begin(&zk->conn, zk->base.timeout_ms, request->ttl_ms);
	struct error ignored;
	enum outcome outcome;

	/*
	 * An entry that waits, or whose fate is not known, ends with the session, which only a
	 * connected client can end. But who gives up does not wait for a server that is down.
	 */
	if (!own->held && (own->at.node[0] || own->maybe))
		zk_conn_try(&zk->conn, true, &end, &ignored);
	while (own->held && zk_conn_try(&zk->conn, false, &end, err)) {
		/* A delete by the path of strategy node might remove the next holder's node. */
		end = zk->one_node ? prove_hold(zk, NULL, err)
				   : zk_own_await(zk, zk_delete_pair(&zk->conn, &own->at, -1),
						  "remove", err);
		backend->resent |= end == ZK_AGAIN;
	}
	if (own->held && end && end != ZK_ENDED)
		return OUTCOME_ERROR;
	outcome = own->held && !end ? OUTCOME_HELD : OUTCOME_LOST;
	zk->done = true;
	zk_own_leave(zk);
	return outcome;
}

static int get_fd(struct backend *backend)
{
	return zk_from_backend(backend)->conn.news[0];
}

static const struct backend_ops zookeeper_ops = {
	.open = open_backend,
	.close = close_backend,
	.connect = connect_session,
	.acquire = zk_acquire,
	.fd = get_fd,
	.event = zk_event,
	.renew = renew_hold,
	.release = release_lock,
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
