/* SPDX-License-Identifier: MIT */
/*
 * Requests to ZooKeeper. Each function sends one and returns at once; any number may be on
 * their way, and the server answers in their order. zk_conn_wait() waits for all of them;
 * then their results stand in the calls, which the caller frees, in any case: one that was
 * not answered is freed once it is.
 */
#ifndef DLOCK_ZOOKEEPER_CALL_H
#define DLOCK_ZOOKEEPER_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

struct error;
struct zk_conn;

#define ZK_PATH_SIZE 1280

struct zk_call {
	struct zk_conn *conn;
	int rc;			/* ZOK, ZNONODE ... */
	bool done, dropped;	/* under the connection's mutex */
	struct Stat stat;
	char *text;		/* data of the node; names, each with a NUL */
	size_t length;		/* of text */
	size_t count;		/* names */
	zoo_op_t ops[2];
	zoo_op_result_t results[2];
	char *made[2];		/* paths of what was created, of ZK_PATH_SIZE */
};

/* watch: 0, or a number for zk_conn_event() */
struct zk_call *zk_get(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_list(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_exists(struct zk_conn *conn, const char *path, uint32_t watch);
struct zk_call *zk_set(struct zk_conn *conn, const char *path, const char *text,
		       int32_t version);
struct zk_call *zk_delete(struct zk_conn *conn, const char *path, int32_t version);
/* mode: ZOO_PERSISTENT ...; the ACL is that of the connection */
struct zk_call *zk_create(struct zk_conn *conn, const char *path, const char *text, int mode);
struct zk_call *zk_sync(struct zk_conn *conn, const char *path);

/* Two nodes in one transaction; paths of ephemeral sequential nodes without number. */
struct zk_call *zk_create_two(struct zk_conn *conn, const char *const paths[2],
			      const char *const texts[2]);
/* version: of the second one; -1: any */
struct zk_call *zk_delete_two(struct zk_conn *conn, const char *const paths[2],
			      int32_t version);
/* Are both there? A transaction that changes nothing, and that a majority has to agree to. */
struct zk_call *zk_check_two(struct zk_conn *conn, const char *const paths[2]);

void zk_call_free(struct zk_call *call);

/* What rc means for path, as an error. what: "create". */
void zk_call_error(const struct zk_conn *conn, int rc, const char *what, const char *path,
		   struct error *err);

/* A number for a watch. */
uint32_t zk_watch_number(struct zk_conn *conn);

#endif
