/* SPDX-License-Identifier: MIT */
#include "conn.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/backend.h"
#include "reply.h"

/*
 * The errors of servers, and what to do about them. The code may stand inside the text, because
 * Redis 5 and 6 wrap the errors of a script.
 */
static const struct refusal {
	const char *code;
	enum error_kind kind;
	const char *advice;
} refusals[] = {
	{ "NOAUTH", ERROR_REFUSED,
	  "the server wants a password; see ?password-file= in dlock-backends(7)" },
	/* The answer to a long command of a client that has not logged in. */
	{ "unauthenticated", ERROR_REFUSED,
	  "the server wants a password; see ?password-file= in dlock-backends(7)" },
	{ "WRONGPASS", ERROR_REFUSED, "wrong user or password" },
	{ "invalid password", ERROR_REFUSED, "wrong password" },
	{ "no password is set", ERROR_REFUSED, "the server has no password, but the URI has one" },
	{ "without any password configured", ERROR_REFUSED,
	  "the server has no password, but the URI has one" },
	{ "NOPERM", ERROR_REFUSED,
	  "this user lacks a permission; dlock-backends(7) lists those needed" },
	{ "can't run this command", ERROR_REFUSED,
	  "this user lacks a permission; dlock-backends(7) lists those needed" },
	{ "unknown command 'EVAL", ERROR_REFUSED, "the server runs no scripts, which dlock needs" },
	{ "unknown command `EVAL", ERROR_REFUSED, "the server runs no scripts, which dlock needs" },
	{ "unknown command 'SENTINEL", ERROR_REFUSED, "this server is no sentinel" },
	{ "unknown command `SENTINEL", ERROR_REFUSED, "this server is no sentinel" },
	{ "READONLY", ERROR_REFUSED, "this is a read-only replica; name the master" },
	{ "MISCONF", ERROR_REFUSED, "the server cannot write its snapshots and takes no writes" },
	{ "OOM", ERROR_REFUSED, "the server is out of memory (maxmemory)" },
	/* It is so for a moment after a failover. */
	{ "NOREPLICAS", ERROR_UNAVAILABLE, "the server has fewer replicas than it wants to have" },
	{ "DB index", ERROR_REFUSED, "the server has no such database" },
	{ "MOVED", ERROR_REFUSED,
	  "this is a node of a cluster, and another one has the lock; use redis+cluster:" },
	{ "TRYAGAIN", ERROR_UNAVAILABLE, "the cluster is moving the lock to another node" },
	{ "non local key", ERROR_UNAVAILABLE, "the cluster is moving the lock to another node" },
	{ "rehashing of the slot", ERROR_UNAVAILABLE,
	  "the cluster is moving the lock to another node" },
	{ "CROSSSLOT", ERROR_REFUSED,
	  "in a cluster a name with a '}' needs a text in braces before, as in a{b}c" },
	{ "CLUSTERDOWN", ERROR_UNAVAILABLE, "the cluster is down" },
	{ "MASTERDOWN", ERROR_UNAVAILABLE, "the replica has lost its master" },
	{ "LOADING", ERROR_UNAVAILABLE, "the server is still loading its data" },
	{ "BUSY", ERROR_UNAVAILABLE, "the server is busy with a script" },
	{ "max number of clients", ERROR_UNAVAILABLE, "the server has too many clients" },
};

void redis_refusal(const struct redis_address *address, const char *text, struct error *err)
{
	err->kind = ERROR_NONE;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (!strstr(text, refusals[i].code))
			continue;
		error_set(err, refusals[i].kind, 0, "%s: %s (%.160s)", address->label,
			  address->cluster && !strcmp(refusals[i].code, "MOVED")
			  ? "the nodes of the cluster disagree on which of them has the lock"
			  : refusals[i].advice, text);
		break;
	}
	if (err->kind == ERROR_NONE)
		error_set(err, ERROR_REFUSED, 0, "%s: %.240s", address->label, text);
}

/* ---- transports ---- */

static int connect_tcp(struct redis_conn *conn, int64_t deadline_ms, struct error *err)
{
	conn->fd = net_connect(conn->address->host, conn->address->port, deadline_ms,
			       conn->backend->cancel_fd, err);
	return conn->fd < 0 ? -1 : 0;
}

static int connect_unix(struct redis_conn *conn, int64_t deadline_ms, struct error *err)
{
	conn->fd = net_connect_unix(conn->address->unix_path, deadline_ms,
				    conn->backend->cancel_fd, err);
	return conn->fd < 0 ? -1 : 0;
}

/* What a transport returns after recv() or send() gave result. */
static ssize_t moved(struct redis_conn *conn, ssize_t result, short events, struct error *err)
{
	if (result > 0)
		return result;
	conn->wanted = events;
	if (result < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (result == 0)
		return error_set(err, ERROR_UNAVAILABLE, 0, "closed the connection");
	return error_set(err, ERROR_UNAVAILABLE, errno, "the connection broke");
}

static ssize_t read_plain(struct redis_conn *conn, void *data, size_t size, struct error *err)
{
	return moved(conn, recv(conn->fd, data, size, 0), POLLIN, err);
}

static ssize_t write_plain(struct redis_conn *conn, const void *data, size_t size,
			   struct error *err)
{
	return moved(conn, send(conn->fd, data, size, MSG_NOSIGNAL), POLLOUT, err);
}

static void close_plain(struct redis_conn *conn)
{
	close(conn->fd);
}

const struct redis_transport redis_tcp = {
	.connect = connect_tcp, .read = read_plain, .write = write_plain, .close = close_plain,
};
const struct redis_transport redis_unix = {
	.connect = connect_unix, .read = read_plain, .write = write_plain, .close = close_plain,
};

/* ---- the connection ---- */

void redis_conn_close(struct redis_conn *conn)
{
	if (!redis_conn_is_open(conn))
		return;
	/* A release that the server gets late must not end the next hold of the same token. */
	net_forget_unsent(conn->fd);
	conn->address->transport->close(conn);
	redisReaderFree(conn->reader);
	free(conn->unsent);
	conn->fd = -1;
	conn->unsent = NULL;
	conn->unsent_length = 0;
	conn->begun = 0;
	conn->unread = 0;
	conn->ignored = 0;
	conn->greeted = conn->heard = false;
}

bool redis_conn_is_open(const struct redis_conn *conn)
{
	return conn->fd >= 0;
}

static void append(struct redis_conn *conn, int argc, const char *const argv[])
{
	char *command;
	/* An int in hiredis 0.14, a long long in 1.0 and later. */
	const long long length = redisFormatCommandArgv(
		&command, argc, (const char **)(uintptr_t)argv, NULL);

	if (length < 0)
		memory_gone();
	conn->unsent = memory_resize(conn->unsent, conn->unsent_length + (size_t)length, 1);
	memcpy(conn->unsent + conn->unsent_length, command, (size_t)length);
	conn->unsent_length += (size_t)length;
	free(command);
}

/* Puts a command of the login in front of the first one, to travel with it. */
static void put_ahead(struct redis_conn *conn, int argc, const char *const argv[])
{
	append(conn, argc, argv);
	conn->unread++;
}

void redis_conn_begin(struct redis_conn *conn, int fd, bool subscriber)
{
	const struct redis_address *address = conn->address;
	const char *const login[] = { "AUTH", address->user ? address->user : address->password,
				      address->password };
	char db[24];

	conn->fd = fd;
	conn->replica = false;
	conn->limit = (struct redis_limit){ 0 };
	conn->messages = 0;
	conn->reader = redisReaderCreate();
	if (!conn->reader)
		memory_gone();
	if (address->password)
		put_ahead(conn, address->user ? 3 : 2, login);
	snprintf(db, sizeof(db), "%ld", address->db);
	if (address->db && !subscriber)
		put_ahead(conn, 2, (const char *const[]){ "SELECT", db });
	if (address->master)
		put_ahead(conn, 1, (const char *const[]){ "ROLE" });
}

/* A Redis server without TLS takes the handshake for the beginning of a long command, and waits. */
void redis_conn_silent(const struct redis_conn *conn, struct error *err)
{
	const struct redis_address *address = conn->address;

	if (address->transport->handshake && !conn->greeted && conn->wanted == POLLIN)
		error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "%s: no answer to the TLS handshake, "
			  "as from a server without TLS (%s)", address->label, address->tls.off);
	else
		error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "%s: no answer", address->label);
}

/*
 * Waits until the transport can go on. A server that sends a byte now and then does not move the
 * deadline, but what has come while this process was stopped is read, so that the first wait may
 * begin late.
 */
static int wait_for(const struct redis_conn *conn, bool first, int64_t deadline_ms,
		    struct error *err)
{
	if (!first && clock_boot_ms() >= deadline_ms)
		err->kind = ERROR_UNAVAILABLE;
	else if (!net_wait(conn->fd, conn->wanted, deadline_ms, conn->backend->cancel_fd, err))
		return 0;
	if (err->kind == ERROR_UNAVAILABLE)
		redis_conn_silent(conn, err);
	else
		error_prefix(err, "%s", conn->address->label);
	return -1;
}

/* Without TLS, and the server has not said a word yet. */
static bool is_first_contact(const struct redis_conn *conn)
{
	return !conn->heard && conn->address->transport == &redis_tcp;
}

/*
 * Says where reading or writing failed. A server that wants TLS does not answer a request without
 * it, and closes the connection.
 */
static void say_ended(const struct redis_conn *conn, struct error *err)
{
	const bool closed = !err->errnum || err->errnum == EPIPE || err->errnum == ECONNRESET;

	if (closed && is_first_contact(conn))
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: closed the connection without an answer, "
			  "as a server does that wants TLS (%s)", conn->address->label,
			  conn->address->tls.on);
	else
		error_prefix(err, "%s", conn->address->label);
}

/* Goes on with the handshake without waiting: 1 when it is over, 0, or -1 with *err. */
static int greet(struct redis_conn *conn, struct error *err)
{
	int state = 1;

	if (!conn->greeted && conn->address->transport->handshake)
		state = conn->address->transport->handshake(conn, err);
	if (state < 0)
		say_ended(conn, err);
	conn->greeted = state > 0;
	return state;
}

int redis_conn_reach(struct redis_conn *conn, struct error *err)
{
	struct sockaddr_storage peer;
	socklen_t peer_size = sizeof(peer), size = sizeof(int);
	int failure = 0;

	if (conn->address->transport->handshake)
		return greet(conn, err);
	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &failure, &size) || failure) {
		error_set(err, ERROR_UNAVAILABLE, failure ? failure : errno, "%s: cannot connect",
			  conn->address->label);
		return -1;
	}
	conn->wanted = POLLOUT;
	return !getpeername(conn->fd, (struct sockaddr *)&peer, &peer_size);
}

/* Writes what can be written without waiting. 0, or -1 with *err. */
static int flush(struct redis_conn *conn, struct error *err)
{
	ssize_t result;

	while (conn->unsent_length) {
		result = greet(conn, err);
		if (result <= 0)
			return (int)result;
		result = conn->address->transport->write(conn, conn->unsent, conn->unsent_length,
							 err);
		if (result < 0)
			say_ended(conn, err);
		if (result <= 0)
			return (int)result;
		conn->unsent_length -= (size_t)result;
		conn->begun = 0;
		memmove(conn->unsent, conn->unsent + result, conn->unsent_length);
		conn->wanted = POLLIN;
	}
	return 0;
}

int redis_conn_open(struct redis_conn *conn, bool subscriber, struct error *err)
{
	const int64_t deadline_ms = clock_boot_ms() + conn->backend->connect_timeout_ms;
	bool first = true;
	int state;

	if (redis_conn_is_open(conn))
		return 0;
	if (conn->address->transport->connect(conn, deadline_ms, err))
		return error_prefix(err, "%s", conn->address->label);
	redis_conn_begin(conn, conn->fd, subscriber);
	while (!(state = greet(conn, err))) {
		if (wait_for(conn, first, deadline_ms, err))
			break;
		first = false;
	}
	if (state > 0)
		return 0;
	redis_conn_close(conn);
	return -1;
}

/* The next reply that has come whole: 1 with *reply, 0 for none, -1 for what is no reply. */
static int take(struct redis_conn *conn, redisReply **reply, struct error *err)
{
	void *next = NULL;

	if (redisReaderGetReply(conn->reader, &next) != REDIS_OK) {
		if (conn->reader->err == REDIS_ERR_OOM)
			memory_gone();
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: does not speak the Redis protocol",
				 conn->address->label);
	}
	*reply = next;
	return next != NULL;
}

/* What a server that speaks TLS may send first when a client does not (RFC 8446, 5.1). */
enum { TLS_ALERT = 21, TLS_MAJOR = 3 };

/* Reads without blocking: 1 when something has come, 0 when nothing has, -1 with *err. */
static int feed(struct redis_conn *conn, struct error *err)
{
	/* Not on the stack, where a waiter would keep all of its pages for what is a few bytes. */
	static char data[16384];
	const ssize_t result = conn->address->transport->read(conn, data, sizeof(data), err);
	const char *wrong;

	if (result < 0)
		say_ended(conn, err);
	if (result <= 0)
		return (int)result;
	if (is_first_contact(conn) && result > 1 && data[0] == TLS_ALERT && data[1] == TLS_MAJOR)
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: speaks TLS (%s)",
				 conn->address->label, conn->address->tls.on);
	conn->heard = true;
	wrong = redis_limit_pass(&conn->limit, data, (size_t)result);
	if (wrong)
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: %s", conn->address->label, wrong);
	if (redisReaderFeed(conn->reader, data, (size_t)result) != REDIS_OK)
		memory_gone();
	return 1;
}

/* Does a server that must be a master say in its reply to ROLE that it is something else? */
static bool is_replica(const struct redis_conn *conn, const redisReply *reply)
{
	return conn->address->master && conn->unread == 1 &&
	       (!redis_has_shape(reply, "s") || strcmp(reply->element[0]->str, "master") != 0);
}

/*
 * Checks an answer to the login: 0, or -1 with *err. When AUTH or SELECT is refused, that is also
 * the answer to the command behind them. So is that of a replica to ROLE: it has refused to write,
 * and what it has read may be old.
 */
static int check_login(struct redis_conn *conn, const redisReply *reply, struct error *err)
{
	if (reply->type == REDIS_REPLY_ERROR) {
		redis_refusal(conn->address, reply->str, err);
		return -1;
	}
	conn->replica = is_replica(conn, reply);
	if (conn->replica)
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: is no master, but a replica",
				 conn->address->label);
	conn->unread--;
	return 0;
}

/* As take(), without the answers to the login and those that nobody wants. */
static int take_answer(struct redis_conn *conn, redisReply **reply, struct error *err)
{
	int state;

	while ((state = take(conn, reply, err)) > 0 && (conn->unread || conn->ignored)) {
		if (!conn->unread)
			conn->ignored--;
		else if (check_login(conn, *reply, err))
			state = -1;
		freeReplyObject(*reply);
		*reply = NULL;
		if (state < 0)
			break;
	}
	return state;
}

bool redis_conn_has_begun(const struct redis_conn *conn, size_t length)
{
	return conn->unsent_length - conn->begun < length;
}

void redis_conn_take_back(struct redis_conn *conn, size_t length)
{
	conn->unsent_length -= length;
}

short redis_conn_events(const struct redis_conn *conn)
{
	return conn->wanted;
}

int redis_conn_step(struct redis_conn *conn, bool readable, struct redisReply **reply,
		    struct error *err)
{
	int state;

	if (flush(conn, err))
		return -1;
	while (!(state = take_answer(conn, reply, err)) && readable && !conn->unsent_length) {
		state = feed(conn, err);
		if (state <= 0)
			break;
	}
	return state;
}

void redis_conn_let_others_first(struct redis_conn *conn)
{
	static const char *const question[] = { "TIME" };

	/* The answer to a login that has not been sent yet has the same effect. */
	if (!redis_conn_is_open(conn) || conn->unread)
		return;
	append(conn, 1, question);
	conn->ignored++;
}

void redis_conn_send(struct redis_conn *conn, int argc, const char *const argv[])
{
	append(conn, argc, argv);
}

struct redisReply *redis_conn_command(struct redis_conn *conn, int argc, const char *const argv[],
				      struct error *err)
{
	const int64_t deadline_ms = clock_boot_ms() + conn->backend->timeout_ms;
	redisReply *reply = NULL;
	bool readable = false;
	int state;

	redis_conn_send(conn, argc, argv);
	while (!(state = redis_conn_step(conn, readable, &reply, err))) {
		state = wait_for(conn, !readable, deadline_ms, err);
		if (state)
			break;
		readable = true;
	}
	if (state > 0)
		return reply;
	redis_conn_close(conn);
	return NULL;
}

/*
 * More messages than so many at once end the connection, because a server that never stops must not
 * keep its reader from everything else. A process that was stopped for long finds fewer.
 */
#define MOST_MESSAGES 10000

int redis_conn_poll(struct redis_conn *conn, struct redisReply **reply)
{
	struct error ignored;
	int state;

	if (!redis_conn_is_open(conn))
		return -1;
	/* Reads until there is nothing more: what stayed in the transport would wake nobody. */
	while (!(state = take(conn, reply, &ignored)))
		if ((state = feed(conn, &ignored)) <= 0)
			break;
	conn->messages = state > 0 ? conn->messages + 1 : 0;
	if (conn->messages > MOST_MESSAGES) {
		freeReplyObject(*reply);
		state = -1;
	}
	if (state < 0)
		redis_conn_close(conn);
	return state;
}
