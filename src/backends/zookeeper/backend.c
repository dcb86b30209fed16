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
 * The suspect is the last entry before a waiter's own that could hold. A waiter learns in time that
 * the suspect changes, because it also watches the end of another entry, and then reads the queue
 * again: near the head, that of the suspect; far behind, that of the entry before the nearest one,
 * because the nearest one may be dead when its turn comes. All else is found by a check each
 * HOLD_RETRY_MS, and less often far behind. A slot watches the directory instead once any end may
 * let it in.
 *
 * tests/model/line.pml is the model of this queue. In acquire.c, its try() is ensure_entry() and
 * send_try(), its take() is the write of "held" in send_try(), and its leave() of a late one is the
 * delete in check_suspect(). Its release() is the delete in release_own(), and its send() are the
 * server's watches.
 */
#include <errno.h>
#include <poll.h>
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
/* Between two attempts to connect. */
#define PAUSE_MS 50

static void close_backend(struct backend *backend)
{
	struct zk_backend *zk = zk_from_backend(backend);

	zk_own_leave(zk);
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

/* ---- renewing and releasing, by proof ---- */

static enum outcome report_lost(const struct zk_backend *zk, const char *what, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", zk->conn.label, what);
	return OUTCOME_LOST;
}

/* Translate the result of a request about the node of a hold. */
static enum outcome outcome_of(const struct zk_backend *zk, int rc, const char *what,
			       struct error *err)
{
	switch (rc) {
	case ZOK:
		return OUTCOME_HELD;
	case ZNONODE:
		return report_lost(zk, "its node was removed", err);
	case ZSESSIONEXPIRED:
		return report_lost(zk, "the session has expired", err);
	default:
		zk_call_error(&zk->conn, rc, what, zk->own.at.node, err);
		return OUTCOME_ERROR;
	}
}

/* Wait for the session of the hold. HELD: it is connected. LOST: it has expired. */
static enum outcome open_session(struct zk_backend *zk, const struct request *request,
				 struct error *err)
{
	if (!zk_conn_open(&zk->conn, request->ttl_ms, err))
		return OUTCOME_HELD;
	if (err->errnum != ESTALE)
		return OUTCOME_ERROR;
	zk_own_leave(zk);
	return report_lost(zk, "the session has expired", err);
}

/* Store the holder record. Nobody else writes the data of our node. */
static enum outcome write_text(struct zk_backend *zk, const char *text, struct error *err)
{
	struct zk_own *own = &zk->own;
	char data[ZK_RECORD_SIZE];

	if (!text)
		return OUTCOME_HELD;
	zk_record_write(data, zk->one_node ? own->uuid : NULL, ZK_HELD, own->taken_ms, text);
	return outcome_of(zk, zk_call_wait(zk_set(&zk->conn, own->at.node, data, -1)), "write",
			  err);
}

/*
 * Prove by a transaction, which a majority confirms, that both nodes are there and that our session
 * made them.
 */
static enum outcome prove_hold(struct zk_backend *zk, const struct request *request,
			       struct error *err)
{
	enum outcome outcome = open_session(zk, request, err);
	struct zk_call *check, *node;
	int rc;

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (!zk->own.watch)
		zk->own.watch = ++zk->conn.last_watch;
	zk->own.sent_ms = clock_boot_ms();
	check = zk_check_pair(&zk->conn, &zk->own.at);
	node = zk_list(&zk->conn, zk->own.at.node, zk->own.watch);
	rc = zk_call_wait(check);
	outcome = outcome_of(zk, rc == ZOK ? node->rc : rc, "prove", err);
	if (outcome == OUTCOME_HELD && node->stat.ephemeralOwner != zk->conn.session)
		outcome = report_lost(zk, "its node belongs to another session", err);
	return outcome;
}

static enum outcome renew_hold(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum outcome outcome;

	if (!zk->own.held)
		return OUTCOME_LOST;
	/* A server that hangs must leave time to ask another one. */
	zk_conn_begin(&zk->conn, clock_earlier(zk->base.timeout_ms, zk->conn.ttl_ms / 3));
	do {
		outcome = prove_hold(zk, request, err);
		if (outcome != OUTCOME_HELD)
			continue;
		zk_grant(zk, grant);
		/* Halfway to the next renewal, which needs a contact that is not too old. */
		grant->event_ms = zk->own.contact_ms = grant->sent_ms + grant->ttl_ms / 6;
		outcome = write_text(zk, request->text, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

static enum outcome release_own(struct zk_backend *zk, const struct request *request,
				struct error *err)
{
	enum outcome outcome = zk->one_node ? prove_hold(zk, request, err)
					    : open_session(zk, request, err);

	/* The session's end removes it. A delete by path might remove the next holder's node. */
	if (outcome != OUTCOME_HELD || zk->one_node)
		return outcome;
	return outcome_of(zk, zk_call_wait(zk_delete_pair(&zk->conn, &zk->own.at, -1)), "remove",
			  err);
}

/* Wait before another attempt. A server that is being restarted gets all the time there is. */
static bool try_again(struct zk_backend *zk, struct error *err)
{
	if (err->errnum == ENOTCONN && clock_boot_ms() < zk->conn.deadline_ms - PAUSE_MS) {
		poll(NULL, 0, PAUSE_MS);
		err->errnum = 0;
	}
	return zk_conn_again(&zk->conn, err);
}

static enum outcome release_lock(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	char uuid[ZK_UUID_SIZE];
	struct error ignored;
	enum outcome outcome;

	backend->resent = false;
	zk_conn_begin(&zk->conn, zk->base.timeout_ms);
	if (!zk->own.held && (zk->own.at.node[0] || zk->own.maybe)) {
		/* An entry that waits, or whose fate is not known, ends with the session. */
		zk_conn_open(&zk->conn, request->ttl_ms, &ignored);
		outcome = OUTCOME_LOST;
	} else if (!zk->own.held) {
		/* The keeper of this token was killed. */
		zk_uuid(request->token, uuid);
		outcome = zk_remove(zk, request->name, uuid, 0, err);
	} else {
		while ((outcome = release_own(zk, request, err)) == OUTCOME_ERROR &&
		       try_again(zk, err))
			backend->resent = true;
	}
	zk->done = outcome != OUTCOME_ERROR;
	if (zk->done)
		zk_own_leave(zk);
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
