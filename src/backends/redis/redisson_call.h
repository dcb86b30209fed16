/* SPDX-License-Identifier: MIT */
/* What a lock of Redisson is called on the server, how its scripts are run, and listing it. */
#pragma once

#include "lock.h"

/* One of Redisson's kinds of locks. */
struct redisson_kind {
	const char *name;		/* as in ?lock=NAME, and for the scripts */
	const char *channel;		/* what stands before ":{name}" */
	const char *fence;		/* the same for its fence; NULL: dlock's own */
	bool shared, slots;		/* has -s; has --slots, and nothing else */
};

struct redisson {
	struct redis_backend redis;	/* begins with struct backend */
	const struct redisson_kind *kind;
	int64_t most_read_ms;		/* the longest lease of a shared hold */
};

static inline struct redisson *redisson_from_backend(struct backend *backend)
{
	return (struct redisson *)backend;
}

/* "<uuid>:<number>", or a permit's id. */
#define REDISSON_OWNER_SIZE 64

/*
 * Writes what stands for token on the server: a hash of it, so that those who see the server's data
 * cannot use the token.
 */
void redisson_owner(const struct redisson *redisson, const char *token,
		    char owner[static REDISSON_OWNER_SIZE]);

/* See struct redis_dialect. */
void redisson_keys(struct redis_node *node, const char *name);

/* The same, with the kind of lock in front of the arguments, and most_read_ms behind them. */
struct redisReply *redisson_script(struct redis_node *node, const struct script *script,
				   const struct request *request, const char *const arguments[],
				   struct error *err);

/* Made from lua/redisson/NAME.lua by lua/embed.sh. */
extern const struct script script_redisson_acquire, script_redisson_inspect,
	script_redisson_release, script_redisson_renew, script_redisson_verify;

/* See struct backend_ops. */
int redisson_list(struct backend *backend, struct name_list *names, struct error *err);
