/* SPDX-License-Identifier: MIT */
#include "conn.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "call.h"
#include "net.h"

/* A server that has not opened the session after this is left for the next one. */
#define SLICE_MOST_MS 1000
#define SLICE_LEAST_MS 100
/* How much of the time for connecting is kept to find out why there is no session. */
#define LOOK_MOST_MS 800
/*
 * The longest session timeout to ask for. The client library keeps it in an int of
 * milliseconds and multiplies it by 2. The server grants less most often (maxSessionTimeout),
 * and what it grants is the lease.
 */
#define SESSION_MOST_MS (INT_MAX / 4)

/* ---- in the library's threads ---- */

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	struct zk_conn *conn = context;

	(void)handle;
	(void)path;
	if (type != ZOO_SESSION_EVENT)
		return;
	pthread_mutex_lock(&conn->mutex);
	if (state == ZOO_CONNECTED_STATE) {
		conn->connections++;
	} else {
		conn->broken = true;
		conn->broke_ms = clock_boot_ms();
	}
	conn->state = state;
	eventfd_write(conn->done_fd, 1);
	/* The first connection is no event: zk_conn_open() waits for that on done_fd. */
	if (conn->broken || conn->connections > 1)
		eventfd_write(conn->event_fd, 1);
	pthread_mutex_unlock(&conn->mutex);
}

/* ---- life of a session ---- */

static int state_of(struct zk_conn *conn)
{
	int state;

	pthread_mutex_lock(&conn->mutex);
	state = conn->state;
	pthread_mutex_unlock(&conn->mutex);
	return state;
}

static void reset(struct zk_conn *conn)
{
	pthread_mutex_lock(&conn->mutex);
	conn->state = 0;
	conn->connections = 0;
	conn->pending = 0;
	conn->event_count = 0;
	conn->events_lost = false;
	conn->broken = false;
	pthread_mutex_unlock(&conn->mutex);
	conn->seen_connections = 0;
	conn->contact_count = 0;
	conn->started_ms = clock_boot_ms();
}

static int start(struct zk_conn *conn, int64_t ttl_ms, struct error *err)
{
	sigset_t all, before;

	if (zk_net_resolve(conn, err))
		return -1;
	reset(conn);
	zk_net_note_foreign(conn);
	/* One heap for all threads: a waiter should be small. */
	mallopt(M_ARENA_MAX, 1);
	/* The library's threads inherit this: no signal is theirs. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	conn->handle = zk_net_start(conn, on_session,
				    (int)clock_earlier(ttl_ms, SESSION_MOST_MS));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!conn->handle)
		return error_set(err, ERROR_INTERNAL, errno, "%s: cannot start a session",
				 conn->label);
	/* Addresses are numeric: there is nothing to look up again. */
	zoo_set_servers_resolution_delay(conn->handle, -1);
	if (conn->auth)
		zoo_add_auth(conn->handle, "digest", conn->auth, (int)strlen(conn->auth), NULL,
			     NULL);
	return 0;
}

void zk_conn_close(struct zk_conn *conn)
{
	if (conn->handle)
		zookeeper_close(conn->handle);
	conn->handle = NULL;
	reset(conn);
}

/* Frees a handle that is not connected, which says nothing to any server. */
static void drop(struct zk_conn *conn)
{
	zookeeper_close(conn->handle);
	conn->handle = NULL;
}

int64_t zk_conn_session(const struct zk_conn *conn)
{
	return conn->handle ? zoo_client_id(conn->handle)->client_id : 0;
}

/* If the connection is new: contacts over the last one prove nothing about it. */
static void note_connection(struct zk_conn *conn)
{
	unsigned connections;

	pthread_mutex_lock(&conn->mutex);
	connections = conn->connections;
	if (connections != conn->seen_connections && conn->seen_connections)
		conn->started_ms = conn->broke_ms;
	pthread_mutex_unlock(&conn->mutex);
	if (connections == conn->seen_connections)
		return;
	conn->seen_connections = connections;
	conn->contact_count = 0;
	conn->ttl_ms = zoo_recv_timeout(conn->handle);
	zk_net_close_on_exec(conn);
}

/* Sleeps until the library's threads say something, or until_ms. 0, or -1 with *err to give up. */
static int rest(const struct zk_conn *conn, int64_t until_ms, struct error *err)
{
	struct error ignored = { 0 };
	eventfd_t count;

	if (net_wait(conn->done_fd, POLLIN, until_ms, conn->limits->cancel_fd, &ignored) == 0) {
		eventfd_read(conn->done_fd, &count);
	} else if (ignored.kind != ERROR_UNAVAILABLE) {
		*err = ignored;
		return -1;
	}
	return 0;
}

static int no_session(struct zk_conn *conn, int state, struct error *err)
{
	if (state == ZOO_EXPIRED_SESSION_STATE)
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: the session has expired", conn->label);
	else
		error_set(err, ERROR_REFUSED, 0, "%s: authentication failed (AuthFailed)",
			  conn->label);
	if (state == ZOO_EXPIRED_SESSION_STATE)
		err->errnum = ESTALE;
	drop(conn);
	return -1;
}

/*
 * Is there a server worth waiting for? 0, or -1 with *err. A server that has lost its data does
 * not even say that our session is unknown to it: it serves others, and not us. After the
 * session's time that is as good as to say it.
 */
static int look(struct zk_conn *conn, int64_t deadline_ms, struct error *err)
{
	enum zk_look found = zk_net_look(conn, deadline_ms, err);

	if (found != ZK_SERVES || !conn->seen_connections) {
		conn->refused_ms = 0;
		return found == ZK_HOPELESS ? -1 : 0;
	}
	if (!conn->refused_ms)
		conn->refused_ms = clock_boot_ms();
	if (clock_boot_ms() - conn->refused_ms < conn->ttl_ms)
		return 0;
	return no_session(conn, ZOO_EXPIRED_SESSION_STATE, err);
}

/* Ends the connection, so that the library looks for another server. */
static void kick(struct zk_conn *conn)
{
	unsigned connections;
	bool down;

	pthread_mutex_lock(&conn->mutex);
	connections = conn->connections;
	pthread_mutex_unlock(&conn->mutex);
	down = zk_net_shut_down(conn);
	/* Until the library has seen it, the connection counts as lost. */
	pthread_mutex_lock(&conn->mutex);
	if (down && conn->connections == connections && conn->state == ZOO_CONNECTED_STATE) {
		conn->state = 0;
		conn->broke_ms = clock_boot_ms();
	}
	pthread_mutex_unlock(&conn->mutex);
}

/* Waits until there is a session. Each server gets a slice of the time. */
static int await_session(struct zk_conn *conn, struct error *err)
{
	int64_t now = clock_boot_ms(), slice_ms, slice_end_ms, deadline_ms;
	unsigned failures = zk_net_failures();
	int64_t look_ms;
	bool looked = false;
	int state;

	deadline_ms = clock_earlier(conn->deadline_ms, now + conn->limits->connect_timeout_ms);
	look_ms = clock_earlier(LOOK_MOST_MS, (deadline_ms - now) / 4);
	deadline_ms -= look_ms;
	slice_ms = (deadline_ms - now) / (2 * conn->server_count);
	slice_ms = slice_ms > SLICE_MOST_MS ? SLICE_MOST_MS : slice_ms;
	slice_ms = slice_ms < SLICE_LEAST_MS ? SLICE_LEAST_MS : slice_ms;
	slice_end_ms = now + slice_ms;
	while ((state = state_of(conn)) != ZOO_CONNECTED_STATE) {
		if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
			return no_session(conn, state, err);
		now = clock_boot_ms();
		/* All servers have been tried: is there one that is worth waiting for? */
		if (!looked && zk_net_failures() - failures >= (unsigned)conn->server_count) {
			looked = true;
			if (look(conn, deadline_ms, err))
				return -1;
		}
		if (now >= deadline_ms) {
			if (!look(conn, deadline_ms + look_ms, err))
				error_set(err, ERROR_UNAVAILABLE, 0,
					  "%s: no session within the time for connecting",
					  conn->label);
			return -1;
		}
		if (now >= slice_end_ms) {
			kick(conn);
			slice_end_ms = now + slice_ms;
		}
		if (rest(conn, clock_earlier(slice_end_ms, deadline_ms), err))
			return -1;
	}
	conn->refused_ms = 0;
	note_connection(conn);
	return 0;
}

void zk_conn_begin(struct zk_conn *conn, int64_t ms)
{
	conn->deadline_ms = clock_boot_ms() + ms;
}

int zk_conn_open(struct zk_conn *conn, int64_t ttl_ms, struct error *err)
{
	if (!conn->handle && start(conn, ttl_ms, err))
		return -1;
	if (!await_session(conn, err))
		return 0;
	if (err->kind == ERROR_UNAVAILABLE && err->errnum != ESTALE)
		err->errnum = ENOTCONN;
	/* Where there never was a session, the library shall not go on connecting. */
	if (conn->handle && !conn->seen_connections)
		drop(conn);
	return -1;
}

/* A request that was sent at sent_ms was answered over this connection. */
static void note_contact(struct zk_conn *conn, int64_t sent_ms)
{
	int64_t *last = conn->contacts + conn->contact_count - 1;

	/* A contact so soon after the last one would make no difference. */
	if (conn->contact_count && sent_ms - *last < conn->ttl_ms / ZK_CONTACTS)
		return;
	if (conn->contact_count == ZK_CONTACTS)
		memmove(conn->contacts, conn->contacts + 1,
			(size_t)--conn->contact_count * sizeof(*last));
	conn->contacts[conn->contact_count++] = sent_ms;
}

int zk_conn_wait(struct zk_conn *conn)
{
	int64_t deadline_ms = clock_earlier(conn->deadline_ms,
					    clock_boot_ms() + conn->limits->timeout_ms);
	bool pending, answered;
	int64_t sent_ms;

	for (;;) {
		pthread_mutex_lock(&conn->mutex);
		pending = conn->pending > 0;
		sent_ms = conn->sent_ms;
		answered = conn->answered && conn->connections == conn->seen_connections;
		if (!pending)
			conn->answered = false;
		pthread_mutex_unlock(&conn->mutex);
		if (!pending && answered)
			note_contact(conn, sent_ms);
		if (!pending)
			return 0;
		if (clock_boot_ms() >= deadline_ms) {
			error_set(&conn->why, ERROR_UNAVAILABLE, 0, "%s: no answer in time",
				  conn->label);
			kick(conn);
			return ZK_UNANSWERED;
		}
		if (rest(conn, deadline_ms, &conn->why))
			return ZK_UNANSWERED;
	}
}

bool zk_conn_rest(struct zk_conn *conn, int64_t until_ms)
{
	struct error unread;
	eventfd_t count;

	if (net_wait(conn->event_fd, POLLIN, until_ms, conn->limits->cancel_fd, &unread))
		return false;
	eventfd_read(conn->event_fd, &count);
	return true;
}

bool zk_conn_again(const struct zk_conn *conn, struct error *err)
{
	return err->errnum != ESTALE && zk_conn_ask_again(conn, err);
}

bool zk_conn_ask_again(const struct zk_conn *conn, struct error *err)
{
	if (err->kind != ERROR_UNAVAILABLE || err->errnum == ENOTCONN ||
	    clock_boot_ms() >= conn->deadline_ms)
		return false;
	*err = (struct error){ .kind = ERROR_NONE };
	return true;
}

bool zk_conn_fresh(struct zk_conn *conn, struct error *err)
{
	if (zk_conn_lease(conn, clock_boot_ms()) >= conn->ttl_ms / 2)
		return true;
	kick(conn);
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: connecting anew", conn->label);
	return false;
}

bool zk_conn_event(struct zk_conn *conn, struct zk_event *event)
{
	bool any;

	pthread_mutex_lock(&conn->mutex);
	any = conn->event_count > 0;
	if (any) {
		*event = conn->events[0];
		memmove(conn->events, conn->events + 1,
			(size_t)--conn->event_count * sizeof(*event));
	}
	pthread_mutex_unlock(&conn->mutex);
	return any;
}

/* The value of a flag of *conn, which is then false. */
static bool take(struct zk_conn *conn, bool *flag)
{
	bool was;

	pthread_mutex_lock(&conn->mutex);
	was = *flag;
	*flag = false;
	pthread_mutex_unlock(&conn->mutex);
	return was;
}

bool zk_conn_broken(struct zk_conn *conn)
{
	return take(conn, &conn->broken);
}

bool zk_conn_lost_events(struct zk_conn *conn)
{
	return take(conn, &conn->events_lost);
}

int64_t zk_conn_lease(const struct zk_conn *conn, int64_t sent_ms)
{
	int64_t base_ms = conn->started_ms, left_ms;

	for (int i = 0; i < conn->contact_count; i++)
		if (conn->contacts[i] <= sent_ms - conn->ttl_ms / 4)
			base_ms = conn->contacts[i];
	left_ms = conn->ttl_ms - (sent_ms - base_ms);
	return left_ms < 1 ? 1 : left_ms;
}
