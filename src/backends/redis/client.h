/* SPDX-License-Identifier: MIT */
/*
 * One lock on one Redis server, or on several that know nothing of each other (Redlock): the
 * servers, their connections, and the calls to them. A call is a round: the same request to all
 * servers at once, in one poll loop with a deadline. It ends when the outcome is decided. Once a
 * majority has answered, the others have patience_ms. While fewer have, the round goes on up to the
 * timeout of a request, because there is no outcome without a majority.
 *
 * Each server has two connections, always to the same address, because its script counts only those
 * waiters that listen there. Answers come in the order of the requests. One that comes after the
 * end of its round is dropped, and is never taken for the answer to a later request. Of several
 * servers, one that has not answered keeps its connection: it carries out what is sent later behind
 * that request, so that a release removes what a late acquisition has taken. A request of which
 * nothing has left this process at the end of its round is taken back.
 */
#pragma once

#include "base/error.h"
#include "base/net.h"
#include "base/text.h"
#include "conn.h"
#include "lock/backend.h"
#include "reply.h"


struct redis_client;

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

/* What stands before the names of locks, unless the URI says otherwise. */
#define REDIS_PREFIX "dlock:"
#define REDIS_MOST_SERVERS 7

/* A kind of Redisson's locks: redisson.c. */
struct redisson_kind {
	const char *name;
	const char *channel;	/* prefix of the channel that Java's waiters listen to */
	const char *fence;	/* prefix of the key of the last fence; NULL: it is dlock's own */
	unsigned int can;	/* of enum backend_can */
};

/* How to find a server that can change: route.c. */
struct redis_route {
	bool cluster;			/* false: Sentinel */
	struct redis_endpoint *endpoints;	/* of the URI: sentinels, or nodes of the cluster */
	size_t count;
	size_t next;			/* the one to ask */
	/* How often a connection was lost in a row, in a cluster to a node of the URI. */
	size_t lost;
	/* Sentinel: */
	char *master;
	struct redis_client *sentinel;	/* for the one that is asked */
	int64_t named_ms;		/* CLOCK_BOOTTIME before the last answered question */
	/* Cluster: */
	struct redis_endpoint target;	/* where a node has sent us; port 0: nowhere */
	bool asking;			/* the next request is to follow ASKING */
	int hops;			/* since the last good reply */
};

enum redis_state {
	SERVER_UNASKED,
	SERVER_ASKED,		/* no answer yet; after a round: none in time */
	SERVER_ANSWERED,	/* reply is there */
	SERVER_FAILED,		/* error says why; reply is there if it is an error reply */
};

struct redis_server {
	struct redis_address address;
	struct redis_conn main;		/* requests */
	struct redis_conn wake;		/* subscribed, while waiting */
	struct net_address found[NET_ADDRESSES];	/* of the name */
	int found_count, next;		/* 0 or less: the name was not found, */
	struct error unresolved;	/* for this reason */
	/* The present round, or the last one: */
	enum redis_state state;
	struct redisReply *reply;
	struct error error;
	bool unreached;			/* it has not answered since a connection to it failed */
	bool resent;			/* sent twice, for the connection broke in between */
	int tries;			/* connections made in this round */
	size_t length;			/* of the request */
	bool as_text;			/* the request has the text of its script */
	bool sent;			/* SERVER_ASKED, after the round: it is under way */
	bool woken;			/* a message has come since the last try */
};

typedef enum outcome redis_attempt_fn(struct redis_client *client, const struct request *request,
				      bool enqueue, struct grant *grant, struct error *err);

struct redis_client {
	struct backend base;
	int count, quorum;
	struct redis_server *servers;
	struct redis_route *route;	/* finds the one server; NULL: they are at their address */
	const struct redis_server *duplicate;	/* of another one, in the last round */
	int64_t patience_ms;
	int64_t until_ms;		/* CLOCK_BOOTTIME: the end of all rounds; 0: none */
	char *prefix;
	char *keys[REDIS_KEYS];		/* of the one name that the object is used for */
	const struct redisson_kind *kind;	/* NULL: the plain dialect */
	int64_t most_read_ms;		/* the longest lease of a read lock of Redisson */
	bool sharded;			/* listen for the messages of SPUBLISH, too */
	int64_t replicas;		/* ?replicas=: how many must have a hold, too */
	/* One try to acquire, of several servers; after BUSY retry_ms is set. NULL: of one. */
	redis_attempt_fn *attempt;
	int64_t queued_us;		/* what acquire calls queued_at; 0: not known yet */
	int64_t lease_end_ms;		/* of the last grant; 0: there was none */
	bool listens_on;		/* the lock is held, and the waiter still listens */
	int64_t looked_up_ms;		/* CLOCK_BOOTTIME: the last look-up of names; 0: none */
	int epoll_fd;			/* of several servers: see redis_fd(); -1: none */
};

static inline struct redis_client *redis_from_backend(struct backend *backend)
{
	return (struct redis_client *)backend;
}

#define REDIS_ARGUMENTS 8

struct redis_call {
	const char *what;		/* the script is to do; NULL: command */
	/* Of the script, behind the token (lua/common.lua); they end with NULL. */
	const char *arguments[REDIS_ARGUMENTS];
	const char *token;
	/* Ends with NULL. NULL: the servers are only to be reached. */
	const char *const *command;
	bool wake;			/* over the other connection */
	unsigned servers;		/* a bit for each server that is asked; 0: all */
	int least;			/* so many must answer before patience_ms counts */
	int64_t timeout_ms;		/* instead of that of a request; 0: that one */
	/* Is the outcome decided? NULL: not before all have answered. */
	bool (*decided)(const struct redis_client *client, const void *state);
	const void *state;
};

/* Prepares an object that is zeroed, for so many servers at most: redis_client_add(). */
void redis_client_init(struct redis_client *client, size_t most);
/* The next server, whose address the caller fills in. */
struct redis_server *redis_client_add(struct redis_client *client);
/* Closes the connections and frees what the client owns, but not itself. */
void redis_client_finish(struct redis_client *client);

/* Before a call: makes the keys of name, unless that is NULL, and looks up the servers. */
void redis_begin(struct redis_client *client, const char *name);

/*
 * Connects to the servers. 0; -1 with *err: no majority is there within limit_ms.
 */
int redis_reach(struct redis_client *client, int64_t limit_ms, struct error *err);

/*
 * Runs a round. Afterwards the state of each server that was asked is SERVER_ANSWERED,
 * SERVER_FAILED, or SERVER_ASKED when its answer did not come; replies live until the next round.
 * An error reply is a failure, and so is the second answer of a server that two names lead to.
 * Several servers are connected to as needed, and sent the request once more over a new connection
 * when one breaks. 0, or -1 with ERROR_CANCELLED.
 */
int redis_round(struct redis_client *client, const struct redis_call *call, struct error *err);

/* Frees the replies: those that list a long queue are large. */
void redis_free_replies(struct redis_client *client);

/*
 * May the server have carried out the request of the last round, or do so at any time? One that was
 * not asked in that round may have been asked in the round before.
 */
bool redis_may_have_done(const struct redis_server *server);

/* The number of servers that are in this state after a round. */
int redis_count(const struct redis_client *client, enum redis_state state);

/*
 * Sets *err after a round in which so many servers have answered in a way that counts, when that is
 * no majority: how many did, and what one of the others said. Returns -1.
 */
int redis_no_majority(const struct redis_client *client, int answered, struct error *err);

/* After an answer that no script or command gives: closes the connection and sets *err. -1. */
int redis_odd(struct redis_server *server, struct error *err);

/* Closes both connections. */
void redis_server_leave(struct redis_server *server);
/*
 * Between two rounds: drops the late answers that have come over the main connection. True: the
 * connection has ended, and is closed.
 */
bool redis_server_drain(struct redis_server *server);

/* ---- listen.c ---- */

bool redis_listens(const struct redis_client *client);
/*
 * Subscribes to the channel of owner, unless that is done, and to keys[KEY_SHARED]; the keys are
 * made. The waiter counts as alive from then on. 0, or -1: fewer than a majority listen.
 */
int redis_listen(struct redis_client *client, const char *owner, struct error *err);
void redis_stop_listening(struct redis_client *client);
/* See struct backend_ops. */
int redis_fd(struct backend *backend);
int64_t redis_event(struct backend *backend);

/* A number that is not negative, in decimal digits. Returns buf. */
#define REDIS_DIGITS_SIZE TEXT_DIGITS_SIZE
const char *redis_digits(int64_t number, char buf[static REDIS_DIGITS_SIZE]);
