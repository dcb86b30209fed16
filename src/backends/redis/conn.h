/* SPDX-License-Identifier: MIT */
/*
 * One connection to a Redis server: hiredis makes and reads the protocol, the
 * waiting is ours, so that every wait has a deadline and can be cancelled. A
 * connection that failed is closed; the next call that needs one opens it anew.
 */
#ifndef DLOCK_REDIS_CONN_H
#define DLOCK_REDIS_CONN_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct redisContext;
struct redisReply;

/* Where and as whom. The owner of the connection keeps it. */
struct redis_address {
	char *host;		/* NULL: Unix socket */
	uint16_t port;
	char *unix_path;
	char *user;		/* NULL: none */
	char *password;		/* NULL: none */
	long db;
	char label[128];	/* for messages: "redis 127.0.0.1:6379" */
};

/* Bounds of a wait, see net.h. */
struct redis_limits {
	int64_t connect_ms;	/* time, from the call */
	int64_t request_ms;
	int cancel_fd;
};

struct redis_conn {
	struct redisContext *context;	/* NULL: not connected */
	int unread_greetings;		/* replies to AUTH and SELECT still to come, and the like */
};

/*
 * Connects, if it is not connected. AUTH and SELECT (not for a subscriber, which
 * has no database) are put in front of what is sent first and travel with it.
 * 0, or -1.
 */
int redis_conn_open(struct redis_conn *conn, const struct redis_address *address,
		    bool subscriber, const struct redis_limits *limits, struct error *err);
void redis_conn_close(struct redis_conn *conn);

/* The descriptor, or -1. */
int redis_conn_fd(const struct redis_conn *conn);

/*
 * Sends one command and receives its reply, which the caller frees with
 * freeReplyObject(). A reply that is an error is a reply: see redis_refusal(). NULL with
 * ERROR_UNAVAILABLE or ERROR_CANCELLED: the connection is closed, and the command
 * may have been carried out.
 */
struct redisReply *redis_conn_command(struct redis_conn *conn,
				      const struct redis_address *address, int argc,
				      const char *const argv[],
				      const struct redis_limits *limits,
				      struct error *err);

/*
 * Puts a command, which ends with NULL, in front of the next one, to travel with it. Its answer
 * is dropped; an error is the answer to the next one, too. Nothing on a closed connection, or
 * when it has no words.
 */
void redis_conn_ahead(struct redis_conn *conn, const char *const argv[]);

/*
 * Takes in what has come without being asked for, a message or the end of the connection.
 * Returns 1 with *reply, which the caller frees; 0: nothing complete; -1: closed.
 */
int redis_conn_poll(struct redis_conn *conn, struct redisReply **reply);

/* Turns an error reply into *err: what it means and what to do. */
void redis_refusal(const struct redis_address *address, const char *text,
		   struct error *err);

#endif
