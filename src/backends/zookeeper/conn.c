/* SPDX-License-Identifier: MIT */
/* The life of a session, waiting with a deadline, and requests: conn.h. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"

/*
 * The library pauses between two rounds of all servers. If it has no connection after this time, they
 * have refused one.
 */
#define LOOK_MS 100
/* Try the next server if one has not opened the session after this. */
#define SLICE_MOST_MS 1000
/* The part of the time for connecting that is kept to find out why there is no session. */
#define CHECK_MOST_MS 800
/* Free memory at the end of the heap beyond this goes back to the kernel. */
#define LONG_LIST 16384
/*
 * The longest session timeout to ask for. The client library keeps it in an int of
 * milliseconds and multiplies it by 2. The server usually grants less (maxSessionTimeout), and
 * the lease follows from what it grants.
 */
#define SESSION_MOST_MS (INT_MAX / 4)

/* ---- memory ---- */

static void *keep_memory(struct zk_conn *conn, void *memory)
{
	conn->memory = memory_resize(conn->memory, conn->memory_count + 1, sizeof(memory));
	return conn->memory[conn->memory_count++] = memory;
}

void *zk_conn_memory(struct zk_conn *conn, size_t count, size_t size)
{
	return keep_memory(conn, memory_new(count, size));
}

void zk_conn_free(struct zk_conn *conn)
{
	/* The library still has pointers to calls without an answer. */
	while (!conn->pending && conn->memory_count)
		free(conn->memory[--conn->memory_count]);
}

/* ---- news from the library's threads ---- */

void zk_conn_report(struct zk_conn *conn, struct zk_news news)
{
	/* The kernel keeps a write of this size whole. It waits for room, but in zk_conn_close(). */
	while (write(conn->report_fd, &news, sizeof(news)) < 0 && errno == EINTR)
		;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	(void)handle;
	(void)path;
	if (type == ZOO_SESSION_EVENT)
		zk_conn_report(context, (struct zk_news){ .state = state });
}

static int64_t *find_last_contact(struct zk_conn *conn)
{
	return &conn->contacts[conn->contact_count % ZK_CONTACTS];
}

static void take_state(struct zk_conn *conn, int state)
{
	conn->state = state;
	if (state != ZOO_CONNECTED_STATE) {
		conn->eventful = true;
		return;
	}
	/*
	 * Contacts over the last connection prove nothing about this one. But they came before it,
	 * while the library's report of the connection's end may come after it.
	 */
	if (*find_last_contact(conn) > conn->started_ms)
		conn->started_ms = *find_last_contact(conn);
	conn->had_session = true;
	/* zk_conn_close() takes the last news when there is no handle. */
	if (conn->handle)
		conn->ttl_ms = zoo_recv_timeout(conn->handle);
}

/* A request that was sent at sent_ms was answered over this connection. */
static void record_contact(struct zk_conn *conn, int64_t sent_ms)
{
	/* A contact so soon after the last one would make no difference. */
	if (sent_ms - *find_last_contact(conn) < conn->ttl_ms / ZK_CONTACTS)
		return;
	conn->contact_count++;
	*find_last_contact(conn) = sent_ms;
}

/* The main thread takes the answer of a call. */
static void take_answer(struct zk_call *call, int rc)
{
	struct zk_conn *conn = call->conn;

	call->rc = rc;
	conn->pending--;
	keep_memory(conn, call->text);
	/* Servers' codes are below ZAPIERROR, those of the library itself are above it. */
	if (rc == ZOK || rc < ZAPIERROR)
		record_contact(conn, call->sent_ms);
}

void zk_conn_take_news(struct zk_conn *conn)
{
	struct zk_news news;

	while (read(conn->news_fd, &news, sizeof(news)) == sizeof(news)) {
		if (news.call) {
			take_answer(news.call, news.rc);
		} else if (news.watch) {
			conn->eventful = true;
			conn->on_watch(conn, news.watch);
		} else if (news.state) {
			take_state(conn, news.state);
		}
	}
}

/* Wait for news, and take them. Returns 0, 1 if none came until until_ms, or -1 with *err. */
static int await_news(struct zk_conn *conn, int64_t until_ms, struct error *err)
{
	struct error why;

	if (net_wait(conn->news_fd, POLLIN, until_ms, conn->backend->cancel_fd, &why)) {
		if (why.kind == ERROR_UNAVAILABLE)
			return 1;
		*err = why;
		return -1;
	}
	zk_conn_take_news(conn);
	return 0;
}

int zk_conn_fd(struct zk_conn *conn)
{
	zk_conn_take_news(conn);
	if (conn->eventful)
		zk_conn_report(conn, (struct zk_news){ .state = 0 });
	return conn->news_fd;
}

/* ---- the library ---- */

static bool is_connection(int fd)
{
	socklen_t size = sizeof(int);
	int domain;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) &&
	       (domain == AF_INET || domain == AF_INET6);
}

/*
 * List the connections among the descriptors that follow news_fd, one a bit, but for those that
 * were there before the library started. The library's are there, because it gets the lowest free
 * numbers.
 */
static uint64_t list_connections(const struct zk_conn *conn)
{
	uint64_t found = 0;

	for (int i = 0; i < 64; i++)
		found |= (uint64_t)is_connection(conn->news_fd + 1 + i) << i;
	return found & ~conn->foreign;
}

/* End the connection, so that the library connects to another server. */
static void drop_connection(struct zk_conn *conn)
{
	const uint64_t ours = list_connections(conn);
	const int64_t now = clock_boot_ms();
	bool any = false;

	for (int i = 0; i < 64; i++)
		any |= (ours >> i & 1) && !shutdown(conn->news_fd + 1 + i, SHUT_RDWR);
	/* It counts as lost before the library notices. */
	if (any && conn->state == ZOO_CONNECTED_STATE)
		take_state(conn, 0);
	/* The next connection comes after this one. */
	if (any)
		conn->started_ms = now;
}

/* ---- the life of a session ---- */

/* Clear the state of the last session. No thread of the library is running. */
static void reset_session(struct zk_conn *conn)
{
	zk_conn_take_news(conn);
	conn->state = conn->pending = 0;
	conn->had_session = conn->has_auth = conn->eventful = false;
	conn->started_ms = clock_boot_ms();
}

static int start_session(struct zk_conn *conn, int64_t longest_ms, struct error *err)
{
	const int ttl_ms = (int)clock_earlier(longest_ms, SESSION_MOST_MS);
	sigset_t all, before;

	if (zk_net_resolve(conn, err))
		return -1;
	reset_session(conn);
	fcntl(conn->report_fd, F_SETFL, 0);
	conn->foreign = 0;
	conn->foreign = list_connections(conn);
	/* No log. */
	zoo_set_debug_level(0);
	/* One heap for all threads, which returns a long queue's memory: waiters stay small. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, LONG_LIST);
	/* The library's threads inherit the mask, and so get no signal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (conn->tls)
		conn->handle = zookeeper_init_ssl(conn->servers, conn->tls, on_session, ttl_ms, NULL,
						  conn, 0);
	else
		conn->handle = zookeeper_init(conn->servers, on_session, ttl_ms, NULL, conn, 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!conn->handle)
		return error_set(err, ERROR_INTERNAL, errno, "%s: cannot start a session",
				 conn->label);
	/* Addresses are numeric: there are no names to look up. */
	zoo_set_servers_resolution_delay(conn->handle, -1);
	return 0;
}

void zk_conn_close(struct zk_conn *conn)
{
	/* A thread must not wait for room here. What finds none is of no interest any more. */
	fcntl(conn->report_fd, F_SETFL, O_NONBLOCK);
	zk_conn_take_news(conn);
	if (conn->handle)
		zookeeper_close(conn->handle);
	conn->handle = NULL;
	reset_session(conn);
}

void zk_conn_finish(struct zk_conn *conn)
{
	zk_conn_close(conn);
	zk_conn_free(conn);
	free(conn->memory);
	for (size_t i = 0; i < conn->host_count; i++)
		free(conn->hosts[i].name);
	free(conn->hosts);
	memory_free_secret(conn->auth);
	free(conn->user);
	free(conn->tls);
	free(conn->servers);
	close(conn->news_fd);
	close(conn->report_fd);
}

int64_t zk_conn_session(const struct zk_conn *conn)
{
	return conn->handle ? zoo_client_id(conn->handle)->client_id : 0;
}

/* Report a session that has ended. Returns -1. */
static int no_session(struct zk_conn *conn, int state, struct error *err)
{
	const bool expired = state == ZOO_EXPIRED_SESSION_STATE;

	error_set(err, expired ? ERROR_UNAVAILABLE : ERROR_REFUSED, 0, "%s: %s", conn->label,
		  expired ? "the session has expired" : "authentication failed (AuthFailed)");
	if (expired)
		err->errnum = ESTALE;
	return -1;
}

/*
 * Is there a server worth waiting for? Returns 0, or -1 and sets *err. A server that has lost its
 * data serves others and refuses us, without an answer that our session is unknown. When it has
 * done so for the session's time, the session has expired.
 */
static int check_servers(struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	const int found = zk_net_check(conn, deadline_ms, err);

	if (found <= 0 || !conn->had_session) {
		conn->refused_ms = 0;
		return found < 0 ? -1 : 0;
	}
	if (!conn->refused_ms)
		conn->refused_ms = clock_boot_ms();
	if (clock_boot_ms() - conn->refused_ms < conn->ttl_ms)
		return 0;
	return no_session(conn, ZOO_EXPIRED_SESSION_STATE, err);
}

/*
 * Give the user to the library, which sends it to each later server itself. It takes none between
 * two servers. Returns false if it did not.
 */
static bool add_auth(struct zk_conn *conn)
{
	if (conn->auth && !conn->has_auth)
		conn->has_auth = !zoo_add_auth(conn->handle, "digest", conn->auth,
					       (int)strlen(conn->auth), NULL, NULL);
	return !conn->auth || conn->has_auth;
}

/* Wait until there is a session. */
static int await_session(struct zk_conn *conn, struct error *err)
{
	int64_t now = clock_boot_ms(), look_ms = now + LOOK_MS;
	int64_t slice_ms, slice_end_ms, check_ms, end_ms, until_ms;

	end_ms = clock_earlier(conn->deadline_ms, now + conn->backend->connect_timeout_ms);
	check_ms = end_ms - clock_earlier(CHECK_MOST_MS, (end_ms - now) / 4);
	/* Each host gets two slices of the time. */
	slice_ms = clock_earlier((check_ms - now) / (int64_t)conn->host_count / 2, SLICE_MOST_MS);
	slice_end_ms = now + slice_ms;
	for (;;) {
		zk_conn_take_news(conn);
		if (conn->state == ZOO_CONNECTED_STATE && add_auth(conn))
			break;
		if (conn->state == ZOO_EXPIRED_SESSION_STATE ||
		    conn->state == ZOO_AUTH_FAILED_STATE)
			return no_session(conn, conn->state, err);
		now = clock_boot_ms();
		if (now >= look_ms) {
			look_ms = CLOCK_NEVER;
			if (!list_connections(conn) && check_servers(conn, check_ms, err))
				return -1;
		}
		if (now >= check_ms)
			return check_servers(conn, end_ms, err) ? -1 :
			       error_set(err, ERROR_UNAVAILABLE, 0, "%s: no session within the "
					 "time for connecting", conn->label);
		if (now >= slice_end_ms) {
			drop_connection(conn);
			slice_end_ms = now + slice_ms;
		}
		until_ms = clock_earlier(clock_earlier(look_ms, slice_end_ms), check_ms);
		if (await_news(conn, until_ms, err) < 0)
			return -1;
	}
	conn->refused_ms = 0;
	return 0;
}

void zk_conn_begin(struct zk_conn *conn, int64_t ms)
{
	zk_conn_free(conn);
	conn->deadline_ms = clock_boot_ms() + ms;
}

int zk_conn_open(struct zk_conn *conn, int64_t ttl_ms, struct error *err)
{
	if (!conn->handle && start_session(conn, ttl_ms, err))
		return -1;
	if (!await_session(conn, err))
		return 0;
	if (err->kind == ERROR_UNAVAILABLE && err->errnum != ESTALE)
		err->errnum = ENOTCONN;
	/* Without a session to keep, stop the library from connecting. */
	if (!conn->had_session || err->kind == ERROR_REFUSED)
		zk_conn_close(conn);
	return -1;
}

/* ---- waiting ---- */

int zk_conn_wait(struct zk_conn *conn)
{
	const int64_t deadline_ms = clock_earlier(conn->deadline_ms,
						  clock_boot_ms() + conn->backend->timeout_ms);
	int result;

	for (zk_conn_take_news(conn); conn->pending; ) {
		result = await_news(conn, deadline_ms, &conn->why);
		if (!result)
			continue;
		if (result > 0) {
			error_set(&conn->why, ERROR_UNAVAILABLE, 0, "%s: no answer in time",
				  conn->label);
			drop_connection(conn);
		}
		return ZK_UNANSWERED;
	}
	return 0;
}

bool zk_conn_again(struct zk_conn *conn, struct error *err)
{
	if (err->kind != ERROR_UNAVAILABLE || err->errnum == ENOTCONN ||
	    clock_boot_ms() >= conn->deadline_ms)
		return false;
	if (err->errnum == ESTALE)
		zk_conn_close(conn);
	*err = (struct error){ .kind = ERROR_NONE };
	return true;
}

bool zk_conn_fresh(struct zk_conn *conn, struct error *err)
{
	if (zk_conn_lease(conn, clock_boot_ms()) >= conn->ttl_ms / 2)
		return true;
	drop_connection(conn);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: connecting again", conn->label);
	return false;
}

int64_t zk_conn_lease(const struct zk_conn *conn, int64_t sent_ms)
{
	int64_t base_ms = conn->started_ms, left_ms;

	/* Contacts from before this connection are older than its start. */
	for (int i = 0; i < ZK_CONTACTS; i++)
		if (conn->contacts[i] > base_ms && conn->contacts[i] <= sent_ms - conn->ttl_ms / 4)
			base_ms = conn->contacts[i];
	left_ms = conn->ttl_ms - (sent_ms - base_ms);
	return left_ms < 1 ? 1 : left_ms;
}

/* ---- replies, in the library's threads ---- */

/* Hand the call with its reply over to the main thread. */
static void report_reply(struct zk_call *call, int rc)
{
	/* ZooKeeper has no code above ZOK, and ZK_UNANSWERED is ours. */
	rc = rc > ZOK ? ZMARSHALLINGERROR : rc;
	zk_conn_report(call->conn, (struct zk_news){ .call = call, .rc = rc });
}

static void on_void(int rc, const void *data)
{
	report_reply((struct zk_call *)data, rc);
}

static void on_string(int rc, const char *value, const void *data)
{
	(void)value;
	report_reply((struct zk_call *)data, rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
	struct zk_call *call = (struct zk_call *)data;

	if (rc == ZOK && stat)
		call->stat = *stat;
	report_reply(call, rc);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat,
		    const void *data)
{
	struct zk_call *call = (struct zk_call *)data;

	/* A length of -1 means that the node has no data. */
	call->length = rc == ZOK && value && length > 0 ? (size_t)length : 0;
	call->text = memory_new(call->length + 1, 1);
	if (call->length)
		memcpy(call->text, value, call->length);
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
			       (struct zk_news){ .watch = (uint32_t)(uintptr_t)context });
}

/* ---- requests ---- */

static struct zk_call *make_call(struct zk_conn *conn)
{
	struct zk_call *call = zk_conn_memory(conn, 1, sizeof(*call));

	call->conn = conn;
	call->rc = ZK_UNANSWERED;
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

struct zk_call *zk_get(struct zk_conn *conn, const char *path, uint32_t watch)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_awget(conn->handle, path, watch ? on_watch : NULL,
					   (void *)(uintptr_t)watch, on_data, call));
}

struct zk_call *zk_list(struct zk_conn *conn, const char *path, uint32_t watch)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_awget_children2(conn->handle, path, watch ? on_watch : NULL,
						     (void *)(uintptr_t)watch, on_names, call));
}

struct zk_call *zk_set(struct zk_conn *conn, const char *path, const char *text,
		       int32_t version)
{
	struct zk_call *call = make_call(conn);

	return finish_send(call, zoo_aset(conn->handle, path, text, (int)strlen(text), version,
					  on_stat, call));
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

static struct zk_call *send_ops(struct zk_call *call, int count)
{
	return finish_send(call, zoo_amulti(call->conn->handle, count, call->ops, call->results,
					    on_void, call));
}

static struct zk_call *send_pair(struct zk_call *call, const struct zk_pair *pair)
{
	return send_ops(call, pair->shadow[0] ? 2 : 1);
}

struct zk_call *zk_create_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       const char *text)
{
	struct zk_call *call = make_call(conn);
	const char *const paths[] = { pair->node, pair->shadow };
	const char *const texts[] = { text, "" };

	for (int i = 0; i < 2; i++)
		zoo_create_op_init(&call->ops[i], paths[i], texts[i], (int)strlen(texts[i]),
				   choose_acl(conn), ZOO_EPHEMERAL_SEQUENTIAL, NULL, 0);
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

struct zk_call *zk_delete_directory(struct zk_conn *conn, const char *path)
{
	struct zk_call *call = make_call(conn);
	char child[ZK_PATH_SIZE + 8];

	/* An ephemeral node cannot have a child. */
	snprintf(child, sizeof(child), "%s/dlock", path);
	zoo_create_op_init(&call->ops[0], child, "", 0, choose_acl(conn), ZOO_PERSISTENT, NULL, 0);
	zoo_delete_op_init(&call->ops[1], child, -1);
	zoo_delete_op_init(&call->ops[2], path, -1);
	return send_ops(call, 3);
}

struct zk_call *zk_check_pair(struct zk_conn *conn, const struct zk_pair *pair)
{
	struct zk_call *call = make_call(conn);

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
	/* zk_conn_open() then reports that the server refused the user. */
	case ZAUTHFAILED:
	/* Both follow our write whose answer was lost. */
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
