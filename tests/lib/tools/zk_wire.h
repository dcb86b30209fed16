/* SPDX-License-Identifier: MIT */
/*
 * ZooKeeper's protocol, for tools that ask a server without the library that is under test:
 * one connection at a time, one request at a time. Programs end with a message and status 2
 * when no server answers, 1 when it answers with an error.
 */
#pragma once

#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	CREATE = 1, DELETE = 2, EXISTS = 3, GET = 4, SET = 5, GET_ACL = 6, CHILDREN = 8,
	SET_ACL = 7, PING = 11, CREATE_CONTAINER = 19, AUTH = 100, CLOSE = -11,
};
enum { PLAIN = 0, EPHEMERAL = 1, SEQUENCE = 3, CONTAINER = 4 };
enum { SESSION_MS = 30000, ANSWER_MS = 4000, ELECTION_MS = 1000, PAUSE_MS = 2, PASSWORD = 16 };
enum { NO_NODE = -101, OK = 0, DOWN = 1 };

/* What is sent, or what came and how far it was read. */
struct packet {
	unsigned char bytes[1 << 20];
	size_t length, at;
};

struct stat_of {
	int64_t czxid, owner;
	int32_t version, cversion, length, children;
};

static uint16_t ports[8];
static size_t port_count, port_next;
static const char *credentials;	/* "user:password" */
static int fd = -1;
static int32_t last_xid;
static int64_t last_zxid;
static struct packet request, reply;
static void (*idle)(void);	/* called every PAUSE_MS while an answer is waited for */

static inline int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- numbers and strings, as jute writes them */

static inline void put_bytes(const void *bytes, size_t length)
{
	if (length > sizeof(request.bytes) - request.length)
		errx(64, "too long");
	memcpy(request.bytes + request.length, bytes, length);
	request.length += length;
}

static inline void put_int(int32_t number)
{
	uint32_t big = htobe32((uint32_t)number);

	put_bytes(&big, sizeof(big));
}

static inline void put_long(int64_t number)
{
	uint64_t big = htobe64((uint64_t)number);

	put_bytes(&big, sizeof(big));
}

static inline void put_string(const char *string)
{
	put_int((int32_t)strlen(string));
	put_bytes(string, strlen(string));
}

static inline const unsigned char *take_bytes(size_t length)
{
	const unsigned char *bytes = reply.bytes + reply.at;

	if (length > reply.length - reply.at)
		errx(70, "the server's answer is too short");
	reply.at += length;
	return bytes;
}

static inline int32_t take_int(void)
{
	uint32_t big;

	memcpy(&big, take_bytes(sizeof(big)), sizeof(big));
	return (int32_t)be32toh(big);
}

static inline int64_t take_long(void)
{
	uint64_t big;

	memcpy(&big, take_bytes(sizeof(big)), sizeof(big));
	return (int64_t)be64toh(big);
}

/* Into a string of its own. */
static inline char *take_string(void)
{
	int32_t length = take_int();
	char *string;

	string = length > 0 ? strndup((const char *)take_bytes((size_t)length), (size_t)length) :
			      strdup("");
	if (!string)
		err(70, "strdup");
	return string;
}

/* ---- a request, and what comes back */

static inline void hang_up(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}

static inline bool receive_bytes(unsigned char *bytes, size_t length, int64_t deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t n;

	while (length > 0) {
		if (now_ms() > deadline_ms)
			return false;
		if (poll(&pfd, 1, PAUSE_MS) <= 0) {
			if (idle)
				idle();
			continue;
		}
		n = recv(fd, bytes, length, 0);
		if (n <= 0)
			return false;
		bytes += n;
		length -= (size_t)n;
	}
	return true;
}

static inline bool receive_packet(int64_t deadline_ms)
{
	uint32_t big;

	if (!receive_bytes((unsigned char *)&big, sizeof(big), deadline_ms))
		return false;
	reply.length = be32toh(big);
	reply.at = 0;
	return reply.length <= sizeof(reply.bytes) &&
	       receive_bytes(reply.bytes, reply.length, deadline_ms);
}

static inline bool send_packet(void)
{
	uint32_t big = htobe32((uint32_t)request.length);

	return send(fd, &big, sizeof(big), MSG_NOSIGNAL | MSG_MORE) == sizeof(big) &&
	       send(fd, request.bytes, request.length, MSG_NOSIGNAL) == (ssize_t)request.length;
}

/* Starts a request; its own fields follow. */
static inline void begin_request(int32_t operation)
{
	request.length = 0;
	/* those of authentication and of pings are fixed */
	put_int(operation == AUTH ? -4 : operation == PING ? -2 : ++last_xid);
	put_int(operation);
}

/* Sends it. OK, an error of ZooKeeper (below 0), or DOWN. The answer's fields follow. */
static inline int send_request(void)
{
	int64_t deadline_ms = now_ms() + ANSWER_MS, zxid;
	int32_t xid, error, wanted;
	uint32_t big;

	memcpy(&big, request.bytes, sizeof(big));
	wanted = (int32_t)be32toh(big);
	if (fd < 0 || !send_packet())
		return DOWN;
	do {
		if (!receive_packet(deadline_ms))
			return DOWN;
		xid = take_int();
		zxid = take_long();
		error = take_int();
	} while (xid != wanted);
	if (zxid > last_zxid)
		last_zxid = zxid;
	return error;
}

/*
 * The password of a session is made of its number, by the generator of java.util.Random
 * over a seed that all servers share: a client that knows the number can end the session.
 */
static inline void session_password(int64_t session, unsigned char password[PASSWORD])
{
	uint64_t mask = (UINT64_C(1) << 48) - 1;
	uint64_t seed = ((uint64_t)session ^ UINT64_C(0xB3415C00) ^ UINT64_C(0x5DEECE66D)) & mask;
	uint32_t number = 0;

	for (int i = 0; i < PASSWORD; i++) {
		if (i % 4 == 0) {
			seed = (seed * UINT64_C(0x5DEECE66D) + 0xB) & mask;
			number = (uint32_t)(seed >> 16);
		}
		password[i] = (unsigned char)(number >> (i % 4 * 8));
	}
}

/* Asks to take up a session, or to make one (0). */
static inline bool send_greeting(int64_t session)
{
	unsigned char password[PASSWORD] = { 0 };

	if (session)
		session_password(session, password);
	request.length = 0;
	put_int(0);
	put_long(last_zxid);
	put_int(SESSION_MS);
	put_long(session);
	put_int(PASSWORD);
	put_bytes(password, PASSWORD);
	put_bytes("", 1);
	return send_packet();
}

/* The answer that came to that: is there a session now? */
static inline bool read_session(void)
{
	take_int();
	return take_int() > 0;
}

static inline bool connect_to(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int one = 1;

	hang_up();
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(70, "socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return true;
	hang_up();
	return false;
}

/* To the next of the servers, once. */
static inline bool connect_next(void)
{
	bool ok = connect_to(ports[port_next++ % port_count]) && send_greeting(0) &&
		  receive_packet(now_ms() + ANSWER_MS) && read_session();

	if (ok && credentials) {
		begin_request(AUTH);
		put_int(0);
		put_string("digest");
		put_string(credentials);
		ok = send_request() == OK;
	}
	if (!ok)
		hang_up();
	return ok;
}

/* ---- commands */

static inline void check_result(int error, const char *what)
{
	if (error == DOWN)
		errx(2, "%s: no answer", what);
	if (error)
		errx(1, "%s: error %d%s", what, error, error == NO_NODE ? " (no node)" : "");
}

static inline int send_path(int32_t operation, const char *path)
{
	begin_request(operation);
	put_string(path);
	if (operation == EXISTS || operation == GET || operation == CHILDREN)
		put_bytes("", 1);
	if (operation == DELETE)
		put_int(-1);
	return send_request();
}

static inline struct stat_of take_stat(void)
{
	struct stat_of stat;

	stat.czxid = take_long();
	take_bytes(3 * 8);
	stat.version = take_int();
	stat.cversion = take_int();
	take_int();
	stat.owner = take_long();
	stat.length = take_int();
	stat.children = take_int();
	take_long();
	return stat;
}

/* The children of path, in a vector that ends with NULL. */
static inline char **children_of(const char *path, int *error)
{
	char **names;
	int32_t count;

	*error = send_path(CHILDREN, path);
	count = *error ? 0 : take_int();
	names = calloc((size_t)count + 1, sizeof(*names));
	if (!names)
		err(70, "calloc");
	for (int32_t i = 0; i < count; i++)
		names[i] = take_string();
	return names;
}

/* "PORT,PORT...", which it takes apart. */
static inline void read_ports(char *list)
{
	char *port;

	while ((port = strsep(&list, ",")) && port_count < sizeof(ports) / sizeof(ports[0]))
		ports[port_count++] = (uint16_t)atoi(port);
}

/* To any of the servers. For a moment all may refuse, because they elect a leader. */
static inline void reach_any(void)
{
	int64_t deadline_ms = now_ms() + ELECTION_MS;

	for (size_t tries = 1; !connect_next(); tries++)
		if (tries % port_count == 0) {
			if (now_ms() > deadline_ms)
				errx(2, "no server answers");
			poll(NULL, 0, PAUSE_MS);
		}
}
