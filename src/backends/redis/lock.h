/* SPDX-License-Identifier: MIT */
/* The parts of the Redis backend share this; see backend.c for how it works. */
#ifndef DLOCK_REDIS_LOCK_H
#define DLOCK_REDIS_LOCK_H

#include "node.h"

struct findings;
struct lock_view;
struct name_list;

struct redis_backend {
	struct redis_node node;		/* begins with struct backend */
	int64_t lease_end_ms;		/* of the last grant, 0: none */
	int64_t asked_ms;		/* CLOCK_BOOTTIME of the last try */
	uint64_t lent_fence;		/* a message has lent us the lock; 0: none has */
};

struct redis_backend *redis_from_backend(struct backend *backend);

/* What the scripts call a mode, read. */
void redis_read_mode(const char *text, enum hold_mode *mode, int *slots);

/* From lua/NAME.lua, made by embed.sh. */
extern const struct script script_acquire, script_again, script_inspect, script_release,
	script_renew, script_verify;

/* See struct backend_ops. */
enum outcome redis_release(struct backend *backend, const struct request *request,
			   enum release how, int64_t keep_ms, struct error *err);
int redis_inspect(struct backend *backend, const char *name, bool listen,
		  struct lock_view *view, struct error *err);
int redis_list(struct backend *backend, struct name_list *names, struct error *err);
int redis_break(struct backend *backend, const char *name, struct lock_view *view,
		struct error *err);
int redis_setup(struct backend *backend, struct error *err);
int redis_plan(struct backend *backend, char **text, struct error *err);
int redis_check(struct backend *backend, struct findings *findings, struct error *err);

#endif
