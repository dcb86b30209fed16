/* SPDX-License-Identifier: MIT */
/* What the files of the Redis backend share. backend.c describes how the backend works. */
#pragma once

#include "node.h"

/* The pause before a waiter follows a lock to another server, where it does not listen yet. */
#define REDIS_FOLLOW_MS 100

/* How often a waiter tries without being woken. ALIVE in redisson/lib.lua is over twice that. */
#define REDIS_LOOK_MS 5000

struct redis_backend;

/* What the dialects differ in. lock.c does the rest for all of them. */
struct redis_dialect {
	const struct script *inspect, *release, *renew, *verify;
	/* Makes the keys for name, unless they are made. */
	void (*make_keys)(struct redis_node *node, const char *name);
	/* As redis_node_script(). */
	struct redisReply *(*run)(struct redis_node *node, const struct script *script,
				  const struct request *request, const char *const arguments[],
				  struct error *err);
	/*
	 * Tries to acquire. With in_line, a token that does not get the lock takes its place among
	 * the waiters, or keeps it.
	 */
	enum outcome (*try_once)(struct redis_backend *redis, const struct request *request,
				 bool in_line, struct grant *grant, struct error *err);
	/* Subscribes to what tells this waiter of its turn. 0 or -1. */
	int (*listen)(struct redis_backend *redis, const struct request *request,
		      struct error *err);
	const char *free;	/* for redis_node_listen(): has a message when a lock is free */
	/* When to try after a message: see event() of struct backend_ops. */
	int64_t (*read_message)(struct redis_backend *redis, const struct redisReply *reply);
	/* Sets *err when renew has answered 3. NULL: it never does. */
	enum outcome (*refuse_ttl)(struct redis_backend *redis, struct error *err);
};

struct redis_backend {
	struct redis_node node;		/* begins with struct backend */
	const struct redis_dialect *dialect;
	int64_t lease_end_ms;		/* of the last grant; 0: there was none */
	int64_t asked_ms;		/* CLOCK_BOOTTIME of the last try to acquire */
	uint64_t lent_fence;		/* fence of a loan that a message told of; 0: none */
	int64_t came_us;		/* what acquire.lua calls came; 0: not told yet */
};

static inline struct redis_backend *redis_from_backend(struct backend *backend)
{
	return (struct redis_backend *)backend;
}

/* Notes the lease that a request of sent_ms has got. ttl_ms 0: it has no end. */
void redis_note_lease(struct redis_backend *redis, int64_t sent_ms, int64_t ttl_ms,
		      struct grant *grant);

/*
 * When a waiter tries again that nobody wakes: when the lease ends that has rest_ms left, or before
 * that. -1: it has no end, or it is not this waiter's turn then.
 */
int64_t redis_next_look(int64_t rest_ms);

/* Sets *err to say that the key does not have the token of a release. Returns OUTCOME_LOST. */
enum outcome redis_not_ours(const struct redis_node *node, struct error *err);

/* As redis_node_odd(). Returns OUTCOME_ERROR. */
enum outcome redis_odd_reply(struct redis_backend *redis, struct redisReply *reply,
			     struct error *err);

/* Acquires, or tries again as a waiter in line: see acquire() of struct backend_ops. */
enum outcome redis_take_turn(struct redis_backend *redis, const struct request *request,
			     struct grant *grant, struct error *err);

/* Removes what is left of a name that will not be used again. */
void redis_forget(struct redis_backend *redis);

/*
 * How locks are listed: the pattern for SCAN, "*PREFIX*" escaped, which the keys beside the lock's
 * match, too; the caller frees it. And what adds the lock that a key belongs to.
 */
char *redis_list_pattern(const char *prefix);
void redis_list_key(const char *prefix, const struct redisReply *key, struct name_list *names);

/* Do the length bytes of a key end with suffix? */
bool redis_ends_with(const char *key, size_t length, const char *suffix);

/*
 * Calls found for each key that matches pattern, to add the name of the lock that the key belongs
 * to. Sorts the names. 0 or -1.
 */
typedef void redis_key_found(const char *prefix, const struct redisReply *key,
			     struct name_list *names);
int redis_scan(struct redis_node *node, const char *pattern, redis_key_found *found,
	       struct name_list *names, struct error *err);

/* Checks the sentinels or nodes of the route that node has. A server has answered before. */
void redis_check_route(struct redis_node *node, struct findings *findings);

/* Made from lua/NAME.lua by lua/embed.sh. */
extern const struct script script_acquire, script_inspect, script_release, script_renew,
	script_verify;

/* See struct backend_ops. These serve every struct that begins with struct redis_backend. */
void redis_close(struct backend *backend);
int redis_event_fd(struct backend *backend);
int64_t redis_event(struct backend *backend);
backend_grant_fn redis_renew;
backend_verify_fn redis_verify;
backend_release_fn redis_release;
backend_inspect_fn redis_inspect;
int redis_list(struct backend *backend, struct name_list *names, struct error *err);
backend_break_fn redis_break;
int redis_setup(struct backend *backend, struct error *err);
int redis_plan(struct backend *backend, char **text, struct error *err);
int redis_check(struct backend *backend, struct findings *findings, struct error *err);

/* The slots that are the same in all dialects. */
#define REDIS_SLOTS \
	.close = redis_close, .event_fd = redis_event_fd, .event = redis_event, \
	.setup = redis_setup, .plan = redis_plan, .renew = redis_renew, .verify = redis_verify, \
	.release = redis_release, .inspect = redis_inspect, .break_hold = redis_break, \
	.check = redis_check
