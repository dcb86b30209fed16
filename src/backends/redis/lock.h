/* SPDX-License-Identifier: MIT */
/* What the files of the Redis backend share. backend.c describes how the backend works. */
#pragma once

#include "node.h"

/* Who holds: the token, or what stands for it in Redisson's locks. */
#define REDIS_OWNER_SIZE 64

/* A kind of Redisson's locks: redisson.c. */
struct redisson_kind {
	const char *name;
	const char *channel;	/* prefix of the channel that Java's waiters listen to */
	const char *fence;	/* prefix of the key of the last fence; NULL: it is dlock's own */
	unsigned int can;	/* of enum backend_can */
};

struct redis_backend {
	struct redis_node node;		/* begins with struct backend */
	const struct redisson_kind *kind;	/* NULL: the plain dialect */
	int64_t most_read_ms;		/* the longest lease of a read lock of Redisson */
	int64_t queued_us;		/* what acquire calls queued_at; 0: not known yet */
};

static inline struct redis_backend *redis_from_backend(struct backend *backend)
{
	return (struct redis_backend *)backend;
}

/* Read ?dialect=, ?lock= and ?watchdog=. 0, or -1 with *err. */
int redisson_read(struct redis_backend *redis, const struct uri *uri, struct error *err);
/* Does this kind of lock have the mode that is requested? False: *err has the reason. */
bool redisson_admits(const struct redis_backend *redis, const struct request *request,
		     struct error *err);
/* Write the owner that stands for token. */
void redisson_owner(const struct redisson_kind *kind, const char *token,
		    char owner[static REDIS_OWNER_SIZE]);
void redisson_make_keys(struct redis_backend *redis, const char *name);
/* Add the name of the lock that a key of dlock's belongs to. */
void redisson_list_key(const char *prefix, const struct redisReply *key, struct name_list *names);

/* Run the script; arguments end with NULL. The caller frees the reply. NULL with *err. */
struct redisReply *redis_call(struct redis_backend *redis, const char *what,
			      const struct request *request, const char *const arguments[],
			      struct error *err);

/* What show.c shares with Redlock. */
/* Add a row of a reply to show. False: it is something else. */
bool redis_add_row(const struct redisReply *reply, bool holds, struct rows *rows);
/* The pattern for SCAN that the keys of a prefix match. The caller frees it. */
char *redis_list_pattern(const char *prefix);
void redis_list_key(const char *prefix, const struct redisReply *key, struct name_list *names);

/* See struct backend_ops. */
void redis_close(struct backend *backend);
backend_grant_fn redis_acquire, redis_renew;
backend_release_fn redis_release;
int redis_fd(struct backend *backend);
int64_t redis_event(struct backend *backend);
backend_show_fn redis_show;
backend_break_fn redis_break;
int redis_setup(struct backend *backend, char **plan, struct error *err);
int redis_ping(struct backend *backend, struct error *err);
int redis_check(struct backend *backend, struct findings *findings, struct error *err);
