/* SPDX-License-Identifier: MIT */
/* Requests, their answers and errors: calls.h. */
#include "calls.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

/* ---- replies, in the library's threads ---- */

/* Hand the call with its reply over to the main thread. */
static void on_void(int rc, const void *data)
{
	struct zk_call *call = (struct zk_call *)data;

	zk_conn_report(call->conn, (struct zk_news){ .call = call, .rc = rc });
}

static void on_string(int rc, const char *value, const void *data)
{
	(void)value;
	on_void(rc, data);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
	struct zk_call *call = (struct zk_call *)data;

	if (rc == ZOK && stat)
		call->stat = *stat;
	on_void(rc, data);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat,
		    const void *data)
{
	struct zk_call *call = (struct zk_call *)data;

	/* A length of -1 means that the node has no data. */
	call->text = memory_copy_part(value ? value : "", length > 0 ? (size_t)length : 0);
	on_stat(rc, stat, data);
}

/*
 * Returns ZOK. The library returns NULL for a string without a length, and for a list that is too
 * large for the memory. No server has a node like that.
 */
static int copy_names(struct zk_call *call, const struct String_vector *names)
{
	size_t size = 1;
	char *out;

	for (int32_t i = 0; i < names->count; i++) {
		if (!names->data || !names->data[i])
			return ZMARSHALLINGERROR;
		size += strlen(names->data[i]) + 1;
	}
	out = call->text = memory_new(size, 1);
	for (int32_t i = 0; i < names->count; i++)
		out = stpcpy(out, names->data[i]) + 1;
	call->count = names->count > 0 ? (size_t)names->count : 0;
	return ZOK;
}

static void on_names(int rc, const struct String_vector *names, const struct Stat *stat,
		     const void *data)
{
	if (rc == ZOK && names)
		rc = copy_names((struct zk_call *)data, names);
	on_stat(rc, stat, data);
}

static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	(void)state;
	(void)path;
	/* Events of the session go to every watch; on_session() takes them. */
	if (type != ZOO_SESSION_EVENT)
		zk_conn_report((struct zk_conn *)zoo_get_context(handle),
			       (struct zk_news){ .fired = context });
}

/* ---- requests ---- */

static struct zk_call *make_call(struct zk_conn *conn)
{
	struct zk_call *call = zk_conn_memory(conn, 1, sizeof(*call));

	call->conn = conn;
	call->rc = ZOPERATIONTIMEOUT;
	call->sent_ms = clock_boot_ms();
	conn->pending++;
	return call;
}

/* rc: the result of the function that sends. After a failure no answer will come. */
static struct zk_call *finish_send(struct zk_call *call, int rc)
{
	if (rc != ZOK) {
		call->rc = rc;
		call->conn->pending--;
	}
	return call;
}

static const struct ACL_vector *choose_acl(const struct zk_conn *conn)
{
	return conn->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

struct zk_call *zk_get(struct zk_conn *conn, const char *path, bool *fired)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_awget(conn->handle, path, fired ? on_watch : NULL, fired,
					   on_data, call));
}

struct zk_call *zk_list(struct zk_conn *conn, const char *path, bool *fired)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_awget_children2(conn->handle, path, fired ? on_watch : NULL,
						     fired, on_names, call));
}

struct zk_call *zk_create(struct zk_conn *conn, const char *path, const char *text, int mode)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_acreate(conn->handle, path, text, (int)strlen(text),
					     choose_acl(conn), mode, on_string, call));
}

struct zk_call *zk_sync(struct zk_conn *conn, const char *path)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_async(conn->handle, path, on_string, call));
}

static struct zk_call *send_pair(struct zk_call *call, const struct zk_pair *pair)
{
	/* In a session that has just ended, zoo_amulti() frees a pointer that it has not set. */
	int rc = is_unrecoverable(call->conn->handle);

	if (rc == ZOK)
		rc = zoo_amulti(call->conn->handle, pair->shadow[0] ? 2 : 1, call->ops,
				call->results, on_void, call);
	return finish_send(call, rc);
}

struct zk_call *zk_create_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       const char *text)
{
	struct zk_call *call = make_call(conn);

	zoo_create_op_init(&call->ops[0], pair->node, text, (int)strlen(text), choose_acl(conn),
			   ZOO_EPHEMERAL_SEQUENTIAL, NULL, 0);
	zoo_create_op_init(&call->ops[1], pair->shadow, "", 0, choose_acl(conn),
			   ZOO_EPHEMERAL_SEQUENTIAL, NULL, 0);
	return send_pair(call, pair);
}

struct zk_call *zk_delete_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       int32_t version)
{
	struct zk_call *call = make_call(conn);

	zoo_delete_op_init(&call->ops[0], pair->node, version);
	zoo_delete_op_init(&call->ops[1], pair->shadow, -1);
	return send_pair(call, pair);
}

struct zk_call *zk_prove_pair(struct zk_conn *conn, const struct zk_pair *pair, const char *text)
{
	struct zk_call *call = make_call(conn);

	if (text)
		zoo_set_op_init(&call->ops[0], pair->node, text, (int)strlen(text), -1,
				&call->stat);
	else
		zoo_check_op_init(&call->ops[0], pair->node, -1);
	zoo_check_op_init(&call->ops[1], pair->shadow, -1);
	return send_pair(call, pair);
}

int zk_call_wait(struct zk_call *call)
{
	zk_conn_wait(call->conn);
	return call->rc;
}

/* ---- errors ---- */

bool zk_call_counts(int rc)
{
	return rc == ZOK || rc == ZNONODE || rc == ZNOAUTH || rc == ZBADARGUMENTS;
}

/* Results that say nothing about the node: the request may be repeated. */
static const int passing[] = {
	ZCONNECTIONLOSS, ZCLOSING, ZINVALIDSTATE, ZSESSIONMOVED, ZTHROTTLEDOP,
	/* zk_conn_open() then reports that the server refused the user. */
	ZAUTHFAILED,
	/* Both follow our write whose answer was lost. */
	ZBADVERSION, ZRUNTIMEINCONSISTENCY,
};

enum zk_end zk_call_error(const struct zk_conn *conn, int rc, const char *what, const char *path,
			  struct error *err)
{
	if (rc == ZOPERATIONTIMEOUT) {
		*err = conn->why;
		return err->kind == ERROR_UNAVAILABLE ? ZK_AGAIN : ZK_FAILED;
	}
	if (rc == ZSESSIONEXPIRED)
		return zk_report_ended(conn, "the session has expired", err);
	for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
		if (rc == passing[i]) {
			error_set(err, ERROR_UNAVAILABLE, 0, "%s: cannot %s: %s (%d)", conn->label,
				  what, zerror(rc), rc);
			return ZK_AGAIN;
		}
	if (rc == ZNOAUTH || rc == ZSESSIONCLOSEDREQUIRESASLAUTH)
		error_set(err, ERROR_REFUSED, 0, conn->user
			  ? "%s: not allowed to %s %.160s (NoAuth) as user '%.60s': check user and "
			    "password, the node's ACL, and what the server demands"
			  : "%s: not allowed to %s %.160s (NoAuth): its ACL or the server wants a "
			    "user and password: zookeeper://USER:PASSWORD@HOST",
			  conn->label, what, path, conn->user);
	else
		/* The library takes a code above 0, which no server has, for errno. */
		error_set(err, ERROR_REFUSED, 0, "%s: cannot %s %.200s: %s (%d)", conn->label,
			  what, path, rc > 0 ? "unknown error" : zerror(rc), rc);
	return ZK_FAILED;
}

enum zk_end zk_report_changed(const struct zk_conn *conn, const char *path, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: %.200s is created and removed again and again",
		  conn->label, path);
	return ZK_AGAIN;
}
