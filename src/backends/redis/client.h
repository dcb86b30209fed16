/* SPDX-License-Identifier: MIT */
/*
 * One lock on one Redis server, or on several independent ones (Redlock): the servers, their
 * connections, and the calls to them. A call is a round: the same request to all servers at once,
 * in one poll loop with a deadline. It ends when the outcome is decided. Once a majority has
 * answered, the others have patience_ms. Until then the round lasts up to the timeout of a request,
 * because there is no outcome without a majority.
 *
 * Each server has two connections, always to the same address, because its script counts only
 * waiters that listen there. Answers come in the order of the requests. An answer after the end of
 * its round is dropped, and never taken for the answer to a later request. With several servers,
 * and after a round that was cancelled, one that has not answered keeps its connection: it handles
 * later requests in order, so that a release undoes a late acquisition. A request is sent only over
 * a connection that is established.
 */
#pragma once

#include "base/error.h"
#include "base/net.h"
#include "base/text.h"
#include "conn.h"
#include "lock/backend.h"

struct redis_client;
struct uri;

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

/* The default prefix of the names of locks. */
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
	size_t next;			/* the endpoint to ask next */
	struct redis_endpoint target;	/* the server to connect to */
	/* Sentinel: */
	char *master;
	struct redis_client *sentinel;	/* for one sentinel at a time */
	int64_t named_ms;		/* CLOCK_BOOTTIME before the last answered question */
	/* Cluster: */
	size_t lost;			/* connections in a row */
	bool asking;			/* the next request is to follow ASKING */
	int hops;			/* since the last good reply */
};

enum redis_state {
	SERVER_UNASKED,
	SERVER_ASKED,		/* no answer yet; after a round: none in time */
	SERVER_ANSWERED,	/* reply is set */
	SERVER_FAILED,		/* error is set; reply, too, if it is an error reply */
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
	bool unreached;			/* no answer since a connection to it failed */
	bool resent;			/* sent twice, because the connection broke */
	int tries;			/* connections made in this round */
	bool as_text;			/* the request has the text of its script */
	bool sent;			/* the request, over the present connection; not refused */
	bool woken;			/* a message was received since the last try */
};

typedef enum outcome redis_attempt_fn(struct redis_client *client, const struct request *request,
				      bool enqueue, struct grant *grant, struct error *err);

struct redis_client {
	struct backend base;
	int count, quorum;
	struct redis_server *servers;
	struct redis_route *route;	/* to the one server; NULL: addresses are fixed */
	const struct redis_server *duplicate;	/* of another one, in the last round */
	int64_t patience_ms;
	int64_t until_ms;		/* CLOCK_BOOTTIME: the end of all rounds; 0: none */
	const char *prefix;
	char *keys[REDIS_KEYS];		/* of the one lock of this object */
	const struct redisson_kind *kind;	/* NULL: the plain dialect */
	int64_t most_read_ms;		/* the longest lease of a read lock of Redisson */
	bool sharded;			/* also listen for the messages of SPUBLISH */
	int64_t replicas;		/* ?replicas=: how many must also have a hold */
	/* Try to acquire on several servers; sets retry_ms after BUSY. NULL: on one. */
	redis_attempt_fn *attempt;
	int64_t queued_us;		/* queued_at of the script; 0: not known yet */
	int64_t looked_up_ms;		/* CLOCK_BOOTTIME: the last look-up of names; 0: none */
	int set_fd;			/* epoll, with all connections */
};

static inline struct redis_client *redis_from_backend(struct backend *backend)
{
	return (struct redis_client *)backend;
}

#define REDIS_ARGUMENTS 8

struct redis_call {
	const char *what;		/* first argument of the script; NULL: use command */
	/* Arguments of the script behind the token (lua/common.lua); end with NULL. */
	const char *arguments[REDIS_ARGUMENTS];
	const char *token;
	/* Ends with NULL. NULL: only connect to the servers. */
	const char *const *command;
	bool wake;			/* over the connection that is subscribed */
	unsigned servers;		/* a bit for each server that is asked; 0: all */
	int least;			/* answers before patience_ms counts */
	int64_t timeout_ms;		/* instead of that of a request; 0: that one */
	/* Is the outcome decided? NULL: not before all have answered. */
	bool (*decided)(const struct redis_client *client, const void *state);
	const void *state;
};

/* ---- backend.c: reading addresses from a URI. They return 0, or -1 and set *err ---- */

struct uri_host;

/* Read a host of uri, whose path is "", "/" or "/DB". */
int redis_address_tcp(struct redis_address *address, const struct uri *uri,
		      const struct uri_host *host, struct error *err);
/* Read the parameters of TLS, the user and the password. */
int redis_address_read(struct redis_address *address, const struct uri *uri, struct error *err);

/* ---- client.c ---- */

/* Prepare a zeroed object for count servers, whose addresses the caller fills in. */
void redis_client_init(struct redis_client *client, size_t count);
/* Close the connections and free what the client owns, but not itself. */
void redis_client_finish(struct redis_client *client);

/* Make the names of the keys of a lock, unless there are some. */
void redis_make_keys(struct redis_client *client, const char *name);

/* Connect to the only server within limit_ms. */
int redis_reach(struct redis_client *client, int64_t limit_ms, struct error *err);

/*
 * Run a round. Afterwards the state of each server that was asked is SERVER_ANSWERED,
 * SERVER_FAILED, or SERVER_ASKED if no answer came. Replies live until the next round. An error
 * reply is a failure, and so is the second answer of a server with two names. Connects as needed,
 * and resends the request once if a connection breaks. Returns 0, or -1 with ERROR_CANCELLED.
 */
int redis_round(struct redis_client *client, const struct redis_call *call, struct error *err);

/* Free the replies, because those that list a long queue are large. */
void redis_free_replies(struct redis_client *client);

/*
 * May the server have carried out the request of the last round, or still do so? A server that was
 * not asked in that round may have been asked in the round before.
 */
bool redis_may_have_done(const struct redis_server *server);

/* Count the servers in this state after a round. */
int redis_count(const struct redis_client *client, enum redis_state state);

/*
 * Set *err after a round without a majority of usable answers: how many were usable, and the error
 * of one of the other servers. Returns -1.
 */
int redis_no_majority(const struct redis_client *client, int answered, struct error *err);

/* Close the connection after an unexpected reply, and set *err. Returns -1. */
int redis_odd(struct redis_server *server, struct error *err);

/* Close both connections. */
void redis_server_leave(struct redis_server *server);
/*
 * Between two rounds, drop late answers on the main connection. True: the connection had ended, and
 * was closed.
 */
bool redis_server_drain(struct redis_server *server);

/* Write a number that is not negative in decimal digits. Returns buf. */
static inline const char *redis_digits(int64_t number, char buf[static TEXT_DIGITS_SIZE])
{
	text_digits(buf, (uint64_t)number);
	return buf;
}

/* ---- route.c: finding the server that has a lock where that server can change ---- */

/*
 * Send a request to the only server, or to the one that the route leads to, and connect if
 * necessary. If the connection breaks, the request is sent once more over a new one (base.resent),
 * because all requests can be repeated with the same token. After a timeout it is not: the server
 * would most likely not answer the second time either. With a route the request is sent until the
 * server that has the lock answers, for the timeout of a request or a connection, whichever is
 * longer. If this is another server than before, both connections are closed. Returns 0, and the
 * reply lives until the next round; or -1 and sets *err, also for an error reply.
 */
int redis_ask(struct redis_client *client, const struct redis_call *call, struct error *err);
/*
 * Send a command, which ends with NULL, as redis_ask(), or with an endpoint to this server alone.
 * Returns the reply, or NULL and sets *err.
 */
const struct redisReply *redis_command(struct redis_client *client,
				       const struct redis_endpoint *endpoint,
				       const char *const *command, struct error *err);

/*
 * Run a call about the lock name, or about none (NULL), and wait for a majority where all are
 * asked. Returns 0, or -1 and sets *err: cancelled, or the only server did not answer.
 */
int redis_run(struct redis_client *client, const char *name, struct redis_call *call,
	      struct error *err);
/* Run a call about no lock until a majority has answered. */
int redis_ask_majority(struct redis_client *client, struct redis_call *call, struct error *err);

/* ---- the decisions, for route.c and its unit test ---- */

/* Returned instead of a pause: the reply or the error is final. */
#define REDIS_ROUTE_ENDS (-1)
/* The pause before a question is repeated. */
#define REDIS_ROUTE_PAUSE_MS 100

/*
 * Returns the pause in ms before another try, after a lost connection. A cluster is given up after
 * a try of each node of the URI, and two of the first one, without a reply.
 */
int64_t redis_after_loss(struct redis_route *route);
/* Returns the pause before another try, after an error reply. */
int64_t redis_after_error(struct redis_client *client, const char *text);
/* Read the masters in the reply of the node from to CLUSTER SLOTS. The caller frees *endpoints. */
bool redis_read_masters(const struct redisReply *reply, const struct redis_endpoint *from,
			struct redis_endpoint **endpoints, size_t *count);

/* The name of a holder: the token, or its form in Redisson's locks. */
#define REDIS_OWNER_SIZE 64

/* ---- redisson.c ---- */

/* Read ?dialect=, ?lock= and ?watchdog=. */
int redisson_read(struct redis_client *client, const struct uri *uri, struct error *err);
/* Does this kind of lock support the requested mode? If not, sets *err. */
bool redisson_admits(const struct redis_client *client, const struct request *request,
		     struct error *err);
/* Write the owner for token. Returns owner. */
const char *redisson_owner(const struct redisson_kind *kind, const char *token,
			   char owner[static REDIS_OWNER_SIZE]);
/* Make the names of Redisson's own keys and channels, beside keys[KEY_LOCK]. */
void redisson_make_keys(struct redis_client *client);

/* ---- hold.c ---- */

/*
 * Complete call to acquire, with a fence of at least least, and run it. 0: the server's clock gives
 * the fence, and nobody passes the queue. Returns as redis_run().
 */
int redis_send_acquire(struct redis_client *client, const struct request *request, bool enqueue,
		       uint64_t least, struct redis_call *call, struct error *err);
/* Accept a lease that was requested at sent_ms. HELD, or ERROR with *err: too little is left. */
enum outcome redis_grant(struct redis_client *client, int64_t sent_ms,
			 const struct request *request, struct grant *grant, struct error *err);

/* ---- show.c, shared with Redlock ---- */

/*
 * Add the rows of request->name that the servers report. *answers: how many did. Returns 0, or -1
 * and sets *err if these are no majority.
 */
int redis_show_rows(struct redis_client *client, const struct request *request, struct rows *rows,
		    int *answers, struct error *err);
/* See struct backend_ops. */
extern const struct backend_ops redis_ops;
void redis_close(struct backend *backend);
int redis_connect(struct backend *backend, const struct request *request, struct error *err);
backend_grant_fn redis_acquire, redis_renew;
backend_release_fn redis_release;
int redis_fd(struct backend *backend);
int64_t redis_event(struct backend *backend);
backend_show_fn redis_show;
backend_break_fn redis_break;
int redis_setup(struct backend *backend, char **plan, struct error *err);
int redis_ping(struct backend *backend, struct error *err);
int redis_check(struct backend *backend, struct findings *findings, struct error *err);
