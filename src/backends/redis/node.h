/* SPDX-License-Identifier: MIT */
/* One lock on one Redis server: its keys, and the calls that work on them. */
#ifndef DLOCK_REDIS_NODE_H
#define DLOCK_REDIS_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "lock/backend.h"
#include "conn.h"

struct script {
	const char *sha1;	/* of text, 40 hex digits */
	const char *text;
};

/* In the order of KEYS in the scripts; the channel's prefix is their ARGV[1]. */
enum redis_key {
	KEY_LOCK, KEY_HOLDERS, KEY_QUEUE, KEY_WAITERS, KEY_FENCE, KEY_CHANNEL, REDIS_KEYS
};

struct redis_node {
	struct backend base;
	struct redis_address address;
	char *prefix;
	char *keys[REDIS_KEYS];		/* of the one name this node is used for */
	struct redis_conn main;
	struct redis_conn wake;		/* subscribed, while waiting */
	bool resent;			/* the last call was sent twice */
};

/* Reads where and as whom from uri. 0, or -1 with *err; finish in any case. */
int redis_node_init(struct redis_node *node, const struct uri *uri, struct error *err);
void redis_node_finish(struct redis_node *node);

/* Makes node->keys for name, once. 0 or -1. */
int redis_node_keys(struct redis_node *node, const char *name, struct error *err);

/* Connects, if there is no connection. The login travels with the first command. 0, or -1. */
int redis_node_connect(struct redis_node *node, struct error *err);

/*
 * Sends a command, connecting if need be. When the connection breaks under it, it
 * is sent once more over a new one (node->resent): all our commands can be repeated
 * with the same token. Not after a timeout, for a server that hangs would do so
 * again. The caller frees the reply. NULL with *err.
 */
struct redisReply *redis_node_command(struct redis_node *node, int argc,
				      const char *const argv[], struct error *err);

/* The same, but an error reply is an error, too. */
struct redisReply *redis_node_ask(struct redis_node *node, int argc,
				  const char *const argv[], struct error *err);

/* Runs a script; arguments end with NULL. NULL with *err, error replies included. */
struct redisReply *redis_node_script(struct redis_node *node, const struct script *script,
				     const struct request *request,
				     const char *const arguments[], struct error *err);

/*
 * Listens on a waiter's channel, if it does not yet; from then on the waiter counts
 * as alive. who: its token, or REDIS_FREE for word that nobody holds the lock or
 * waits. 0 or -1.
 */
#define REDIS_FREE "free"
int redis_node_listen(struct redis_node *node, const char *who, struct error *err);

/* Closes what answered beyond reason; fills *err. Frees reply, which may be NULL. */
void redis_node_odd(struct redis_node *node, struct redisReply *reply, struct error *err);

/* A number that is not negative as text, in base ten. Returns buf. */
#define REDIS_DIGITS_SIZE TEXT_DIGITS_SIZE
const char *redis_digits(int64_t number, char buf[static REDIS_DIGITS_SIZE]);

bool redis_is_integer(const struct redisReply *reply);
bool redis_is_text(const struct redisReply *reply);
bool redis_is_array(const struct redisReply *reply, size_t least);

#endif
