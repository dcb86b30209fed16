/* SPDX-License-Identifier: MIT */
/*
 * Requests in a session. Each function sends a request and returns at once. Any number of requests
 * may be on their way, and the server answers them in their order. zk_conn_wait() waits for all
 * answers, and the calls then have the results.
 */
#pragma once

#include "conn.h"

#define ZK_PATH_SIZE 1280

/*
 * The paths of an entry and its shadow. The shadow's is "" where there is none: with strategy node,
 * and in the entries of other programs.
 */
struct zk_pair {
	char node[ZK_PATH_SIZE];
	char shadow[ZK_PATH_SIZE];
};

/*
 * fired: a flag that the main thread sets when the node ends, or its data or the list change; NULL:
 * no watch is set. The flag outlives the session.
 */
struct zk_call *zk_get(struct zk_conn *conn, const char *path, bool *fired);
struct zk_call *zk_list(struct zk_conn *conn, const char *path, bool *fired);
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
/*
 * Check that both exist, by a transaction that needs a majority. It changes nothing, or with text
 * sets the data of the first one.
 */
struct zk_call *zk_prove_pair(struct zk_conn *conn, const struct zk_pair *pair, const char *text);

/* Wait for all calls, and return the result of this one. */
int zk_call_wait(struct zk_call *call);

/*
 * Does this result say something about the node? False after a lost connection. True also without
 * the right to the node, and for a foreign name that is too long to ask for.
 */
bool zk_call_counts(int rc);

/* Set *err for the result rc of a request on path; what: "create". Never returns ZK_DONE. */
enum zk_end zk_call_error(const struct zk_conn *conn, int rc, const char *what, const char *path,
			  struct error *err);

/* A directory was there, and was not, in one try. Returns ZK_AGAIN. */
enum zk_end zk_report_changed(const struct zk_conn *conn, const char *path, struct error *err);
