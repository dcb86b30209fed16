/* SPDX-License-Identifier: MIT */
/*
 * A session with ZooKeeper, over libzookeeper_mt, with deadlines. The library has threads of its
 * own and waits without limit. Here these threads only write news to a pipe. All else belongs to
 * the main thread, the only other thread of this process. It takes the news in their order while it
 * waits for replies, or when the engine finds the pipe readable.
 *
 * The library connects to another server when a connection ends. It notices late that a server
 * drops packets or hangs, so conn.c then closes the library's connection.
 *
 * An operation is zk_conn_begin(), and requests (calls.h) as often as zk_conn_try() returns true,
 * which it does again where an answer was lost. Its calls, and all other memory from
 * zk_conn_memory(), live until the next operation begins.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

#include "base/error.h"
#include "lock/backend.h"
#include "lock/uri.h"

/* Only in a library that was built with OpenSSL. */
extern zhandle_t *zookeeper_init_ssl(const char *, const char *, watcher_fn, int,
				     const clientid_t *, void *, int) __attribute__((weak));

/* How an operation, or a step of one, has ended. All but ZK_DONE have set *err. */
enum zk_end {
	ZK_DONE,
	ZK_AGAIN,	/* the connection or a reply was lost: repeat the operation */
	ZK_ENDED,	/* the session has ended, and all its nodes; or our node was removed */
	ZK_FAILED,	/* refused, cancelled, not possible, or no server gives a session */
};

/* The timeout of a session that only reads. */
#define ZK_ASKING_MS 5000

/* A request and its answer. */
struct zk_call {
	struct zk_conn *conn;
	int rc;			/* of enum ZOO_ERRORS; ZOPERATIONTIMEOUT: there is no answer */
	int64_t sent_ms;	/* CLOCK_BOOTTIME */
	/* Zero if rc is not ZOK, but text may also be "": */
	struct Stat stat;
	char *text;		/* data of the node, up to a NUL; names, each with a NUL */
	size_t count;		/* names */
	zoo_op_t ops[2];
	zoo_op_result_t results[2];
};

/* What a thread of the library reports: one of call, fired and state. */
struct zk_news {
	struct zk_call *call;	/* it is answered */
	int rc;			/* with this result */
	bool *fired;		/* the flag of a watch that has fired */
	int state;		/* the session's new state, ZOO_..._STATE */
};

#define ZK_CONTACTS 16

struct zk_conn {
	/* ---- set up by zk_conn_init(), then unchanged */
	struct backend *backend;	/* it has timeouts and cancel_fd */
	struct uri_host *hosts;		/* with their ports; the uri owns the names */
	size_t host_count;
	char label[URI_LOCATION_SIZE];	/* of the servers, for messages */
	char *tls;			/* "ca,cert,key,"; NULL: none */
	char *auth;			/* "user:password"; NULL: none */
	const char *user;		/* for messages */
	const char *password_file;	/* read for each connection; NULL: none */
	int news[2];			/* the pipe: its end to read from, and to write to */

	/* ---- used by the main thread alone, as all but zk_conn_report() */
	zhandle_t *handle;
	int state;			/* ZOO_..._STATE, 0: connecting */
	bool introduced;		/* the server of this connection knows the user */
	int64_t session;		/* its number; 0: this handle was never connected */
	int64_t ttl_ms;			/* granted */
	int64_t deadline_ms;		/* of the operation under way */
	int64_t asked_ms;		/* the timeout of a session that it makes */
	struct error why;		/* why a call has no answer */
	int64_t contacts[ZK_CONTACTS];	/* when answered requests left, the last one first */
	int64_t started_ms;		/* before this connection was made */
	int64_t refused_ms;		/* since when a server refuses our session; 0: none does */
	int pending;			/* number of calls without an answer */
	void **memory;			/* of the operation */
	size_t memory_count;
	uint64_t foreign;		/* sockets that are not the library's: see end_sockets() */
};

/* Keeps pointers into uri. Returns 0, or -1 and sets *err. Call zk_conn_finish() in any case. */
int zk_conn_init(struct zk_conn *conn, struct backend *backend, const struct uri *uri,
		 struct error *err);

/*
 * Begin an operation: all waits until the next call of this function end within ms. A session that
 * it makes has ttl_ms. Returns ZK_AGAIN, for zk_conn_try().
 */
enum zk_end zk_conn_begin(struct zk_conn *conn, int64_t ms, int64_t ttl_ms);

/*
 * Is the operation to be tried, or tried again after *end? If so, there is a session: *end is
 * ZK_DONE. Otherwise *end and *err say how it has ended. replace: a session that has ended is
 * replaced, which a node in it does not survive.
 */
bool zk_conn_try(struct zk_conn *conn, bool replace, enum zk_end *end, struct error *err);

/* Allocate zeroed memory that lives as long as the operation. */
void *zk_conn_memory(struct zk_conn *conn, size_t count, size_t size);
/* Let memory from malloc() live as long as the operation. Returns it. */
void *zk_conn_keep(struct zk_conn *conn, void *memory);
/* Free this memory early, before a long wait. Keeps it while calls have no answer. */
void zk_conn_free(struct zk_conn *conn);

/*
 * End the session, so that the server removes its ephemeral nodes. A session that is not connected
 * expires.
 */
void zk_conn_close(struct zk_conn *conn);

/* End the session and free all. */
void zk_conn_finish(struct zk_conn *conn);

/* Wait for the answers of all calls, or until conn->why says why there are none. */
void zk_conn_wait(struct zk_conn *conn);

/* Take all news that have come. A watch that has fired, or a lost connection, wakes the backend. */
void zk_conn_take_news(struct zk_conn *conn);

/* For the library's threads. */
void zk_conn_report(struct zk_conn *conn, struct zk_news news);

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

/* Report a session or a node that has ended, with a reason. Returns ZK_ENDED. */
enum zk_end zk_report_ended(const struct zk_conn *conn, const char *what, struct error *err);

/* ---- servers.c ---- */

/* Read the servers of the URI, and ?ssl-ca=, cert= and key=. Returns 0, or -1 and sets *err. */
int zk_servers_init(struct zk_conn *conn, const struct uri *uri, struct error *err);

#define ZK_ANSWER_SIZE 2048

/*
 * Ask the first of count servers that listens for its version and role, in clear text. With TLS,
 * only connect, and the answer is "". Returns true if the server serves; otherwise *err names the
 * server, and what is wrong.
 */
bool zk_servers_ask(const struct zk_conn *conn, const struct uri_host *host, size_t count,
		    char answer[static ZK_ANSWER_SIZE], int64_t deadline_ms, struct error *err);

/*
 * Does any server listen? One that does not answer until deadline_ms may. False and *err if none
 * does, or if this was cancelled.
 */
bool zk_servers_listen(const struct zk_conn *conn, int64_t deadline_ms, struct error *err);

/*
 * Look up the hosts' addresses, once. The library gets numeric ones, because it would block to look
 * up names between one server and the next. Returns a list, which the caller frees, or NULL and
 * sets *err if none is found.
 */
char *zk_servers_resolve(const struct zk_conn *conn, struct error *err);
