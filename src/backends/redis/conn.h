/* SPDX-License-Identifier: MIT */
/*
 * One connection to a Redis server, which never waits. hiredis writes and reads the protocol; a
 * reply must not be longer than limit.h allows. A caller polls, so that every wait has a deadline
 * and can be cancelled; client.h does. A connection that failed is closed, and can begin again.
 *
 *	struct redis_conn conn = { .address = ..., .fd = -1, .set_fd = -1 };
 *
 *	redis_conn_begin()	takes a descriptor that is connected, or is about to be
 *	redis_conn_reach()	where the server must be reached before anything is sent
 *	redis_conn_send()	a request, which waits in memory for the first step
 *	redis_conn_step()	at once, and then when conn->wanted has come to conn->fd, until the
 *				answer is there
 *	redis_conn_poll()	a message that nobody asked for: conn->fd is readable
 *	redis_conn_close()
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "limit.h"

struct error;
struct redisReader;
struct redisReply;
struct redis_tls_session;

struct redis_conn {
	const struct redis_address *address;
	int fd;				/* -1: not connected */
	int set_fd;			/* of epoll, which fd is in; -1: none */
	struct redis_tls_session *tls;	/* NULL: none */
	bool greeted;			/* connected, and the handshake is over */
	bool received;			/* the server has sent something */
	short wanted;			/* what to poll conn->fd for before the next step */
	struct redisReader *reader;
	struct redis_limit limit;	/* what of the present reply has come */
	char *unsent;
	size_t unsent_length;
	size_t begun;			/* of these, TLS may send so many at any time */
	int unread;			/* answers to AUTH, SELECT, ROLE, INFO still to come */
	int ignored;			/* answers behind these that nobody wants */
	bool replica;			/* the server was to be a master, and is none */
	/* With address->age, once INFO was answered (known): */
	bool known;
	int64_t uptime_s, known_ms;	/* the uptime at known_ms (CLOCK_BOOTTIME) */
	char run_id[41];
};

/*
 * Begins to speak over fd, which may still be connecting; no I/O. AUTH, SELECT, ROLE and INFO are
 * put in front of the first command and travel with it, as far as the address wants them. A
 * subscriber needs no SELECT: channels belong to no database.
 */
void redis_conn_begin(struct redis_conn *conn, int fd, bool subscriber);
void redis_conn_close(struct redis_conn *conn);

bool redis_conn_is_open(const struct redis_conn *conn);

/*
 * Goes on with connecting and with the handshake, and sends no request. 1: both are over; 0: not
 * before conn->wanted has come to conn->fd; -1 with *err: the connection has failed.
 */
int redis_conn_reach(struct redis_conn *conn, struct error *err);

/*
 * Has the server write what the next command makes it say to other clients before its answer to
 * that command. Redis writes at the end of a turn of its loop, and first to the client to which it
 * had something to say last. Therefore a short question travels in front of the command: with its
 * answer under way, the server had something to say to this client first. Does nothing without a
 * connection. The answer to the question is thrown away, whatever it says.
 */
void redis_conn_let_others_first(struct redis_conn *conn);

/* Appends a command to what is to be sent. Requests are answered in their order. */
void redis_conn_send(struct redis_conn *conn, int argc, const char *const argv[]);

/*
 * May something of the last length bytes that were appended have left this process, or leave it
 * without another step? If not, redis_conn_take_back() removes them.
 */
bool redis_conn_has_begun(const struct redis_conn *conn, size_t length);
void redis_conn_take_back(struct redis_conn *conn, size_t length);

/* Sets *err to say that the server has not answered in time. */
void redis_conn_silent(const struct redis_conn *conn, struct error *err);

/*
 * Goes on with the handshake, writes what can be written, takes the next answer, and reads if that
 * is not there and readable is set; never waits. 1 with *reply, which the caller frees, and which
 * may be an error reply: see redis_refusal(). 0: there is no answer yet. -1 with *err: the
 * connection has failed, and the caller closes it. With conn->replica, or ERROR_REFUSED, the
 * server has certainly not carried out the command.
 */
int redis_conn_step(struct redis_conn *conn, bool readable, struct redisReply **reply,
		    struct error *err);

/*
 * Reads what the server has sent unasked. Returns 1 with *reply, which the caller frees; 0: there
 * is no complete message; -1: the connection has ended and is closed.
 */
int redis_conn_poll(struct redis_conn *conn, struct redisReply **reply);

/* Sets *err to what an error reply means, and what can be done about it. */
void redis_refusal(const struct redis_address *address, const char *text, struct error *err);
