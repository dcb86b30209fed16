/* SPDX-License-Identifier: MIT */
/* The servers, the life of a session, and waiting with a deadline: conn.h. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"

/*
 * If there is no session after this time, check once whether any server listens. A session that
 * must not be replaced has all the time there is, because a server may be being restarted.
 */
#define LOOK_MS 100
/* Try the next server if the first has not opened the session after this. */
#define SLICE_MOST_MS 1000
/* The part of the time for connecting that is kept to find out why there is no session. */
#define CHECK_MOST_MS 800
/* More than the pipe has room for. */
#define NEWS_MOST 4096

/* ---- memory ---- */

void *zk_conn_keep(struct zk_conn *conn, void *memory)
{
	conn->memory = memory_resize(conn->memory, conn->memory_count + 1, sizeof(memory));
	return conn->memory[conn->memory_count++] = memory;
}

void *zk_conn_memory(struct zk_conn *conn, size_t count, size_t size)
{
	return zk_conn_keep(conn, memory_new(count, size));
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
	conn->introduced = false;
	/*
	 * Contacts over the last connection prove nothing about this one. But they came before it,
	 * while the library's report of the connection's end may come after it.
	 */
	if (state != ZOO_CONNECTED_STATE)
		conn->backend->woken = true;
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
	zk_conn_keep(conn, call->text);
	/* The next try reads the password again, and sends a new one. */
	if (rc == ZNOAUTH)
		conn->introduced = false;
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
			return;
		if (news.call)
			take_answer(news.call, news.rc);
		else if (news.fired)
			*news.fired = conn->backend->woken = true;
		else if (news.state)
			take_state(conn, news.state);
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

/* ---- why there is no session ---- */

enum zk_end zk_report_ended(const struct zk_conn *conn, const char *what, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: %s", conn->label, what);
	return ZK_ENDED;
}

/* Ask one server that listens why there is no session. Asks until deadline_ms at most. */
static enum zk_end explain_absence(struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	const int64_t now = clock_boot_ms();
	char answer[ZK_ANSWER_SIZE];

	if (!zk_servers_ask(conn, conn->hosts, conn->host_count, answer, deadline_ms, err)) {
		conn->refused_ms = 0;
		return ZK_FAILED;
	}
	/*
	 * A server that has lost its data serves others and refuses us, without an answer that our
	 * session is unknown. When it has done so for the session's time, the session has expired.
	 */
	if (!conn->refused_ms)
		conn->refused_ms = now;
	if (conn->session && now - conn->refused_ms >= conn->ttl_ms)
		return zk_report_ended(conn, "the session has expired", err);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: no session within the time for connecting",
		  conn->label);
	return ZK_FAILED;
}

/* ---- the connection ---- */

/*
 * End the sockets of IP among the descriptors that follow the pipe, but those in kept, which has
 * one bit for each descriptor. Returns which of them were sockets. The library's socket, which it
 * hides, is among them, because it gets the lowest free number.
 */
static uint64_t end_sockets(const struct zk_conn *conn, uint64_t kept)
{
	socklen_t size = sizeof(int);
	uint64_t found = 0;
	int domain;

	for (int fd = conn->news[0] + 1, i = 0; i < 64; fd++, i++)
		if (!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) &&
		    (domain == AF_INET || domain == AF_INET6)) {
			found |= UINT64_C(1) << i;
			if (!(kept >> i & 1))
				shutdown(fd, SHUT_RDWR);
		}
	return found;
}

/* End the connection, so that the library connects to another server. */
static void drop_connection(struct zk_conn *conn)
{
	/* It counts as lost before the library notices, and the next one comes after it. */
	if (conn->state == ZOO_CONNECTED_STATE)
		take_state(conn, 0);
	conn->started_ms = clock_boot_ms();
	end_sockets(conn, conn->foreign);
}

/* ---- the life of a session ---- */

int zk_conn_init(struct zk_conn *conn, struct backend *backend, const struct uri *uri,
		 struct error *err)
{
	conn->backend = backend;
	conn->news[0] = conn->news[1] = -1;
	if (pipe2(conn->news, O_CLOEXEC | O_NONBLOCK))
		return error_set(err, ERROR_INTERNAL, errno, "pipe");
	if (zk_servers_init(conn, uri, err))
		return -1;
	if ((uri->user && uri->user[0]) != (uri->password != NULL))
		return error_set(err, ERROR_USAGE, 0, "zookeeper: want both a user and a password, "
				 "or neither");
	if (uri->password)
		conn->auth = memory_format("%s:%s", uri->user, uri->password);
	conn->user = uri->user;
	conn->password_file = uri_param(uri, "password-file");
	return 0;
}

static int start_session(struct zk_conn *conn, struct error *err)
{
	/*
	 * The library multiplies this by 2. The server usually grants less (maxSessionTimeout), and
	 * the lease follows from what it grants.
	 */
	const int ttl_ms = (int)clock_earlier(conn->asked_ms, INT_MAX / 4);
	/* Otherwise the library looks up the user and the host, although nothing is logged. */
	const int flags = ZOO_NO_LOG_CLIENTENV;
	char *servers = zk_servers_resolve(conn, err);
	sigset_t all, before;

	if (!servers)
		return -1;
	conn->started_ms = clock_boot_ms();
	fcntl(conn->news[1], F_SETFL, 0);
	conn->foreign = end_sockets(conn, UINT64_MAX);
	/* No log. */
	zoo_set_debug_level(0);
	/* One heap for all threads: waiters stay small. */
	mallopt(M_ARENA_MAX, 1);
	/* The library's threads inherit the mask, and so get no signal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	conn->handle = conn->tls ? zookeeper_init_ssl(servers, conn->tls, on_session, ttl_ms,
						      NULL, conn, flags)
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
	conn->session = conn->state = conn->pending = 0;
	conn->backend->woken = false;
}

void zk_conn_finish(struct zk_conn *conn)
{
	zk_conn_close(conn);
	zk_conn_free(conn);
	free(conn->memory);
	free(conn->hosts);
	free(conn->tls);
	memory_free_secret(conn->auth);
	close(conn->news[0]);
	close(conn->news[1]);
}

/*
 * Give the user to the library, which sends it to each later server itself, but not a new password.
 * It takes none between two servers. Returns false if it did not.
 */
static bool introduce(struct zk_conn *conn)
{
	char *password = uri_renew_password(conn->password_file), *auth;

	auth = password ? memory_format("%s:%s", conn->user, password) : memory_copy(conn->auth);
	memory_free_secret(password);
	conn->introduced = !auth || (conn->session && !strcmp(auth, conn->auth)) ||
			   !zoo_add_auth(conn->handle, "digest", auth, (int)strlen(auth), NULL,
					 NULL);
	memory_free_secret(conn->introduced ? conn->auth : auth);
	if (conn->introduced)
		conn->auth = auth;
	return conn->introduced;
}

/* Can there be no session any more? */
static enum zk_end check_state(const struct zk_conn *conn, struct error *err)
{
	if (conn->state == ZOO_EXPIRED_SESSION_STATE)
		return zk_report_ended(conn, "the session has expired", err);
	if (conn->state != ZOO_AUTH_FAILED_STATE)
		return ZK_DONE;
	error_set(err, ERROR_REFUSED, 0, "%s: authentication failed (AuthFailed)", conn->label);
	return ZK_FAILED;
}

/* Wait until there is a session. */
static enum zk_end await_session(struct zk_conn *conn, bool replace, struct error *err)
{
	int64_t now = clock_boot_ms(), look_ms = replace ? now + LOOK_MS : CLOCK_NEVER;
	const int64_t count = (int64_t)conn->host_count;
	int64_t slice_ms, slice_end_ms, check_ms, end_ms, until_ms;
	enum zk_end end;

	end_ms = clock_earlier(conn->deadline_ms, now + conn->backend->connect_timeout_ms);
	check_ms = end_ms - clock_earlier(CHECK_MOST_MS, (end_ms - now) / 4);
	/* Each try is longer than the one before. Each host has one within 9/10 of the time. */
	slice_ms = (check_ms - now) / count / 2;
	if (count > 1)
		slice_ms = clock_earlier(slice_ms, SLICE_MOST_MS);
	slice_end_ms = now + slice_ms;
	for (;;) {
		zk_conn_take_news(conn);
		if (conn->state == ZOO_CONNECTED_STATE && (conn->introduced || introduce(conn)))
			break;
		end = check_state(conn, err);
		if (end)
			return end;
		now = clock_boot_ms();
		if (now >= check_ms)
			return explain_absence(conn, end_ms, err);
		if (now >= look_ms && !zk_servers_listen(conn, now + LOOK_MS, err))
			return ZK_FAILED;
		if (now >= look_ms)
			look_ms = CLOCK_NEVER;
		if (now >= slice_end_ms) {
			drop_connection(conn);
			slice_ms += slice_ms / count;
			slice_end_ms = now + slice_ms;
		}
		until_ms = clock_earlier(clock_earlier(look_ms, slice_end_ms), check_ms);
		if (await_news(conn, until_ms, err) && err->kind != ERROR_UNAVAILABLE)
			return ZK_FAILED;
	}
	conn->refused_ms = 0;
	conn->session = zoo_client_id(conn->handle)->client_id;
	conn->ttl_ms = zoo_recv_timeout(conn->handle);
	return ZK_DONE;
}

enum zk_end zk_conn_begin(struct zk_conn *conn, int64_t ms, int64_t ttl_ms)
{
	zk_conn_free(conn);
	conn->deadline_ms = clock_boot_ms() + ms;
	conn->asked_ms = ttl_ms;
	error_set(&conn->why, ERROR_UNAVAILABLE, 0, "%s: no answer in time", conn->label);
	return ZK_AGAIN;
}

bool zk_conn_try(struct zk_conn *conn, bool replace, enum zk_end *end, struct error *err)
{
	while ((*end == ZK_AGAIN || (*end == ZK_ENDED && replace)) &&
	       clock_boot_ms() < conn->deadline_ms) {
		if (*end == ZK_ENDED)
			zk_conn_close(conn);
		*err = (struct error){ .kind = ERROR_NONE };
		*end = !conn->handle && start_session(conn, err) ? ZK_FAILED
								: await_session(conn, replace, err);
		if (!*end)
			return true;
		/* Without a session to keep, stop the library from connecting. */
		if (!conn->session || err->kind == ERROR_REFUSED)
			zk_conn_close(conn);
	}
	return false;
}

/* ---- waiting ---- */

void zk_conn_wait(struct zk_conn *conn)
{
	const int64_t deadline_ms = clock_earlier(conn->deadline_ms,
						  clock_boot_ms() + conn->backend->timeout_ms);
	struct error err;

	zk_conn_take_news(conn);
	while (conn->pending)
		if (await_news(conn, deadline_ms, &err)) {
			if (err.kind == ERROR_UNAVAILABLE)
				drop_connection(conn);
			else
				conn->why = err;
			return;
		}
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
