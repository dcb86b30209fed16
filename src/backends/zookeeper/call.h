/* SPDX-License-Identifier: MIT */
/*
 * Requests to ZooKeeper. Each function sends a request and returns at once. Any number of requests
 * may be on their way, and the server answers them in their order. zk_conn_wait() waits for all
 * answers; the results then stand in the calls. The caller frees every call, also one without an
 * answer, whose memory is given back when the answer comes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

struct error;
struct zk_conn;

#define ZK_PATH_SIZE 1280

/*
 * The paths of an entry and its shadow. The shadow's is "" where there is none: with strategy node,
 * and in the entries of other programs.
 */
struct zk_pair {
	char node[ZK_PATH_SIZE];
	char shadow[ZK_PATH_SIZE];
};

/* In place of a result code of ZooKeeper's: no answer came. zk_conn_wait() has kept why. */
#define ZK_UNANSWERED 1

struct zk_call {
	struct zk_conn *conn;
	int rc;			/* ZOK, ZNONODE ... */
	bool done, dropped;	/* its reply was taken; nobody waits for it */
	struct Stat stat;
	char *text;		/* data of the node; names, each with a NUL */
	size_t length;		/* of text */
	size_t count;		/* names */
	zoo_op_t ops[2];
	zoo_op_result_t results[2];
	char *made[2];		/* paths of what was created, of ZK_PATH_SIZE */
};

/*
 * watch: 0, or a number for zk_conn_event(). zk_list() of a node without children sees its end, and
 * no change of its data.
 */
struct zk_call *zk_get(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_list(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_set(struct zk_conn *conn, const char *path, const char *text,
		       int32_t version);
/* mode: ZOO_PERSISTENT ...; the ACL is that of the connection */
struct zk_call *zk_create(struct zk_conn *conn, const char *path, const char *text, int mode);
struct zk_call *zk_sync(struct zk_conn *conn, const char *path);

/*
 * Two nodes in one transaction. The paths are of ephemeral sequential nodes, without number. text
 * is the data of the first one; the shadow has none.
 */
struct zk_call *zk_create_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       const char *text);
/* Where pair->shadow is "", one node. version: of the first node; -1: any */
struct zk_call *zk_delete_pair(struct zk_conn *conn, const struct zk_pair *pair,
			       int32_t version);
/* Are both there? A transaction that changes nothing, and that a majority has to agree to. */
struct zk_call *zk_check_pair(struct zk_conn *conn, const struct zk_pair *pair);

/*
 * Waits for all calls. Returns the result of this one, or ZK_UNANSWERED, after which no call may
 * be read. zk_call_end() frees the call, too.
 */
int zk_call_wait(struct zk_call *call);
int zk_call_end(struct zk_call *call);

/* Fills *err with what rc means for path; what: "create". Returns -1. */
int zk_call_error(const struct zk_conn *conn, int rc, const char *what, const char *path,
		  struct error *err);

/* A number for a watch. */
uint32_t zk_watch_number(struct zk_conn *conn);
