/* SPDX-License-Identifier: MIT */
/* What the files of the Redlock backend share. backend.c describes how the backend works. */
#pragma once

#include "lock/backend.h"
#include "lock/holder.h"
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
	int64_t queued_us;		/* wall clock: when this waiter came; 0: it did not */
	int splits;			/* tries in a row in which nobody had a majority */
	/*
	 * Why the last try was BUSY although nobody has the lock: too many nodes were restarted. It
	 * is shown in place of a holder; "": this is not so.
	 */
	char young[HOLDER_NOTE_MAX + 1];
	int64_t lease_end_ms;		/* of the last grant; 0: there was none */
};

static inline struct redlock *redlock_from_backend(struct backend *backend)
{
	return (struct redlock *)backend;
}

/* See struct backend_ops: acquire.c, hold.c, show.c, check.c. */
backend_grant_fn redlock_acquire, redlock_renew;
backend_release_fn redlock_release;
backend_show_fn redlock_show;
backend_break_fn redlock_break;
int redlock_ping(struct backend *backend, struct error *err);
int redlock_setup(struct backend *backend, char **plan, struct error *err);
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

/* The connections that a waiter listens to: listen.c. */
bool redlock_listens(const struct redlock *lock);
int redlock_listen(struct redlock *lock, const char *who, struct error *err);
void redlock_stop_listening(struct redlock *lock);
int redlock_event_fd(struct backend *backend);
int64_t redlock_event(struct backend *backend);
