/* SPDX-License-Identifier: MIT */
#include "conn.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"

/* What servers refuse with, and what helps. The code may stand inside the text,
 * for errors within scripts come wrapped (Redis 5 and 6). */
static const struct refusal {
	const char *code;
	enum error_kind kind;
	const char *advice;
} refusals[] = {
	{ "NOAUTH", ERROR_REFUSED,
	  "the server wants a password; see ?password-file= in dlock-backends(7)" },
	/* What an unauthenticated client hears for a long command. */
	{ "unauthenticated", ERROR_REFUSED,
	  "the server wants a password; see ?password-file= in dlock-backends(7)" },
	{ "WRONGPASS", ERROR_REFUSED, "wrong user or password" },
	{ "invalid password", ERROR_REFUSED, "wrong password" },
	{ "no password is set", ERROR_REFUSED, "the server has no password, the URI has one" },
	{ "without any password configured", ERROR_REFUSED,
	  "the server has no password, the URI has one" },
	{ "NOPERM", ERROR_REFUSED,
	  "this user lacks a permission; dlock-backends(7) lists those needed" },
	{ "can't run this command", ERROR_REFUSED,
	  "this user lacks a permission; dlock-backends(7) lists those needed" },
	{ "READONLY", ERROR_REFUSED, "this is a read-only replica; name the master" },
	{ "MISCONF", ERROR_REFUSED, "the server cannot write its snapshots and takes no writes" },
	{ "OOM", ERROR_REFUSED, "the server is out of memory (maxmemory)" },
	{ "NOREPLICAS", ERROR_REFUSED, "the server has fewer replicas than it wants to have" },
	{ "DB index", ERROR_REFUSED, "the server has no such database" },
	{ "MOVED", ERROR_REFUSED, "this is a node of a cluster, and another one has the lock" },
	{ "CLUSTERDOWN", ERROR_UNAVAILABLE, "the cluster is down" },
	{ "MASTERDOWN", ERROR_UNAVAILABLE, "the replica has lost its master" },
	{ "LOADING", ERROR_UNAVAILABLE, "the server is still loading its data" },
	{ "BUSY", ERROR_UNAVAILABLE, "the server is busy with a script" },
	{ "max number of clients", ERROR_UNAVAILABLE, "the server has too many clients" },
};

void redis_refusal(const struct redis_address *address, const char *text,
		   struct error *err)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (!strstr(text, refusals[i].code))
			continue;
		error_set(err, refusals[i].kind, 0, "%s: %s (%.160s)", address->label,
			  refusals[i].advice, text);
		break;
	}
	if (err->kind == ERROR_NONE)
		error_set(err, ERROR_REFUSED, 0, "%s: %.240s", address->label, text);
	/* The server's words go to a terminal. */
	for (char *c = err->message; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

void redis_conn_close(struct redis_conn *conn)
{
	if (conn->context)
		redisFree(conn->context);
	conn->context = NULL;
	conn->unread_greetings = 0;
}

int redis_conn_fd(const struct redis_conn *conn)
{
	return conn->context ? conn->context->fd : -1;
}

static void append_greetings(struct redis_conn *conn, const struct redis_address *address,
			     bool subscriber)
{
	if (address->password && address->user)
		redisAppendCommand(conn->context, "AUTH %s %s", address->user,
				   address->password);
	else if (address->password)
		redisAppendCommand(conn->context, "AUTH %s", address->password);
	conn->unread_greetings += address->password != NULL;
	if (address->db && !subscriber) {
		redisAppendCommand(conn->context, "SELECT %ld", address->db);
		conn->unread_greetings++;
	}
}

int redis_conn_open(struct redis_conn *conn, const struct redis_address *address,
		    bool subscriber, const struct redis_limits *limits, struct error *err)
{
	int64_t deadline_ms = clock_boot_ms() + limits->connect_ms;
	int fd;

	if (conn->context)
		return 0;
	fd = address->host
		? net_connect(address->host, address->port, deadline_ms, limits->cancel_fd, err)
		: net_connect_unix(address->unix_path, deadline_ms, limits->cancel_fd, err);
	if (fd < 0) {
		error_prefix(err, "%s", address->label);
		return -1;
	}
	conn->context = redisConnectFd(fd);
	if (!conn->context || conn->context->err) {
		redis_conn_close(conn);
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	/* net_wait() does the blocking. */
	conn->context->flags &= ~REDIS_BLOCK;
	append_greetings(conn, address, subscriber);
	return 0;
}

/* What the library says of a connection that broke. */
static void broken(const struct redis_conn *conn, const struct redis_address *address,
		   struct error *err)
{
	const redisContext *context = conn->context;

	if (context->err == REDIS_ERR_PROTOCOL)
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: does not speak the Redis protocol",
			  address->label);
	else if (context->err == REDIS_ERR_EOF)
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: closed the connection",
			  address->label);
	else
		error_set(err, ERROR_UNAVAILABLE, context->err == REDIS_ERR_IO ? errno : 0,
			  "%s: the connection broke", address->label);
}

static int flush(struct redis_conn *conn, const struct redis_address *address,
		 int64_t deadline_ms, int cancel_fd, struct error *err)
{
	int done = 0;

	for (;;) {
		if (redisBufferWrite(conn->context, &done) != REDIS_OK) {
			broken(conn, address, err);
			return -1;
		}
		if (done)
			return 0;
		if (net_wait(conn->context->fd, POLLOUT, deadline_ms, cancel_fd, err)) {
			error_prefix(err, "%s", address->label);
			return -1;
		}
	}
}

static redisReply *receive(struct redis_conn *conn, const struct redis_address *address,
			   int64_t deadline_ms, int cancel_fd, struct error *err)
{
	void *reply = NULL;

	for (;;) {
		if (redisGetReplyFromReader(conn->context, &reply) != REDIS_OK) {
			broken(conn, address, err);
			return NULL;
		}
		if (reply)
			return reply;
		if (net_wait(conn->context->fd, POLLIN, deadline_ms, cancel_fd, err)) {
			error_prefix(err, "%s", address->label);
			return NULL;
		}
		if (redisBufferRead(conn->context) != REDIS_OK) {
			broken(conn, address, err);
			return NULL;
		}
	}
}

/* A greeting that was refused is the answer to everything that follows. */
static redisReply *receive_past_greetings(struct redis_conn *conn,
					  const struct redis_address *address,
					  int64_t deadline_ms, int cancel_fd,
					  struct error *err)
{
	redisReply *reply;

	while (conn->unread_greetings) {
		reply = receive(conn, address, deadline_ms, cancel_fd, err);
		if (!reply)
			return NULL;
		conn->unread_greetings--;
		if (reply->type == REDIS_REPLY_ERROR) {
			err->kind = ERROR_NONE;
			redis_refusal(address, reply->str, err);
			freeReplyObject(reply);
			return NULL;
		}
		freeReplyObject(reply);
	}
	return receive(conn, address, deadline_ms, cancel_fd, err);
}

struct redisReply *redis_conn_command(struct redis_conn *conn,
				      const struct redis_address *address, int argc,
				      const char *const argv[],
				      const struct redis_limits *limits,
				      struct error *err)
{
	int64_t deadline_ms = clock_boot_ms() + limits->request_ms;
	redisReply *reply = NULL;

	if (redisAppendCommandArgv(conn->context, argc, (const char **)(uintptr_t)argv,
				   NULL) != REDIS_OK)
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
	else if (!flush(conn, address, deadline_ms, limits->cancel_fd, err))
		reply = receive_past_greetings(conn, address, deadline_ms,
					       limits->cancel_fd, err);
	if (!reply)
		redis_conn_close(conn);
	return reply;
}

void redis_conn_ahead(struct redis_conn *conn, const char *const argv[])
{
	int argc = 0;

	while (argv[argc])
		argc++;
	if (!conn->context || !argc)
		return;
	if (redisAppendCommandArgv(conn->context, argc, (const char **)(uintptr_t)argv, NULL) ==
	    REDIS_OK)
		conn->unread_greetings++;
}

int redis_conn_poll(struct redis_conn *conn, struct redisReply **reply)
{
	void *next = NULL;

	if (!conn->context)
		return -1;
	if (redisGetReplyFromReader(conn->context, &next) != REDIS_OK)
		goto closed;
	/* It does not block. */
	if (!next && (redisBufferRead(conn->context) != REDIS_OK ||
		      redisGetReplyFromReader(conn->context, &next) != REDIS_OK))
		goto closed;
	*reply = next;
	return next != NULL;
closed:
	redis_conn_close(conn);
	return -1;
}
