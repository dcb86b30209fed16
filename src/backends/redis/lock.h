/* SPDX-License-Identifier: MIT */
/* What the files of the Redis backend share. backend.c describes how the backend works. */
#ifndef DLOCK_REDIS_LOCK_H
#define DLOCK_REDIS_LOCK_H

#include "node.h"

struct findings;
struct lock_view;
struct name_list;
struct redisReply;

/* The pause before a waiter follows a lock to another server, where it does not listen yet. */
#define REDIS_FOLLOW_MS 100

struct redis_backend {
	struct redis_node node;		/* begins with struct backend */
	int64_t lease_end_ms;		/* of the last grant; 0: there was none */
	int64_t asked_ms;		/* CLOCK_BOOTTIME of the last try to acquire */
	uint64_t lent_fence;		/* fence of a loan that a message told of; 0: none */
	int64_t came_us;		/* what acquire.lua calls came; 0: not told yet */
	/* With ?scripts=no */
	int64_t pause_ms;		/* a waiter's last one; 0: it has not waited yet */
	bool free_of_ours;		/* no request of ours can have taken the lock */
};

static inline struct redis_backend *redis_from_backend(struct backend *backend)
{
	return (struct redis_backend *)backend;
}

/* The mode of a hold, as the scripts write it. Returns a constant, or buf. */
const char *redis_mode(const struct request *request, char buf[static REDIS_DIGITS_SIZE]);
/* The connection that something may come over unasked: a message, or the end of the connection. */
struct redis_conn *redis_listening_conn(struct redis_node *node);

/* Reads what the scripts call a mode. */
void redis_read_mode(const char *text, enum hold_mode *mode, int *slots);

/*
 * How locks are listed: the pattern for SCAN, "*PREFIX*" escaped, which the keys beside the lock's
 * match, too; the caller frees it. And what adds the lock that a key belongs to.
 */
char *redis_list_pattern(const char *prefix);
void redis_list_key(const char *prefix, const struct redisReply *key, struct name_list *names);
/* Reads what inspect.lua returns. False: it is something else. */
bool redis_read_view(const struct redisReply *reply, struct lock_view *view);

/*
 * Calls found for each key that matches pattern, to add the name of the lock that the key belongs
 * to. Sorts the names. 0 or -1.
 */
typedef void redis_key_found(const char *prefix, const struct redisReply *key,
			     struct name_list *names);
int redis_scan(struct redis_node *node, const char *pattern, redis_key_found *found,
	       struct name_list *names, struct error *err);

/* Made from lua/NAME.lua by lua/embed.sh. */
extern const struct script script_acquire, script_again, script_inspect, script_release,
	script_renew, script_verify;

/* See struct backend_ops. These serve every struct that begins with struct redis_backend. */
void redis_close(struct backend *backend);
int redis_event_fd(struct backend *backend);
int redis_inspect(struct backend *backend, const char *name, bool listen,
		  struct lock_view *view, struct error *err);
int redis_list(struct backend *backend, struct name_list *names, struct error *err);
int redis_break(struct backend *backend, const char *name, struct lock_view *view,
		struct error *err);
int redis_setup(struct backend *backend, struct error *err);
int redis_plan(struct backend *backend, char **text, struct error *err);
int redis_check(struct backend *backend, struct findings *findings, struct error *err);

#endif
