/* SPDX-License-Identifier: MIT */
/* The servers, the life of a session, waiting with a deadline, and requests: conn.h. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"

/*
 * The library pauses between two rounds of all servers. If it has no connection after this time,
 * they have refused one. Until twice this time look again, because a round may have just begun.
 */
#define LOOK_MS 100
#define LOOK_AGAIN_MS 5
/* Try the next server if the first has not opened the session after this. */
#define SLICE_MOST_MS 1000
/* The part of the time for connecting that is kept to find out why there is no session. */
#define CHECK_MOST_MS 800
#define DEFAULT_PORT 2181
/* An election takes about this long; then there may be a leader. */
#define ELECTION_MS 1000
/* More than the pipe has room for. */
#define NEWS_MOST 4096

/* Only in a library that was built with OpenSSL. */
extern zhandle_t *zookeeper_init_ssl(const char *, const char *, watcher_fn, int,
				     const clientid_t *, void *, int) __attribute__((weak));

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
	/* The kernel keeps a write of this size whole. It waits for room. */
	while (write(conn->news[1], &news, sizeof(news)) < 0 && errno == EINTR)
		;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	(void)handle;
	(void)path;
	if (type == ZOO_SESSION_EVENT)
		zk_conn_report(context, (struct zk_news){ .state = state });
}

static void take_state(struct zk_conn *conn, int state)
{
	conn->state = state;
	/*
	 * Contacts over the last connection prove nothing about this one. But they came before it,
	 * while the library's report of the connection's end may come after it.
	 */
	if (state != ZOO_CONNECTED_STATE)
		conn->eventful = true;
	else if (conn->contacts[0] > conn->started_ms)
		conn->started_ms = conn->contacts[0];
}

/* A request that was sent at sent_ms was answered over this connection. */
static void record_contact(struct zk_conn *conn, int64_t sent_ms)
{
	/* A contact so soon after the last one would make no difference. */
	if (sent_ms - conn->contacts[0] < conn->ttl_ms / ZK_CONTACTS)
		return;
	memmove(&conn->contacts[1], conn->contacts, (ZK_CONTACTS - 1) * sizeof(sent_ms));
	conn->contacts[0] = sent_ms;
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

	/* A server that sends events without end must not keep the process here. */
	for (int i = 0; i < NEWS_MOST; i++) {
		if (read(conn->news[0], &news, sizeof(news)) != sizeof(news))
			break;
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

/* Wait for news, and take them. Returns 0, or -1 and sets *err: ERROR_UNAVAILABLE if none came. */
static int await_news(struct zk_conn *conn, int64_t until_ms, struct error *err)
{
	if (net_wait(conn->news[0], POLLIN, until_ms, conn->backend->cancel_fd, err))
		return -1;
	zk_conn_take_news(conn);
	return 0;
}

int zk_conn_fd(struct zk_conn *conn)
{
	zk_conn_take_news(conn);
	/* The library's threads may fill the pipe, so this thread writes nothing into it. */
	return conn->eventful ? conn->ready_fd : conn->news[0];
}

/* ---- why there is no session ---- */

/* Ask in clear text. With TLS, only connect, and the answer is "". Returns 0, or -1 and *err. */
static int read_answer(const struct zk_conn *conn, const struct uri_host *host,
		       char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err)
{
	static const char word[] = "srvr\n";
	const int cancel_fd = conn->backend->cancel_fd;
	const int fd = net_connect(host->name, host->port, deadline_ms, cancel_fd, err);
	int failed = fd < 0 ? -1 : 0;
	size_t used = 0;
	ssize_t n = -1;

	if (!failed && !conn->tls)
		n = send(fd, word, strlen(word), MSG_NOSIGNAL);
	while (n > 0 && used < ZK_ANSWER_SIZE - 1) {
		failed = net_wait(fd, POLLIN, deadline_ms, cancel_fd, err);
		n = failed ? 0 : recv(fd, answer + used, ZK_ANSWER_SIZE - 1 - used, 0);
		used += n > 0 ? (size_t)n : 0;
	}
	answer[used] = '\0';
	if (fd >= 0)
		close(fd);
	return failed;
}

int zk_conn_ask(const struct zk_conn *conn, const struct uri_host *host,
		char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err)
{
	int result = read_answer(conn, host, answer, deadline_ms, err);
	const bool serves = conn->tls || strstr(answer, "Mode:") || strstr(answer, "whitelist");
	char label[URI_HOST_SIZE];

	if (!result && strstr(answer, "not currently serving")) {
		error_set(err, ERROR_UNAVAILABLE, 0, "does not serve: it has no quorum");
		result = 1;
	} else if (!result && !serves) {
		result = error_set(err, ERROR_UNAVAILABLE, 0, "is no ZooKeeper server, or takes no "
				   "more connections");
	}
	if (result)
		error_prefix(err, "zookeeper %s",
			     uri_host_text(host->name, host->port, label, sizeof(label)));
	return result;
}

/* Report a session that has ended. Returns -1. */
static int no_session(struct zk_conn *conn, int state, struct error *err)
{
	const bool expired = state == ZOO_EXPIRED_SESSION_STATE;

	error_set(err, expired ? ERROR_UNAVAILABLE : ERROR_REFUSED, 0, "%s: %s", conn->label,
		  expired ? "the session has expired" : "authentication failed (AuthFailed)");
	err->errnum = expired ? ESTALE : 0;
	return -1;
}

/*
 * A server serves. Returns 0, or -1 and sets *err. A server that has lost its data serves others
 * and refuses us, without an answer that our session is unknown. When it has done so for the
 * session's time, the session has expired.
 */
static int note_refusal(struct zk_conn *conn, struct error *err)
{
	if (!conn->refused_ms)
		conn->refused_ms = clock_boot_ms();
	if (!conn->session || clock_boot_ms() - conn->refused_ms < conn->ttl_ms)
		return 0;
	return no_session(conn, ZOO_EXPIRED_SESSION_STATE, err);
}

/*
 * Is there a server that serves, or may serve after an election? Asks until deadline_ms at most.
 * Returns 0, or -1, and then *err names a server and what is wrong with it.
 */
static int check_servers(struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	char answer[ZK_ANSWER_SIZE];
	bool no_quorum = false;
	struct error why;
	int64_t now;
	int result;

	for (size_t i = 0; i < conn->host_count; i++) {
		now = clock_boot_ms();
		result = zk_conn_ask(conn, &conn->hosts[i], answer, now + (deadline_ms - now) /
				     (int64_t)(conn->host_count - i), &why);
		if (!result)
			return note_refusal(conn, err);
		/* The best reason names a server that answers. */
		if (!i || (result > 0 && !no_quorum) || why.kind == ERROR_CANCELLED)
			*err = why;
		if (why.kind == ERROR_CANCELLED)
			return -1;
		no_quorum |= result > 0;
	}
	conn->refused_ms = 0;
	return no_quorum && clock_boot_ms() < deadline_ms - ELECTION_MS ? 0 : -1;
}

/* ---- addresses ---- */

/* Add "ADDRESS:PORT" to the list, without brackets, as the library wants it. Returns the list. */
static char *add_server(char *list, const struct net_address *address, uint16_t port)
{
	char text[NI_MAXHOST], *longer;

	if (getnameinfo((const struct sockaddr *)&address->address, address->length, text,
			sizeof(text), NULL, 0, NI_NUMERICHOST))
		return list;
	longer = memory_format("%s%s%s:%u", list ? list : "", list ? "," : "", text,
			       (unsigned)port);
	free(list);
	return longer;
}

/*
 * Look up the hosts' addresses, once. The library gets numeric ones, because it would block to look
 * up names between one server and the next. Returns a list, which the caller frees, or NULL and
 * sets *err if none is found.
 */
static char *resolve_hosts(const struct zk_conn *conn, struct error *err)
{
	struct net_address found[NET_ADDRESSES];
	char label[URI_HOST_SIZE], *list = NULL;

	for (size_t i = 0; i < conn->host_count; i++) {
		const struct uri_host *host = &conn->hosts[i];
		const int count = net_resolve(host->name, host->port, found, err);

		if (count < 0)
			error_prefix(err, "zookeeper %s",
				     uri_host_text(host->name, host->port, label, sizeof(label)));
		for (int j = 0; j < count; j++)
			list = add_server(list, &found[j], host->port);
	}
	return list;
}

/* ---- the connection ---- */

/*
 * List the connections among the descriptors that follow the pipe, one a bit, but for those that
 * were there before the library started. The library's are there, because it gets the lowest free
 * numbers.
 */
static uint64_t list_connections(const struct zk_conn *conn)
{
	socklen_t size = sizeof(int);
	uint64_t found = 0;
	int domain;

	for (int i = 0; i < 64; i++)
		if (!getsockopt(conn->news[0] + 1 + i, SOL_SOCKET, SO_DOMAIN, &domain, &size) &&
		    (domain == AF_INET || domain == AF_INET6))
			found |= UINT64_C(1) << i;
	return found & ~conn->foreign;
}

/* End the connection, so that the library connects to another server. */
static void drop_connection(struct zk_conn *conn)
{
	const uint64_t ours = list_connections(conn);

	if (!ours)
		return;
	/* It counts as lost before the library notices, and the next one comes after it. */
	if (conn->state == ZOO_CONNECTED_STATE)
		take_state(conn, 0);
	conn->started_ms = clock_boot_ms();
	for (int i = 0; i < 64; i++)
		if (ours >> i & 1)
			shutdown(conn->news[0] + 1 + i, SHUT_RDWR);
}

/* ---- the URI ---- */

/* Convert ?ssl-ca=, cert= and key= to the library's form. */
static int read_tls(struct zk_conn *conn, const struct uri *uri, struct error *err)
{
	const char *ca = uri_param(uri, "ssl-ca"), *cert = uri_param(uri, "cert");
	const char *key = uri_param(uri, "key");

	if (!ca && !cert && !key)
		return 0;
	if (!zookeeper_init_ssl || !ca || !cert || !key || strchr(ca, ',') || strchr(cert, ',') ||
	    strchr(key, ','))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: TLS needs all of ssl-ca=, cert= "
				 "and key=, files without ',' in their names, and a libzookeeper "
				 "with OpenSSL: this one has %s",
				 zookeeper_init_ssl ? "it" : "none");
	conn->tls = memory_format("%s,%s,%s,", ca, cert, key);
	return 0;
}

int zk_conn_init(struct zk_conn *conn, struct backend *backend, const struct uri *uri,
		 struct error *err)
{
	conn->backend = backend;
	conn->news[0] = conn->news[1] = -1;
	conn->ready_fd = eventfd(1, EFD_CLOEXEC);
	if (pipe2(conn->news, O_CLOEXEC | O_NONBLOCK) || conn->ready_fd < 0)
		return error_set(err, ERROR_INTERNAL, errno, "pipe");
	if (!uri->host_count)
		return error_set(err, ERROR_USAGE, 0, "zookeeper: there is no host: write "
				 "zookeeper://HOST[:PORT][,HOST...][/ROOT]");
	if ((uri->user && uri->user[0]) != (uri->password != NULL))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: want both a user and a password, "
				 "or neither");
	if (uri->password)
		conn->auth = memory_format("%s:%s", uri->user, uri->password);
	conn->user = memory_copy(uri->user);
	conn->password_file = uri_param(uri, "password-file");
	conn->host_count = uri->host_count;
	conn->hosts = memory_new(uri->host_count, sizeof(*conn->hosts));
	for (size_t i = 0; i < uri->host_count; i++) {
		conn->hosts[i].name = memory_copy(uri->hosts[i].name);
		conn->hosts[i].port = uri->hosts[i].port ? uri->hosts[i].port : DEFAULT_PORT;
	}
	uri_location(uri, DEFAULT_PORT, conn->label);
	return read_tls(conn, uri, err);
}

/* ---- the life of a session ---- */

static int start_session(struct zk_conn *conn, int64_t longest_ms, struct error *err)
{
	/*
	 * The library multiplies this by 2. The server usually grants less (maxSessionTimeout), and
	 * the lease follows from what it grants.
	 */
	const int ttl_ms = (int)clock_earlier(longest_ms, INT_MAX / 4);
	/* Otherwise the library looks up the user and the host, although nothing is logged. */
	const int flags = ZOO_NO_LOG_CLIENTENV;
	char *servers = resolve_hosts(conn, err);
	sigset_t all, before;

	if (!servers)
		return -1;
	conn->started_ms = clock_boot_ms();
	fcntl(conn->news[1], F_SETFL, 0);
	conn->foreign = 0;
	conn->foreign = list_connections(conn);
	/* No log. */
	zoo_set_debug_level(0);
	/* One heap for all threads: waiters stay small. */
	mallopt(M_ARENA_MAX, 1);
	/* The library's threads inherit the mask, and so get no signal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	conn->handle = conn->tls
		? zookeeper_init_ssl(servers, conn->tls, on_session, ttl_ms, NULL, conn, flags)
		: zookeeper_init(servers, on_session, ttl_ms, NULL, conn, flags);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(servers);
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
	fcntl(conn->news[1], F_SETFL, O_NONBLOCK);
	zk_conn_take_news(conn);
	if (conn->handle)
		zookeeper_close(conn->handle);
	conn->handle = NULL;
	/* No thread of the library is running. */
	zk_conn_take_news(conn);
	conn->state = conn->pending = 0;
	conn->session = 0;
	conn->eventful = false;
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
	close(conn->news[0]);
	close(conn->news[1]);
	close(conn->ready_fd);
}

/*
 * Give the user to the library, which sends it to each later server itself. It takes none between
 * two servers. Returns false if it did not.
 */
static bool add_auth(struct zk_conn *conn)
{
	char *password = uri_renew_password(conn->password_file);

	if (password) {
		memory_free_secret(conn->auth);
		conn->auth = memory_format("%s:%s", conn->user, password);
	}
	memory_free_secret(password);
	return !conn->auth || !zoo_add_auth(conn->handle, "digest", conn->auth,
					    (int)strlen(conn->auth), NULL, NULL);
}

/* Wait until there is a session. */
static int await_session(struct zk_conn *conn, struct error *err)
{
	int64_t now = clock_boot_ms(), look_ms = now + LOOK_MS, look_end_ms = look_ms + LOOK_MS;
	int64_t slice_ms, slice_end_ms, check_ms, end_ms, until_ms;

	end_ms = clock_earlier(conn->deadline_ms, now + conn->backend->connect_timeout_ms);
	check_ms = end_ms - clock_earlier(CHECK_MOST_MS, (end_ms - now) / 4);
	/* Each try is longer than the one before. Each host has one within 9/10 of the time. */
	slice_ms = clock_earlier((check_ms - now) / (int64_t)conn->host_count / 2, SLICE_MOST_MS);
	slice_end_ms = now + slice_ms;
	for (;;) {
		zk_conn_take_news(conn);
		if (conn->state == ZOO_CONNECTED_STATE && (conn->session || add_auth(conn)))
			break;
		if (conn->state == ZOO_EXPIRED_SESSION_STATE ||
		    conn->state == ZOO_AUTH_FAILED_STATE)
			return no_session(conn, conn->state, err);
		now = clock_boot_ms();
		if (now >= look_ms) {
			const bool connects = list_connections(conn) != 0;

			look_ms = connects && now < look_end_ms ? now + LOOK_AGAIN_MS : CLOCK_NEVER;
			if (!connects && check_servers(conn, check_ms, err))
				return -1;
		}
		if (now >= check_ms)
			return check_servers(conn, end_ms, err) ? -1 :
			       error_set(err, ERROR_UNAVAILABLE, 0, "%s: no session within the "
					 "time for connecting", conn->label);
		if (now >= slice_end_ms) {
			drop_connection(conn);
			slice_ms += slice_ms / (int64_t)conn->host_count;
			slice_end_ms = now + slice_ms;
		}
		until_ms = clock_earlier(clock_earlier(look_ms, slice_end_ms), check_ms);
		if (await_news(conn, until_ms, err) && err->kind != ERROR_UNAVAILABLE)
			return -1;
	}
	conn->refused_ms = 0;
	conn->session = zoo_client_id(conn->handle)->client_id;
	conn->ttl_ms = zoo_recv_timeout(conn->handle);
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
	if (!conn->session || err->kind == ERROR_REFUSED)
		zk_conn_close(conn);
	return -1;
}

/* ---- waiting ---- */

int zk_conn_wait(struct zk_conn *conn)
{
	const int64_t deadline_ms = clock_earlier(conn->deadline_ms,
						  clock_boot_ms() + conn->backend->timeout_ms);

	zk_conn_take_news(conn);
	while (conn->pending && !await_news(conn, deadline_ms, &conn->why))
		;
	if (!conn->pending)
		return 0;
	if (conn->why.kind == ERROR_UNAVAILABLE) {
		error_set(&conn->why, ERROR_UNAVAILABLE, 0, "%s: no answer in time", conn->label);
		drop_connection(conn);
	}
	return ZK_UNANSWERED;
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

static struct zk_call *send_pair(struct zk_call *call, const struct zk_pair *pair)
{
	return finish_send(call, zoo_amulti(call->conn->handle, pair->shadow[0] ? 2 : 1, call->ops,
					    call->results, on_void, call));
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
		return -1;
	case ZNOAUTH:
	case ZSESSIONCLOSEDREQUIRESASLAUTH:
		return error_set(err, ERROR_REFUSED, 0, conn->user
				 ? "%s: not allowed to %s %.160s (NoAuth) as user '%.60s': check "
				   "user and password, the node's ACL, and what the server demands"
				 : "%s: not allowed to %s %.160s (NoAuth): its ACL or the server "
				   "wants a user and password: zookeeper://USER:PASSWORD@HOST",
				 conn->label, what, path, conn->user);
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
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: cannot %s: %s (%d)", conn->label,
				 what, zerror(rc), rc);
	default:
		return error_set(err, ERROR_REFUSED, 0, "%s: cannot %s %.200s: %s (%d)",
				 conn->label, what, path, zerror(rc), rc);
	}
}
