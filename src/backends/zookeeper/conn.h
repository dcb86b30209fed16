/* SPDX-License-Identifier: MIT */
/*
 * A session with ZooKeeper, over libzookeeper_mt, with deadlines. The library has threads of its
 * own and waits without limit. Here these threads only write news to a pipe. All else belongs to
 * the main thread, the only other thread of this process. It takes the news in their order while it
 * waits for replies, or when the engine finds zk_conn_fd() readable.
 *
 * The library connects to another server when a connection ends. It notices late that a server
 * drops packets or hangs, so conn.c then closes the library's connection.
 *
 * An operation is zk_conn_begin(), zk_conn_open(), requests and zk_conn_wait(). While
 * zk_conn_again() returns true, the operation is repeated from zk_conn_open() on. Its calls, and
 * all other memory from zk_conn_memory(), live until the next operation begins.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

#include "base/error.h"
#include "lock/backend.h"
#include "lock/uri.h"

/* The timeout of a session that only reads. */
#define ZK_ASKING_MS 5000

#define ZK_PATH_SIZE 1280

/*
 * The paths of an entry and its shadow. The shadow's is "" where there is none: with strategy node,
 * and in the entries of other programs.
 */
struct zk_pair {
	char node[ZK_PATH_SIZE];
	char shadow[ZK_PATH_SIZE];
};

/* A result that is not ZooKeeper's: no reply came. zk_conn_wait() has set conn->why. */
#define ZK_UNANSWERED 1

struct zk_call {
	struct zk_conn *conn;
	int rc;			/* ZOK, ZNONODE ..., or ZK_UNANSWERED */
	int64_t sent_ms;	/* CLOCK_BOOTTIME */
	/* Zero if rc is not ZOK, but text may also be "": */
	struct Stat stat;
	char *text;		/* data of the node, up to a NUL; names, each with a NUL */
	size_t count;		/* names */
	zoo_op_t ops[2];
	zoo_op_result_t results[2];
};

/* What a thread of the library reports: one of call, watch and state. */
struct zk_news {
	struct zk_call *call;	/* it is answered */
	int rc;			/* with this result */
	uint32_t watch;		/* the watch that was set with this number has fired */
	int state;		/* the session's new state, ZOO_..._STATE */
};

#define ZK_CONTACTS 16

struct zk_conn {
	/* ---- set up by zk_conn_init(), then unchanged */
	struct backend *backend;	/* it has timeouts and cancel_fd */
	void (*on_watch)(struct zk_conn *conn, uint32_t watch);	/* a watch has fired */
	struct uri_host *hosts;
	size_t host_count;
	char *auth;			/* "user:password"; NULL: none */
	char *user;			/* for messages, as label */
	const char *password_file;	/* read for each session; NULL: none */
	char *tls;			/* "ca,cert,key,"; NULL: none */
	char label[URI_LOCATION_SIZE];
	int news[2];			/* the pipe: its end to read from, and to write to */
	int ready_fd;			/* always readable */

	/* ---- used by the main thread alone, as all but zk_conn_report() */
	zhandle_t *handle;
	int state;			/* ZOO_..._STATE, 0: connecting */
	int64_t session;		/* its number; 0: this handle was never connected */
	int64_t ttl_ms;			/* granted */
	int64_t deadline_ms;		/* of the operation under way */
	struct error why;		/* zk_conn_wait() has failed */
	int64_t contacts[ZK_CONTACTS];	/* when answered requests left, the last one first */
	int64_t started_ms;		/* before this connection was made */
	int64_t refused_ms;		/* since when servers refuse our session; 0: they do not */
	int pending;			/* number of calls without an answer */
	void **memory;			/* of the operation */
	size_t memory_count;
	uint64_t foreign;		/* connections that are not the library's */
	uint32_t last_watch;		/* the number of the last watch */
	/* on_watch() was called, or a connection has ended. Cleared by zk_event(). */
	bool eventful;
};

/* Copies from uri. Returns 0, or -1 and sets *err. Call zk_conn_finish() in any case. */
int zk_conn_init(struct zk_conn *conn, struct backend *backend, const struct uri *uri,
		 struct error *err);

#define ZK_ANSWER_SIZE 2048

/*
 * Ask a server in clear text for its version and role. With TLS, only connect, and the answer is
 * "". Returns 0, and the server serves; or sets *err, which names the server, and returns 1 if it
 * has no quorum, or -1.
 */
int zk_conn_ask(const struct zk_conn *conn, const struct uri_host *host,
		char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err);

/* Begin an operation: all waits until the next call of this function end within ms. */
void zk_conn_begin(struct zk_conn *conn, int64_t ms);

/* Allocate zeroed memory that lives as long as the operation. */
void *zk_conn_memory(struct zk_conn *conn, size_t count, size_t size);
/* Free this memory early, before a long wait. Keeps it while calls have no answer. */
void zk_conn_free(struct zk_conn *conn);

/*
 * Connect the session, or make one with ttl_ms. Returns 0, or -1 and sets *err. A session that has
 * expired is reported as ERROR_UNAVAILABLE with errnum ESTALE, until zk_conn_close() is called.
 */
int zk_conn_open(struct zk_conn *conn, int64_t ttl_ms, struct error *err);

/*
 * End the session, so that the server removes its ephemeral nodes. A session that is not connected
 * expires. Takes 1.5 s at most.
 */
void zk_conn_close(struct zk_conn *conn);

/* End the session and free all. */
void zk_conn_finish(struct zk_conn *conn);

/* Wait for all replies (see below). Returns 0, or ZK_UNANSWERED and sets conn->why. */
int zk_conn_wait(struct zk_conn *conn);

/*
 * The descriptor for the engine to poll. While conn->eventful is set it is readable, whichever call
 * has taken the news.
 */
int zk_conn_fd(struct zk_conn *conn);
/* Take all news that have come. */
void zk_conn_take_news(struct zk_conn *conn);

/* For the library's threads. */
void zk_conn_report(struct zk_conn *conn, struct zk_news news);

/*
 * Shall the operation be repeated after *err, within its time? True after a lost connection, and
 * then *err is cleared. False if connecting failed (errnum ENOTCONN). An expired session (errnum
 * ESTALE) is closed; a caller that has an entry in it does not call this function then.
 */
bool zk_conn_again(struct zk_conn *conn, struct error *err);

/*
 * Was the last contact recent enough for a good lease? If not, ends the connection and sets *err:
 * a new connection proves the session.
 */
bool zk_conn_fresh(struct zk_conn *conn, struct error *err);

/*
 * Returns for how many ms the session lives at least from sent_ms on, if the leader has committed a
 * request that was sent then: see backend.c.
 */
int64_t zk_conn_lease(const struct zk_conn *conn, int64_t sent_ms);

/*
 * ---- requests. Each function sends a request and returns at once. Any number of requests may be
 * on their way, and the server answers them in their order. zk_conn_wait() waits for all replies,
 * and the calls then have the results.
 */

/*
 * watch: 0, or a number for on_watch(), from ++conn->last_watch. The watch of zk_list() on a node
 * without children fires at its end, and not when its data changes.
 */
struct zk_call *zk_get(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_list(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_set(struct zk_conn *conn, const char *path, const char *text,
		       int32_t version);
/* mode: ZOO_PERSISTENT ...; the ACL is that of the connection */
struct zk_call *zk_create(struct zk_conn *conn, const char *path, const char *text, int mode);
struct zk_call *zk_sync(struct zk_conn *conn, const char *path);

/*
 * Make two ephemeral sequential nodes in one transaction. The paths have no numbers. text is the
 * data of the first one; the shadow has none.
 */
struct zk_call *zk_create_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       const char *text);
/* Delete both, or one if pair->shadow is "". version: of the first node; -1: any */
struct zk_call *zk_delete_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       int32_t version);
/* Check that both exist, by a transaction that changes nothing and needs a majority. */
struct zk_call *zk_check_pair(struct zk_conn *conn, const struct zk_pair *pair);

/* Wait for all calls, and return the result of this one. */
int zk_call_wait(struct zk_call *call);

/*
 * Does this result say something about the node? False after a lost connection. True also without
 * the right to the node, and for a foreign name that is too long to ask for.
 */
bool zk_call_counts(int rc);

/* Set *err for the result rc of a request on path; what: "create". Returns -1. */
int zk_call_error(const struct zk_conn *conn, int rc, const char *what, const char *path,
		  struct error *err);
