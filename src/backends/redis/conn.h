/* SPDX-License-Identifier: MIT */
/*
 * One connection to a Redis server, which never blocks. hiredis writes and reads the protocol, and
 * the size of a reply has a bound. The caller (client.h) polls, so every wait has a deadline and
 * can be cancelled. A connection that failed is closed, and can begin a second time.
 *
 *	struct redis_conn conn = { .address = ..., .stream.fd = -1, .set_fd = -1 };
 *
 *	redis_conn_begin()	takes a descriptor that is connected, or is connecting
 *	redis_conn_reach()	connects, before anything is sent
 *	redis_conn_send()	a request, which stays in memory until the first step
 *	redis_conn_step()	at once, and then when its stream is ready for what it wants,
 *				until the answer is there
 *	redis_conn_poll()	an unsolicited message, when the stream is readable
 *	redis_conn_close()
 */
#pragma once

#include <stdint.h>

#include "base/stream.h"

struct redisReader;
struct redisReply;

/* For messages about a server that has TLS where the URI has none, or the other way round. */
#define REDIS_TLS_HINT "TLS is chosen by rediss: or ?tls=yes, and for sentinels by ?sentinel-tls="

/* A server as another server names it. */
struct redis_endpoint {
	char host[256];
	uint16_t port;		/* 0: there is none, and host is "" */
};

struct redis_address {
	bool encrypted;		/* TLS */
	bool master;		/* a server that reports to be a replica counts as failed */
	bool sentinel;
	bool cluster;		/* a node of a cluster, whose MOVED is followed */
	bool age;		/* ask for the age of the server with the first request */
	struct redis_endpoint at;	/* port 0: a Unix socket, or not known yet */
	const char *user, *password;	/* of the URI; NULL: none */
	const char *password_file;	/* read for each connection; NULL: none */
	long db;
	struct tls_params tls;
	char label[128];	/* for messages: "redis 127.0.0.1:6379" */
};

struct redis_conn {
	const struct redis_address *address;
	struct stream stream;
	int set_fd;			/* of epoll, for all that the client has open */
	bool subscriber;		/* begun for messages alone */
	bool received;			/* the server has sent a reply */
	struct redisReader *reader;
	size_t bytes, elements;		/* of the present reply */
	char *unsent;
	size_t unsent_length;
	int unread;			/* answers to AUTH, SELECT, ROLE, INFO still to come */
	int ignored;			/* answers behind these that are dropped */
	bool replica;			/* address->master is set, and it is a replica */
	/* With address->age, once INFO was answered (known): */
	bool known;
	int64_t started_ms;		/* CLOCK_BOOTTIME: the server started then, or before */
	char run_id[41];
};

/*
 * Begin a connection over fd, which may still be connecting; no I/O. AUTH, SELECT, ROLE and INFO
 * are put in front of the first command, as far as the address wants them. A subscriber needs no
 * SELECT, because channels belong to no database.
 */
void redis_conn_begin(struct redis_conn *conn, int fd, bool subscriber);
void redis_conn_close(struct redis_conn *conn);

bool redis_conn_is_open(const struct redis_conn *conn);

/*
 * Continue connecting and the handshake, and send no request. Returns 1 when both are over, 0 to
 * poll the stream first, or -1 and sets *err if the connection has failed.
 */
int redis_conn_reach(struct redis_conn *conn, struct error *err);

/* Append a command, which ends with NULL, to the output. Requests are answered in their order. */
void redis_conn_send(struct redis_conn *conn, const char *const argv[]);

/* Set *err for a server that has not answered in time. */
void redis_conn_silent(const struct redis_conn *conn, struct error *err);

/*
 * Continue the handshake, write, and take the next answer, after a read if it is missing and
 * readable is set. Never blocks. Returns 1 with *reply, which the caller frees and which may be an
 * error reply (redis_refusal()); 0 without an answer; or -1 and sets *err if the connection has
 * failed, which the caller then closes. With conn->replica, or ERROR_REFUSED, the server has
 * certainly not carried out the command.
 */
int redis_conn_step(struct redis_conn *conn, bool readable, struct redisReply **reply,
		    struct error *err);

/*
 * Read an unsolicited message. Returns 1 with *reply, which the caller frees; 0 if there is no
 * complete message; or -1 if the connection had ended, and was closed.
 */
int redis_conn_poll(struct redis_conn *conn, struct redisReply **reply);

/* Set *err to the meaning of an error reply, and to what can be done about it. */
void redis_refusal(const struct redis_address *address, const char *text, struct error *err);

/* ---- addresses ---- */

/*
 * Read an endpoint: length bytes of host, without brackets. False: the host is empty, too long or
 * has other characters than a name or an address, or the port is none.
 */
bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, size_t length,
			int64_t port);
bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b);
/* Move address to another endpoint. */
void redis_address_move(struct redis_address *address, const struct redis_endpoint *endpoint);

/* ---- the form and meaning of replies ---- */

/*
 * Is reply an array that begins with elements of these types? A letter for each: 'i' an integer,
 * 's' a string, 'a' an array, '.' anything.
 */
bool redis_has_shape(const struct redisReply *reply, const char *shape);

/*
 * Is this the error of a script that has lost a key while it ran? Then a part of it was carried
 * out.
 */
bool redis_is_torn(const char *text);

/* Copy the value of a field of INFO to buf, and return buf; "": there is none. */
const char *redis_info_field(const char *info, const char *name, char *buf, size_t size);
