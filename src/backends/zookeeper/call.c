/* SPDX-License-Identifier: MIT */
#include "conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

/* ---- in the library's threads ---- */

/* The reply is in the call, which belongs to the main thread from now on. */
static void finish(struct zk_call *call, int rc)
{
	/* ZooKeeper has no code above ZOK, and ZK_UNANSWERED is ours. */
	rc = rc > ZOK ? ZMARSHALLINGERROR : rc;
	zk_conn_report(call->conn, (struct zk_news){ .call = call, .rc = rc });
}

static struct zk_call *call_of(const void *data)
{
	return (struct zk_call *)data;
}

static void on_void(int rc, const void *data)
{
	finish(call_of(data), rc);
}

static void on_string(int rc, const char *value, const void *data)
{
	(void)value;
	finish(call_of(data), rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
	struct zk_call *call = call_of(data);

	if (rc == ZOK && stat)
		call->stat = *stat;
	finish(call, rc);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat,
		    const void *data)
{
	struct zk_call *call = call_of(data);

	/* A length of -1 means that the node has no data. */
	call->length = rc == ZOK && value && length > 0 ? (size_t)length : 0;
	call->text = memory_new(call->length + 1, 1);
	if (call->length)
		memcpy(call->text, value, call->length);
	on_stat(rc, stat, data);
}

/*
 * A string without a length becomes NULL in the library, and so does a list that is too large for
 * the memory. No server has a node like that.
 */
static bool has_null(const struct String_vector *names)
{
	for (int32_t i = 0; i < names->count; i++)
		if (!names->data || !names->data[i])
			return true;
	return false;
}

static void copy_names(struct zk_call *call, const struct String_vector *names)
{
	size_t size = 1;
	char *out;

	for (int32_t i = 0; i < names->count; i++)
		size += strlen(names->data[i]) + 1;
	out = call->text = memory_new(size, 1);
	for (int32_t i = 0; i < names->count; i++)
		out = stpcpy(out, names->data[i]) + 1;
	call->count = names->count > 0 ? (size_t)names->count : 0;
	call->length = size - 1;
}

static void on_names(int rc, const struct String_vector *names, const struct Stat *stat,
		     const void *data)
{
	if (rc == ZOK && names && has_null(names))
		rc = ZMARSHALLINGERROR;
	if (rc == ZOK && names)
		copy_names(call_of(data), names);
	on_stat(rc, stat, data);
}

static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	(void)state;
	(void)path;
	/* Events of the session go to every watch; on_session() takes them. */
	if (type != ZOO_SESSION_EVENT)
		zk_conn_report((struct zk_conn *)zoo_get_context(handle),
			       (struct zk_news){ .watch = (uint32_t)(uintptr_t)context });
}

/* ---- sending ---- */

static struct zk_call *prepare(struct zk_conn *conn)
{
	struct zk_call *call = memory_new(1, sizeof(*call));

	call->conn = conn;
	call->rc = ZK_UNANSWERED;
	call->sent_ms = clock_boot_ms();
	conn->pending++;
	return call;
}

/* rc is that of the function that sends: when it has failed, no answer will come. */
static struct zk_call *sent(struct zk_call *call, int rc)
{
	if (rc != ZOK)
		zk_conn_answered(call, rc);
	return call;
}

static watcher_fn watcher(uint32_t watch)
{
	return watch ? on_watch : NULL;
}

static void *number(uint32_t watch)
{
	return (void *)(uintptr_t)watch;
}

static const struct ACL_vector *acl(const struct zk_conn *conn)
{
	return conn->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

struct zk_call *zk_get(struct zk_conn *conn, const char *path, uint32_t watch)
{
	struct zk_call *call = prepare(conn);

	return sent(call, zoo_awget(conn->handle, path, watcher(watch), number(watch), on_data,
				    call));
}

struct zk_call *zk_list(struct zk_conn *conn, const char *path, uint32_t watch)
{
	struct zk_call *call = prepare(conn);

	return sent(call, zoo_awget_children2(conn->handle, path, watcher(watch),
					      number(watch), on_names, call));
}

struct zk_call *zk_set(struct zk_conn *conn, const char *path, const char *text,
		       int32_t version)
{
	struct zk_call *call = prepare(conn);

	return sent(call, zoo_aset(conn->handle, path, text, (int)strlen(text), version,
				   on_stat, call));
}

struct zk_call *zk_create(struct zk_conn *conn, const char *path, const char *text, int mode)
{
	struct zk_call *call = prepare(conn);

	return sent(call, zoo_acreate(conn->handle, path, text, (int)strlen(text), acl(conn),
				      mode, on_string, call));
}

struct zk_call *zk_sync(struct zk_conn *conn, const char *path)
{
	struct zk_call *call = prepare(conn);

	return sent(call, zoo_async(conn->handle, path, on_string, call));
}

static struct zk_call *send_pair(struct zk_call *call, const struct zk_pair *pair)
{
	return sent(call, zoo_amulti(call->conn->handle, pair->shadow[0] ? 2 : 1, call->ops,
				     call->results, on_void, call));
}

struct zk_call *zk_create_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       const char *text)
{
	struct zk_call *call = prepare(conn);
	const char *const paths[] = { pair->node, pair->shadow };
	const char *const texts[] = { text, "" };

	for (int i = 0; i < 2; i++)
		zoo_create_op_init(&call->ops[i], paths[i], texts[i], (int)strlen(texts[i]),
				   acl(conn), ZOO_EPHEMERAL_SEQUENTIAL, NULL, 0);
	return send_pair(call, pair);
}

struct zk_call *zk_delete_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       int32_t version)
{
	struct zk_call *call = prepare(conn);

	zoo_delete_op_init(&call->ops[0], pair->node, version);
	zoo_delete_op_init(&call->ops[1], pair->shadow, -1);
	return send_pair(call, pair);
}

struct zk_call *zk_check_pair(struct zk_conn *conn, const struct zk_pair *pair)
{
	struct zk_call *call = prepare(conn);

	zoo_check_op_init(&call->ops[0], pair->node, -1);
	zoo_check_op_init(&call->ops[1], pair->shadow, -1);
	return send_pair(call, pair);
}

/* ---- answers ---- */

int zk_call_wait(struct zk_call *call)
{
	zk_conn_wait(call->conn);
	return call->rc;
}

int zk_call_end(struct zk_call *call)
{
	int rc = zk_call_wait(call);

	zk_call_free(call);
	return rc;
}

/* ---- errors ---- */

int zk_call_error(const struct zk_conn *conn, int rc, const char *what, const char *path,
		  struct error *err)
{
	switch (rc) {
	case ZK_UNANSWERED:
		*err = conn->why;
		break;
	case ZNOAUTH:
		error_set(err, ERROR_REFUSED, 0, conn->user
			  ? "%s: not allowed to %s %.160s (NoAuth) as user '%.60s': check user "
			    "and password, or the node's ACL"
			  : "%s: not allowed to %s %.160s (NoAuth): its ACL wants a user and "
			    "password, as in zookeeper://USER:PASSWORD@HOST", conn->label, what,
			  path, conn->user);
		break;
	case ZAUTHFAILED:
		error_set(err, ERROR_REFUSED, 0, "%s: authentication failed (AuthFailed)",
			  conn->label);
		break;
	case ZSESSIONCLOSEDREQUIRESASLAUTH:
		error_set(err, ERROR_REFUSED, 0, "%s: the server wants authentication%s",
			  conn->label, conn->user ? " of another kind" : ": give USER:PASSWORD@");
		break;
	case ZCONNECTIONLOSS:
	case ZOPERATIONTIMEOUT:
	case ZCLOSING:
	case ZINVALIDSTATE:
	case ZSESSIONMOVED:
	case ZSESSIONEXPIRED:
	case ZTHROTTLEDOP:
	/* Both come of a write of ours whose answer was lost. */
	case ZBADVERSION:
	case ZRUNTIMEINCONSISTENCY:
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: cannot %s: %s", conn->label, what,
			  zerror(rc));
		break;
	default:
		error_set(err, ERROR_REFUSED, 0, "%s: cannot %s %.200s: %s", conn->label, what,
			  path, zerror(rc));
		break;
	}
	return -1;
}
