/* SPDX-License-Identifier: MIT */
/* One connection to a Redis server: conn.h. */
#include "conn.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"

/*
 * The errors of servers, and what to do about them. The code may be inside the text, because Redis
 * 5 and 6 wrap the errors of a script.
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
	/* Of Redis 5, "Client sent AUTH, but no password is set", and of later ones. */
	{ "AUTH", ERROR_REFUSED, "the server has no password, but the URI has one" },
	{ "channel", ERROR_REFUSED, "this user lacks the permission for the channels that wake "
	  "waiters; dlock-redis(7) has it" },
	{ "NOPERM", ERROR_REFUSED,
	  "this user lacks a permission; dlock-redis(7) lists those needed" },
	{ "can't run this command", ERROR_REFUSED,
	  "this user lacks a permission; dlock-redis(7) lists those needed" },
	{ "EVAL", ERROR_REFUSED, "the server runs no scripts, which dlock needs" },
	{ "SENTINEL", ERROR_REFUSED, "this server is no sentinel" },
	{ "READONLY", ERROR_UNAVAILABLE, "this is a read-only replica; name the master" },
	{ "MISCONF", ERROR_UNAVAILABLE,
	  "the server cannot write its snapshots and takes no writes" },
	{ "OOM", ERROR_UNAVAILABLE, "the server is out of memory (maxmemory)" },
	/* This is temporary after a failover. */
	{ "NOREPLICAS", ERROR_UNAVAILABLE, "the server has fewer replicas than it wants to have" },
	{ "cluster support disabled", ERROR_REFUSED,
	  "this server is no cluster: write redis: instead of redis+cluster:" },
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
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (!strstr(text, refusals[i].code))
			continue;
		error_set(err, refusals[i].kind, 0, "%s: %s (%.160s)", address->label,
			  address->cluster && !strcmp(refusals[i].code, "MOVED")
			  ? "the nodes of the cluster disagree on which of them has the lock"
			  : refusals[i].advice, text);
		return;
	}
	error_set(err, ERROR_REFUSED, 0, "%s: %.240s", address->label, text);
}

/* ---- addresses ---- */

bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, size_t length,
			int64_t port)
{
	if (!length || length >= sizeof(endpoint->host) || port < 1 || port > UINT16_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)host[i] <= ' ' || (unsigned char)host[i] >= 0x7f)
			return false;
	memcpy(endpoint->host, host, length);
	endpoint->host[length] = '\0';
	endpoint->port = (uint16_t)port;
	return true;
}

bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b)
{
	return a->port == b->port && !strcmp(a->host, b->host);
}

void redis_address_move(struct redis_address *address, const struct redis_endpoint *endpoint)
{
	char text[URI_HOST_SIZE];

	address->at = *endpoint;
	snprintf(address->label, sizeof(address->label), "%s %s",
		 address->sentinel ? "sentinel" : "redis",
		 uri_host_text(endpoint->host, endpoint->port, text, sizeof(text)));
}

/* ---- the bounds of a reply ---- */

/*
 * hiredis keeps a reply in memory until it is complete. A lock with 40,000 waiters fits. A keeper
 * that reads such a reply takes less than 64 MiB. Error texts and INFO are the longest items.
 */
#define MOST_BYTES (16 << 20)
#define MOST_ELEMENTS (1 << 18)
#define MOST_ITEM (256 << 10)

#if HIREDIS_MAJOR < 1
typedef int array_size;
#else
typedef size_t array_size;
#endif

static redisReplyObjectFunctions bounded;
static void *(*allocate_array)(const redisReadTask *task, array_size size);

/* hiredis would allocate as many elements as a reply announces. */
static void *make_array(const redisReadTask *task, array_size size)
{
	struct redis_conn *conn = task->privdata;

	conn->elements += (size_t)size;
	return conn->elements > MOST_ELEMENTS ? NULL : allocate_array(task, size);
}

static redisReader *make_reader(struct redis_conn *conn)
{
	redisReader *reader = redisReaderCreate();

	if (!reader)
		memory_exit();
	bounded = *reader->fn;
	allocate_array = bounded.createArray;
	bounded.createArray = make_array;
	reader->fn = &bounded;
	reader->privdata = conn;
	conn->bytes = conn->elements = 0;
	return reader;
}

/* Is the present reply, which has not ended, longer than any should be? */
static bool is_too_large(const struct redis_conn *conn)
{
	return conn->elements > MOST_ELEMENTS || conn->bytes > MOST_BYTES ||
	       conn->reader->len - conn->reader->pos > MOST_ITEM;
}

/* ---- the connection ---- */

void redis_conn_close(struct redis_conn *conn)
{
	if (!redis_conn_is_open(conn))
		return;
	/* A copy of the descriptor in another process would keep it in the set. */
	epoll_ctl(conn->set_fd, EPOLL_CTL_DEL, conn->stream.fd, NULL);
	/* A release that the server gets late must not end the next hold of the same token. */
	stream_close(&conn->stream);
	redisReaderFree(conn->reader);
	free(conn->unsent);
	conn->unsent = NULL;
	conn->unsent_length = 0;
	conn->unread = conn->ignored = 0;
	conn->received = conn->known = false;
}

bool redis_conn_is_open(const struct redis_conn *conn)
{
	return conn->stream.fd >= 0;
}

void redis_conn_send(struct redis_conn *conn, const char *const argv[])
{
	char *command;
	long long length;	/* An int in hiredis 0.14. */
	int argc = 0;

	while (argv[argc])
		argc++;
	length = redisFormatCommandArgv(&command, argc, (const char **)(uintptr_t)argv, NULL);
	if (length < 0)
		memory_exit();
	conn->unsent = memory_resize(conn->unsent, conn->unsent_length + (size_t)length, 1);
	memcpy(conn->unsent + conn->unsent_length, command, (size_t)length);
	conn->unsent_length += (size_t)length;
	free(command);
}

/* Append a command of the login, whose answer is checked. */
static void send_login(struct redis_conn *conn, const char *const argv[])
{
	redis_conn_send(conn, argv);
	conn->unread++;
}

void redis_conn_begin(struct redis_conn *conn, int fd, bool subscriber)
{
	const struct redis_address *address = conn->address;
	struct epoll_event input = { .events = EPOLLIN };
	char *renewed = uri_renew_password(address->password_file);
	const char *password = renewed ? renewed : address->password;
	const char *const login[] = { "AUTH", address->user ? address->user : password,
				      address->user ? password : NULL, NULL };
	char db[24];

	stream_begin(&conn->stream, fd, address->encrypted ? &address->tls : NULL,
		     address->at.host);
	epoll_ctl(conn->set_fd, EPOLL_CTL_ADD, fd, &input);
	conn->replica = false;
	conn->subscriber = subscriber;
	conn->reader = make_reader(conn);
	if (password)
		send_login(conn, login);
	memory_free_secret(renewed);
	snprintf(db, sizeof(db), "%ld", address->db);
	if (address->db && !subscriber)
		send_login(conn, (const char *const[]){ "SELECT", db, NULL });
	if (address->master)
		send_login(conn, (const char *const[]){ "ROLE", NULL });
	if (address->age && !subscriber)
		send_login(conn, (const char *const[]){ "INFO", "server", NULL });
}

/* A server without TLS reads the handshake as the beginning of a long command, and waits. */
void redis_conn_silent(const struct redis_conn *conn, struct error *err)
{
	error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "%s: %s", conn->address->label,
		  conn->stream.reached ? "no answer" :
		  conn->stream.wanted == POLLOUT ? "cannot connect" :
		  "no answer to the TLS handshake, as from a server without TLS ("
		  REDIS_TLS_HINT ")");
}

/* Has the server sent no reply yet, without TLS? */
static bool is_first_contact(const struct redis_conn *conn)
{
	return !conn->received && !conn->address->encrypted && conn->address->at.port;
}

/*
 * Complete *err after a failed read or write. A server that wants TLS closes the connection after a
 * request without TLS.
 */
static void report_ended(const struct redis_conn *conn, struct error *err)
{
	const bool closed = !err->errnum || err->errnum == EPIPE || err->errnum == ECONNRESET;

	if (closed && conn->subscriber && !conn->received)
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: closed the connection at SUBSCRIBE, "
			  "like a proxy without pub/sub, which waiters need",
			  conn->address->label);
	else if (closed && is_first_contact(conn))
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: closed the connection without an answer, "
			  "like a server that requires TLS (" REDIS_TLS_HINT ")",
			  conn->address->label);
	else
		error_prefix(err, "%s", conn->address->label);
}

int redis_conn_reach(struct redis_conn *conn, struct error *err)
{
	const int state = stream_reach(&conn->stream, err);

	return state < 0 ? error_prefix(err, "%s", conn->address->label) : state;
}

/* Write as much as possible without blocking. */
static int flush_output(struct redis_conn *conn, struct error *err)
{
	ssize_t result;

	while (conn->unsent_length) {
		result = stream_write(&conn->stream, conn->unsent, conn->unsent_length, err);
		if (result < 0)
			report_ended(conn, err);
		if (result <= 0)
			return (int)result;
		conn->unsent_length -= (size_t)result;
		memmove(conn->unsent, conn->unsent + result, conn->unsent_length);
		conn->stream.wanted = POLLIN;
	}
	return 0;
}

/* Take the next complete reply. Returns 1 with *reply, 0 for none, or -1 and sets *err. */
static int parse_reply(struct redis_conn *conn, redisReply **reply, struct error *err)
{
	void *next = NULL;
	const bool failed = redisReaderGetReply(conn->reader, &next) != REDIS_OK;

	if (!next && is_too_large(conn))
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: sends a reply that is too large",
				 conn->address->label);
	if (failed && conn->reader->err == REDIS_ERR_OOM)
		memory_exit();
	/* A server that wants TLS sends an alert to a client without it. */
	if (failed)
		return error_set(err, conn->received ? ERROR_UNAVAILABLE : ERROR_REFUSED, 0,
				 "%s: does not speak the Redis "
				 "protocol%s", conn->address->label,
				 is_first_contact(conn) ? " (" REDIS_TLS_HINT ")" : "");
	if (next) {
		conn->received = true;
		conn->bytes = conn->reader->len - conn->reader->pos;
		conn->elements = 0;
	}
	*reply = next;
	return next != NULL;
}

/* Read without blocking. Returns 1 if there was input, 0 if not, or -1 and sets *err. */
static int feed_reader(struct redis_conn *conn, struct error *err)
{
	/* On the stack, a waiter would keep all these pages for a few bytes. */
	static char data[16384];
	const ssize_t result = stream_read(&conn->stream, data, sizeof(data), err);

	if (result < 0)
		report_ended(conn, err);
	if (result <= 0)
		return (int)result;
	conn->bytes += (size_t)result;
	if (redisReaderFeed(conn->reader, data, (size_t)result) != REDIS_OK)
		memory_exit();
	return 1;
}

/*
 * Read the age and the identity of the server from INFO. The server computes its uptime from two
 * times that are both cut to whole seconds.
 */
static void read_age(struct redis_conn *conn, const redisReply *reply)
{
	char uptime[12];
	long long seconds;

	if (reply->type != REDIS_REPLY_STRING)
		return;
	redis_info_field(reply->str, "uptime_in_seconds", uptime, sizeof(uptime));
	redis_info_field(reply->str, "run_id", conn->run_id, sizeof(conn->run_id));
	seconds = strtoll(uptime, NULL, 10);
	conn->started_ms = clock_boot_ms() - (seconds > 1 ? seconds - 1 : 0) * 1000;
	conn->known = uptime[0];
}

/*
 * Check an answer to the login. A refused AUTH or SELECT also fails the command behind it. So does
 * the ROLE of a replica, which refuses writes, and whose data may be old. The last answer is that
 * to ROLE or INFO.
 */
static int check_login(struct redis_conn *conn, const redisReply *reply, struct error *err)
{
	const bool last = !--conn->unread;

	if (last && conn->address->age) {
		read_age(conn, reply);
		return 0;
	}
	if (reply->type == REDIS_REPLY_ERROR) {
		redis_refusal(conn->address, reply->str, err);
		return -1;
	}
	conn->replica = last && conn->address->master &&
		(!redis_has_shape(reply, "s") || strcmp(reply->element[0]->str, "master") != 0);
	if (conn->replica)
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: is a replica, not the master",
				 conn->address->label);
	return 0;
}

/* Take an answer as parse_reply(), without those to the login and those to be dropped. */
static int take_answer(struct redis_conn *conn, redisReply **reply, struct error *err)
{
	int state;

	while ((state = parse_reply(conn, reply, err)) > 0 && *reply &&
	       (conn->unread || conn->ignored)) {
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

int redis_conn_step(struct redis_conn *conn, bool readable, struct redisReply **reply,
		    struct error *err)
{
	int state = redis_conn_reach(conn, err);

	if (state <= 0)
		return state;
	if (flush_output(conn, err))
		return -1;
	/* Read until there is nothing more: poll() does not see input that TLS has buffered. */
	while (!(state = take_answer(conn, reply, err)) && readable && !conn->unsent_length) {
		state = feed_reader(conn, err);
		if (state <= 0)
			break;
	}
	return state;
}

int redis_conn_poll(struct redis_conn *conn, struct redisReply **reply)
{
	struct error ignored;
	int state;

	if (!redis_conn_is_open(conn))
		return -1;
	state = redis_conn_step(conn, true, reply, &ignored);
	if (state < 0)
		redis_conn_close(conn);
	return state;
}

/* ---- the form and meaning of replies ---- */

bool redis_has_shape(const struct redisReply *reply, const char *shape)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < strlen(shape))
		return false;
	for (size_t i = 0; shape[i]; i++) {
		const int type = reply->element[i]->type;

		if ((shape[i] == 'i' && type != REDIS_REPLY_INTEGER) ||
		    (shape[i] == 's' && type != REDIS_REPLY_STRING) ||
		    (shape[i] == 'a' && type != REDIS_REPLY_ARRAY))
			return false;
	}
	return true;
}

/* The second text is of Redis and Valkey 8. */
bool redis_is_torn(const char *text)
{
	return strstr(text, "access a non local key") ||
	       strstr(text, "accessed during rehashing of the slot");
}

const char *redis_info_field(const char *info, const char *name, char *buf, size_t size)
{
	char key[48];
	const int length = snprintf(key, sizeof(key), "\n%s:", name);
	const bool first = !strncmp(info, key + 1, (size_t)length - 1);
	const char *line = first ? info : strstr(info, key);
	const char *value = line ? strchr(line, ':') + 1 : "";

	snprintf(buf, size, "%.*s", (int)strcspn(value, "\r\n"), value);
	return buf;
}
