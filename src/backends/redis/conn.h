/* SPDX-License-Identifier: MIT */
/*
 * One connection to a Redis server. hiredis writes and reads the protocol, a transport moves the
 * bytes, and all waiting is done here, so that every wait has a deadline and can be cancelled. A
 * reply must be whole at the deadline, and must not be longer than limit.h allows.
 * A connection that failed is closed, and can be opened again.
 *
 *	struct redis_conn conn = { .backend = ..., .address = ..., .fd = -1 };
 *
 *	redis_conn_open()		before each of the following two
 *	redis_conn_command()		a request and its answer
 *	redis_conn_poll()		a message that nobody asked for: conn->fd is readable
 *	redis_conn_close()
 *
 * A caller that has several connections, and polls them all at once, does the same in steps:
 *
 *	redis_conn_begin()		takes a descriptor that is connected, or is about to be
 *	redis_conn_reach()		where the server must be reached before anything is sent
 *	redis_conn_send()		a request, which waits in memory for the first step
 *	redis_conn_step()		at once, and then when redis_conn_events() have come to
 *					conn->fd, until the answer is there
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "address.h"
#include "limit.h"

struct backend;
struct error;
struct redis_conn;
struct redisReader;
struct redisReply;

/* How bytes travel. Nothing else in this backend reads or writes the descriptor. */
struct redis_transport {
	/* Sets conn->fd, which does not block. 0 or -1. */
	int (*connect)(struct redis_conn *conn, int64_t deadline_ms, struct error *err);
	/*
	 * Goes on with what must be said before the first byte, without blocking; the connection
	 * may still be under way. 1: it has been said; 0 and -1 as below. NULL: there is nothing.
	 */
	int (*handshake)(struct redis_conn *conn, struct error *err);
	/*
	 * Read and write without blocking, and return the number of bytes. 0: none can be moved
	 * before conn->fd is ready for the events in conn->wanted, and the transport itself keeps
	 * none back that were read. What was to be written is given again then, perhaps with more
	 * behind; conn->begun says how much of it the transport may have begun to send. -1 with
	 * *err: the connection has ended.
	 */
	ssize_t (*read)(struct redis_conn *conn, void *data, size_t size, struct error *err);
	ssize_t (*write)(struct redis_conn *conn, const void *data, size_t size,
			 struct error *err);
	/* conn->fd is open. */
	void (*close)(struct redis_conn *conn);
};

extern const struct redis_transport redis_tcp, redis_unix, redis_tls;

struct redis_conn {
	const struct backend *backend;	/* has the timeouts and the descriptor that cancels */
	const struct redis_address *address;
	int fd;				/* -1: not connected */
	struct redis_tls_session *tls;	/* of the transport redis_tls; NULL: none */
	bool greeted;			/* the handshake is over */
	bool heard;			/* the server has sent something */
	short wanted;			/* what poll() must wait for before the transport goes on */
	struct redisReader *reader;
	struct redis_limit limit;	/* what of the present reply has come */
	int messages;			/* that came unasked without a pause */
	char *unsent;
	size_t unsent_length;
	size_t begun;			/* of these, the transport may send so many at any time */
	int unread;			/* answers to AUTH, SELECT, ROLE still to come */
	int ignored;			/* answers behind these that nobody wants */
	bool replica;			/* the server was to be a master, and is none */
};

/*
 * Connects, unless there is a connection, and waits for the end of the handshake. AUTH, SELECT and
 * ROLE are put in front of the first command and travel with it, as far as the address wants them.
 * A subscriber needs no SELECT: channels belong to no database. 0 or -1.
 */
int redis_conn_open(struct redis_conn *conn, bool subscriber, struct error *err);
void redis_conn_close(struct redis_conn *conn);

bool redis_conn_is_open(const struct redis_conn *conn);

/*
 * Sends one command and receives its reply, which the caller frees with freeReplyObject(). An error
 * reply is a reply, too: see redis_refusal(). NULL with ERROR_UNAVAILABLE or ERROR_CANCELLED: the
 * connection is closed, and the command may have been carried out. NULL with ERROR_REFUSED: the
 * server does not let this user in. With conn->replica it has certainly not been carried out.
 */
struct redisReply *redis_conn_command(struct redis_conn *conn, int argc, const char *const argv[],
				      struct error *err);

/* Begins to speak over fd, a TCP connection, which may still be under way; no I/O. */
void redis_conn_begin(struct redis_conn *conn, int fd, bool subscriber);

/*
 * Goes on with connecting and with the handshake, and sends no request. 1: both are over; 0: not
 * before redis_conn_events() have come to conn->fd; -1 with *err: the connection has failed.
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

/* What to poll conn->fd for. */
short redis_conn_events(const struct redis_conn *conn);

/* Sets *err to say that the server has not answered in time. */
void redis_conn_silent(const struct redis_conn *conn, struct error *err);

/*
 * Goes on with the handshake, writes what can be written, takes the next answer, and reads if that
 * is not there and readable is set; never waits. 1 with *reply, which the caller frees; 0: there is
 * no answer yet; -1 with *err: the connection has failed, and the caller closes it.
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
