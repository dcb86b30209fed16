/* SPDX-License-Identifier: MIT */
/*
 * A session with ZooKeeper, over libzookeeper_mt, with deadlines. The library has threads
 * of its own and waits without limit; here they do nothing but take notes and write to
 * eventfds, and this process, the only other thread, waits for those.
 *
 * The library looks for another server by itself when a connection ends. What it does not
 * see in time, a server that swallows packets or hangs, it is told by zk_conn_kick(), which
 * ends the connection under it.
 */
#ifndef DLOCK_ZOOKEEPER_CONN_H
#define DLOCK_ZOOKEEPER_CONN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

#include "lock/backend.h"

struct error;
struct uri;

/* For sessions that hold nothing: what it takes to ask. */
#define ZK_ASKING_MS 5000

/* What a watch has seen. */
struct zk_event {
	uint32_t watch;		/* the number it was set with */
	bool gone;		/* the node; else it has changed */
};

struct zk_fd {
	int fd;
	uint64_t inode;
};

#define ZK_EVENTS 64
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
	int done_fd;			/* eventfd: something to wait for in here has come */
	int event_fd;			/* eventfd: for the engine */

	/* ---- this process alone */
	zhandle_t *handle;
	clientid_t client;		/* of the session, to take it over in another process */
	bool taken_over;
	char *servers;			/* "address:port,...", all of them numeric */
	int server_count;
	int64_t asked_ms;		/* session timeout asked for */
	int64_t ttl_ms;			/* granted */
	int64_t deadline_ms;		/* of the operation under way */
	uint32_t last_watch;
	unsigned seen_connections;
	int64_t contacts[ZK_CONTACTS];	/* when requests were sent that were answered */
	int contact_count;
	int64_t started_ms;		/* before this connection was made */
	int64_t refused_ms;		/* since when servers serve, but not us; 0: it is not so */
	struct zk_fd *foreign;		/* descriptors that are not the library's */
	size_t foreign_count;

	/* ---- shared with the library's threads, under mutex */
	pthread_mutex_t mutex;
	int state;			/* ZOO_..._STATE, 0: connecting */
	unsigned connections;		/* how many were made */
	bool broken;			/* one ended, see zk_conn_broken() */
	int64_t broke_ms;		/* when the last one ended */
	int pending;			/* calls without an answer */
	int64_t sent_ms;		/* before the first of them was sent */
	bool answered;			/* one of them was, by a server */
	struct zk_event events[ZK_EVENTS];
	int event_count;
	bool events_lost;		/* there were too many, see zk_conn_lost_events() */
};

/* Keeps what it needs of uri. 0, or -1 with *err; finish in any case. */
int zk_conn_init(struct zk_conn *conn, const struct backend *limits, const struct uri *uri,
		 struct error *err);
/* Ends the session as zk_conn_close() does, and frees all. */
void zk_conn_finish(struct zk_conn *conn);

/* An operation begins: all waits until the next call end within so many ms. */
void zk_conn_begin(struct zk_conn *conn, int64_t ms);

/*
 * Returns 0 with a session that is connected: the one there is, or a new one with ttl_ms.
 * -1 with *err. A session that has expired is reported once as ERROR_UNAVAILABLE with
 * errnum ESTALE; then the next call makes a new one.
 */
int zk_conn_open(struct zk_conn *conn, int64_t ttl_ms, struct error *err);

/* Its number; 0: there is none. */
int64_t zk_conn_session(const struct zk_conn *conn);

/*
 * Ends the session: the server removes its ephemeral nodes. Only if it is connected; else
 * it runs out by itself. Takes 1.5 s at most.
 */
void zk_conn_close(struct zk_conn *conn);

/* Leaves the session to another process, or to run out, and forgets it. */
void zk_conn_abandon(struct zk_conn *conn);

/*
 * In a child of the process that had the session, whose threads are not here: makes the
 * object fit for use again. The next zk_conn_open() takes the session over. 0 or -1.
 */
int zk_conn_adopt(struct zk_conn *conn);

/* Ends the connection, so that the library looks for another server. */
void zk_conn_kick(struct zk_conn *conn);

/* Waits until all calls are answered (see call.h). 0, or -1 with *err. */
int zk_conn_wait(struct zk_conn *conn, struct error *err);

/* Waits for an event, of a watch or of the connection, until until_ms; false: none came. */
bool zk_conn_rest(struct zk_conn *conn, int64_t until_ms);

/*
 * Is it worth while, within the operation's time, to do it again after *err? A connection
 * was lost; not if none can be had (errnum ENOTCONN). For one that asks it is even with a
 * new session.
 */
bool zk_conn_again(const struct zk_conn *conn, const struct error *err);
bool zk_conn_ask_again(const struct zk_conn *conn, const struct error *err);

/* Takes the next event of a watch; false: none. */
bool zk_conn_event(struct zk_conn *conn, struct zk_event *event);
/* Has the connection been lost since this was last asked? Have events? */
bool zk_conn_broken(struct zk_conn *conn);
bool zk_conn_lost_events(struct zk_conn *conn);

/*
 * The least that is left at sent_ms of the session, when a request sent then was committed
 * by the leader: see backend.c.
 */
int64_t zk_conn_lease(const struct zk_conn *conn, int64_t sent_ms);

#endif
