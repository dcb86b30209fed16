/* SPDX-License-Identifier: MIT */
/* What the files of the Redlock backend share. backend.c describes how the backend works. */
#pragma once

#include "lock/backend.h"
#include "node.h"

#define REDLOCK_LEAST_NODES 3
#define REDLOCK_MOST_NODES 7

struct redlock {
	struct backend base;
	char *prefix;
	char *keys[REDIS_KEYS];		/* of the one name that the object is used for */
	int64_t node_timeout_ms;
	int count, quorum;
	struct redlock_node nodes[REDLOCK_MOST_NODES];
	int64_t looked_up_ms;		/* CLOCK_BOOTTIME: the last look-up of names; 0: none */
	int epoll_fd;			/* see redlock_event_fd(); -1: none */
	int watched[REDLOCK_MOST_NODES];	/* what is in its set: see connection() */
	bool listens_on;		/* the lock is held, and the waiter still listens */
	int64_t place_us;		/* wall clock: when this waiter came; 0: it did not */
	int splits;			/* tries in a row in which nobody had a majority */
	int64_t lease_end_ms;		/* of the last grant; 0: there was none */
	char fence[REDIS_DIGITS_SIZE];	/* of that grant; "": not known */
};

static inline struct redlock *redlock_from_backend(struct backend *backend)
{
	return (struct redlock *)backend;
}

/* Made from lua/NAME.lua by embed.sh. */
extern const struct script redlock_script_acquire, redlock_script_fence, redlock_script_inspect,
	redlock_script_release, redlock_script_renew, redlock_script_restore,
	redlock_script_verify;

/* See struct backend_ops: acquire.c, hold.c, inspect.c, check.c. */
backend_grant_fn redlock_acquire, redlock_renew;
backend_verify_fn redlock_verify;
backend_release_fn redlock_release;
backend_inspect_fn redlock_inspect;
int redlock_list(struct backend *backend, struct name_list *names, struct error *err);
backend_break_fn redlock_break;
int redlock_setup(struct backend *backend, struct error *err);
int redlock_check(struct backend *backend, struct findings *findings, struct error *err);

/*
 * Looks up the names of the nodes that have no address yet, the first time, and from then on not
 * more often than every 30 s, because a look-up waits as long as the resolver does. When a majority
 * cannot be reached, the names of those nodes are looked up again, for their addresses may have
 * changed. While only a minority is missing, the lock does not need them, and a slow resolver must
 * not delay a renewal.
 */
void redlock_look_up(struct redlock *lock);

/* The same, and makes lock->keys for name, unless they are made. */
void redlock_begin(struct redlock *lock, const char *name);

/* The connections that tell a waiter: listen.c. who: as for redis_node_listen(). */
bool redlock_listens(const struct redlock *lock);
int redlock_listen(struct redlock *lock, const char *who, struct error *err);
void redlock_stop_listening(struct redlock *lock);
int redlock_event_fd(struct backend *backend);
int64_t redlock_event(struct backend *backend);
