/* SPDX-License-Identifier: MIT */
/*
 * One lock on one Redis server: its keys, its two connections, and the calls that use them. With
 * a route the server may be another one at each call. The two connections always go to the same
 * server, because its scripts count only those waiters that listen there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "lock/backend.h"
#include "conn.h"
#include "reply.h"

struct redis_route;

struct script {
	const char *sha1;	/* of text, 40 hex digits */
	const char *text;
};

/* In the order of KEYS in the script. Those that a dialect does not have are NULL. */
enum redis_key {
	KEY_LOCK, KEY_HOLDERS, KEY_QUEUE, KEY_WAITERS, KEY_FENCE, KEY_TIMEOUTS,
	KEY_CHANNEL,		/* no key: the prefix of the waiters' channels */
	KEY_SHARED,		/* no key: a channel that all waiters listen to */
	REDIS_KEYS
};

/* Made from the .lua files by lua/embed.sh: the one script in each dialect. */
extern const struct script script_plain, script_redisson;
#define REDIS_ARGUMENTS 16

/* What stands before the names of locks, unless the URI says otherwise. */
#define REDIS_PREFIX "dlock:"

/* Makes those keys of a name that are NULL; the caller frees them. */
void redis_make_keys(const char *prefix, const char *name, char *keys[static REDIS_KEYS]);

struct redis_node {
	struct backend base;
	struct redis_address address;
	struct redis_route *route;	/* NULL: always at address */
	char *prefix;
	char *keys[REDIS_KEYS];		/* of the one name that the node is used for */
	struct redis_conn main;
	struct redis_conn wake;		/* subscribed, while waiting */
	bool resent;			/* the last call was sent twice, to the same server */
	int64_t sent_ms;		/* CLOCK_BOOTTIME before the last call was last sent */
	bool sharded;			/* listen for the messages of SPUBLISH, too */
	int64_t replicas;		/* how many must have a hold: see replicas.h */
};

/*
 * Reads address and user from uri. 0, or -1 with *err; redis_node_finish() follows in both cases.
 */
int redis_node_init(struct redis_node *node, const struct uri *uri, struct error *err);
void redis_node_finish(struct redis_node *node);

/* Connects if there is no connection. 0 or -1. */
int redis_node_connect(struct redis_node *node, struct error *err);

/*
 * Connects if there is no connection, and sends a command. When the connection breaks, the command
 * is sent once more over a new one (node->resent): all commands of this backend can be repeated
 * with the same token. After a timeout it is not, for the server would most likely not answer the
 * second time either. The caller frees the reply. NULL with *err.
 *
 * With a route the command is sent again, to where the lock is now, until that server answers; it
 * takes no longer than a request or a connection may, whichever is longer. When the server is
 * another one than before, node->wake is closed.
 */
struct redisReply *redis_node_command(struct redis_node *node, int argc, const char *const argv[],
				      struct error *err);

/* The same, but NULL with *err also for an error reply. */
struct redisReply *redis_node_ask(struct redis_node *node, int argc, const char *const argv[],
				  struct error *err);

/* Reads the server's clock, in us since 1970. 0 or -1. */
int redis_node_time(struct redis_node *node, int64_t *us, struct error *err);

/*
 * Calls visit(), whose commands go to this server alone, for each of these places, and stops when
 * one returns -1. 0 or -1.
 */
int redis_node_visit(struct redis_node *node, const struct redis_place *places, size_t count,
		     int (*visit)(struct redis_node *node, void *context, struct error *err),
		     void *context, struct error *err);

/* The same for each server that may have locks. */
int redis_node_each(struct redis_node *node,
		    int (*visit)(struct redis_node *node, void *context, struct error *err),
		    void *context, struct error *err);

/*
 * Run a script with node->keys and these arguments, which end with NULL. As redis_node_ask().
 */
struct redisReply *redis_node_script(struct redis_node *node, const struct script *script,
				     const char *const arguments[], struct error *err);

/*
 * Subscribe to the channel of who, unless that is done, and to the channel shared, unless that is
 * NULL; node->keys are made. The waiter counts as alive from then on. 0 or -1.
 */
int redis_node_listen(struct redis_node *node, const char *who, const char *shared,
		      struct error *err);

/*
 * After an answer that no script or command gives: closes the connection, frees reply, which may
 * be NULL, sets *err, and returns -1.
 */
int redis_node_odd(struct redis_node *node, struct redisReply *reply, struct error *err);

/* A number that is not negative, in decimal digits. Returns buf. */
#define REDIS_DIGITS_SIZE TEXT_DIGITS_SIZE
const char *redis_digits(int64_t number, char buf[static REDIS_DIGITS_SIZE]);
