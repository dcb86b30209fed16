/* SPDX-License-Identifier: MIT */
/*
 * A session with ZooKeeper, over libzookeeper_mt, with deadlines. The library has threads of its
 * own and waits without limit. Here these threads only append what has happened to a list of news
 * (zk_conn_report()), and one eventfd is readable while there are any. All else belongs to the main
 * thread, the only other thread of this process: it takes the news in their order while it waits
 * for replies, or when the engine finds zk_conn_fd() readable.
 *
 * The library connects to another server when a connection ends. It notices too late that
 * a server swallows packets or hangs: then conn.c closes the library's connection.
 *
 * An operation is zk_conn_begin(), zk_conn_open(), requests (call.h) and zk_conn_wait(). While
 * zk_conn_again() returns true, the operation is repeated from zk_conn_open() on.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zookeeper/zookeeper.h>

#include "base/error.h"
#include "lock/backend.h"

struct uri;
struct zk_call;

/* The timeout of a session that only reads. */
#define ZK_ASKING_MS 5000

/* What a thread of the library reports: exactly one of the first three. */
struct zk_news {
	struct zk_call *call;	/* it is answered */
	uint32_t watch;		/* the watch that was set with this number has fired */
	int state;		/* the session's new state, ZOO_..._STATE */
	int64_t at_ms;		/* CLOCK_BOOTTIME */
};

#define ZK_CONTACTS 16

struct zk_conn {
	/* ---- set up by zk_conn_init(), then unchanged */
	const struct backend *limits;	/* timeouts and cancel_fd */
	struct uri_host *hosts;
	size_t host_count;
	char *auth;			/* "user:password"; NULL: none */
	char *user;			/* for messages */
	char *tls;			/* "ca,cert,key,"; NULL: none */
	char label[120];
	int news_fd;			/* eventfd: readable while there may be news */
	int ready_fd;			/* eventfd: always readable */

	/* ---- used by the main thread alone */
	zhandle_t *handle;
	char *servers;			/* "address:port,...", all of them numeric */
	int server_count;
	int state;			/* ZOO_..._STATE, 0: connecting */
	bool had_session;		/* this handle was connected once */
	int64_t ttl_ms;			/* granted */
	int64_t deadline_ms;		/* of the operation under way */
	struct error why;		/* zk_conn_wait() has failed */
	int64_t contacts[ZK_CONTACTS];	/* CLOCK_BOOTTIME when answered requests were sent */
	int contact_count;
	int64_t started_ms;		/* before this connection was made */
	int64_t broke_ms;		/* when the last connection ended */
	int64_t refused_ms;		/* since when servers serve all but us; 0: it is not so */
	int pending;			/* number of calls without an answer */
	int64_t sent_ms;		/* before the first of them was sent */
	bool answered;			/* a server has answered one of them */
	ino_t *foreign;			/* inodes of connections that are not the library's */
	size_t foreign_count;
	uint32_t last_watch;
	/* What zk_conn_fd() announces until the main thread clears it: */
	uint32_t *fired;		/* watches */
	size_t fired_count;
	bool broken;			/* a connection has ended */

	/* ---- shared with the library's threads, under mutex */
	pthread_mutex_t mutex;
	struct zk_news *news;
	size_t news_count, news_taken;
};

/* ---- init.c ---- */

/* Keeps what it needs of uri. 0, or -1 with *err; zk_conn_finish() frees *conn in any case. */
int zk_conn_init(struct zk_conn *conn, const struct backend *limits, const struct uri *uri,
		 struct error *err);
/* Ends the session as zk_conn_close() does, and frees all. */
void zk_conn_finish(struct zk_conn *conn);

/* ---- conn.c ---- */

/* For the library's threads. */
void zk_conn_report(struct zk_conn *conn, struct zk_news news);

/* The main thread takes the reply of a call. */
void zk_conn_answered(struct zk_call *call);
/* Free a call (call.h), or let its answer free it when that comes. Accepts NULL. */
void zk_call_free(struct zk_call *call);

/* Begin an operation: all waits until the next call of this function end within ms. */
void zk_conn_begin(struct zk_conn *conn, int64_t ms);

/*
 * Returns 0 with a session that is connected: the one there is, or a new one with ttl_ms.
 * -1 with *err. A session that has expired is reported once as ERROR_UNAVAILABLE with
 * errnum ESTALE; then the next call makes a new one.
 */
int zk_conn_open(struct zk_conn *conn, int64_t ttl_ms, struct error *err);

/* The session's number; 0: there is none. */
int64_t zk_conn_session(const struct zk_conn *conn);

/*
 * Ends the session, so that the server removes its ephemeral nodes. A session that is not
 * connected runs out by itself. Takes 1.5 s at most.
 */
void zk_conn_close(struct zk_conn *conn);

/* Waits until all calls are answered (see call.h). 0, or ZK_UNANSWERED, with conn->why. */
int zk_conn_wait(struct zk_conn *conn);

/*
 * The descriptor for the engine to poll. It changes: while conn->fired or conn->broken are set, it
 * is one that is readable, whichever call has taken the news.
 */
int zk_conn_fd(const struct zk_conn *conn);
/* Take all news that have come. */
void zk_conn_take_news(struct zk_conn *conn);

/*
 * Is it worth repeating the operation, within its time, after *err? Yes after a connection was
 * lost, and *err is then emptied; not if there is no connection to be had (errnum ENOTCONN). An
 * operation that only asks may be repeated in a new session; zk_conn_again() is for others.
 */
bool zk_conn_again(const struct zk_conn *conn, struct error *err);
bool zk_conn_ask_again(const struct zk_conn *conn, struct error *err);

/*
 * false when the last contact was too long ago for a good lease. Then the connection is ended,
 * as *err says, because a new one proves the session again.
 */
bool zk_conn_fresh(struct zk_conn *conn, struct error *err);

/*
 * How long the session lives at least from sent_ms on, in ms, when a request that was sent then
 * was committed by the leader: see backend.c.
 */
int64_t zk_conn_lease(const struct zk_conn *conn, int64_t sent_ms);
