/* SPDX-License-Identifier: MIT */
/* Declarations shared by the Redis backend. backend.c describes how the backend works. */
#pragma once

#include "client.h"
#include "route.h"

/* The name of a holder: the token, or its form in Redisson's locks. */
#define REDIS_OWNER_SIZE 64

/* ---- redisson.c ---- */

/* Read ?dialect=, ?lock= and ?watchdog=. Returns 0, or -1 and sets *err. */
int redisson_read(struct redis_client *client, const struct uri *uri, struct error *err);
/* Does this kind of lock support the requested mode? If not, sets *err. */
bool redisson_admits(const struct redis_client *client, const struct request *request,
		     struct error *err);
/* Write the owner for token. Returns owner. */
const char *redisson_owner(const struct redisson_kind *kind, const char *token,
			   char owner[static REDIS_OWNER_SIZE]);
void redisson_make_keys(struct redis_client *client, const char *name);

/* ---- hold.c ---- */

/*
 * Run a call about the lock name, and wait for a majority where all are asked. Returns 0, or -1 and
 * sets *err: cancelled, or the only server did not answer.
 */
int redis_run(struct redis_client *client, const char *name, struct redis_call *call,
	      struct error *err);
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
void redis_close(struct backend *backend);
backend_grant_fn redis_acquire, redis_renew;
backend_release_fn redis_release;
backend_show_fn redis_show;
backend_break_fn redis_break;
int redis_setup(struct backend *backend, char **plan, struct error *err);
int redis_ping(struct backend *backend, struct error *err);
int redis_check(struct backend *backend, struct findings *findings, struct error *err);
