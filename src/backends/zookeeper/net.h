/* SPDX-License-Identifier: MIT */
/*
 * What the library does not do for conn.c: looks up addresses, tells the library's descriptors from
 * others, reads the library's log, and finds out why there is no session.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

struct error;
struct uri_host;
struct zk_conn;

/*
 * Looks up the hosts' addresses, once: the library gets numeric ones, for it would look up
 * names between one server and the next, for as long as that takes. 0, or -1 with *err when
 * none is found.
 */
int zk_net_resolve(struct zk_conn *conn, struct error *err);

/* Can the library encrypt? */
bool zk_net_has_tls(void);

/* Starts the library, its log diverted. NULL with errno. */
zhandle_t *zk_net_start(struct zk_conn *conn, watcher_fn watcher, int ttl_ms);

/* How many attempts to connect have failed so far in this process. */
unsigned zk_net_failures(void);

/*
 * zk_net_note_foreign() notes which connections there are before the library makes its own.
 * zk_net_shut_down() shuts down all others: true if one was connected.
 */
void zk_net_note_foreign(struct zk_conn *conn);
bool zk_net_shut_down(const struct zk_conn *conn);

/*
 * Looks what is wrong with the servers, until deadline_ms at most. *err names one server and the
 * reason, also for ZK_MAY_SERVE.
 */
enum zk_look {
	ZK_SERVES,		/* one of them does */
	ZK_MAY_SERVE,		/* one may soon, after an election */
	ZK_HOPELESS,
};
enum zk_look zk_net_look(const struct zk_conn *conn, int64_t deadline_ms, struct error *err);

/*
 * Asks one server in clear text for its version and role; with TLS only whether it is there, and
 * the answer is "". 0, or -1 with *err.
 */
int zk_net_ask(const struct zk_conn *conn, const struct uri_host *host, char *answer, size_t size,
	       int64_t deadline_ms, struct error *err);
