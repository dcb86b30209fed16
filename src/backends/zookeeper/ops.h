/* SPDX-License-Identifier: MIT */
/* The functions behind the backend's table, each in a file above all others but backend.c. */
#pragma once

#include <stdint.h>

#include "lock/backend.h"

struct findings;
struct zk_backend;

/* ---- queue.c, node.c: of the two strategies ---- */
enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err);
int64_t zk_queue_event(struct zk_backend *zk);
enum outcome zk_node_acquire(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err);

/* ---- hold.c ---- */
enum outcome zk_renew(struct backend *backend, const struct request *request,
		      struct grant *grant, struct error *err);
enum outcome zk_verify(struct backend *backend, const struct request *request,
		       struct error *err);
enum outcome zk_again(struct backend *backend, const struct request *request,
		      struct grant *grant, struct error *err);

/* ---- release.c ---- */
enum outcome zk_release(struct backend *backend, const struct request *request,
			enum release how, int64_t keep_ms, struct error *err);

/* ---- inspect.c ---- */
int zk_inspect(struct backend *backend, const char *name, bool listen, struct lock_view *view,
	       struct error *err);
int zk_list_names(struct backend *backend, struct name_list *names, struct error *err);
int zk_break(struct backend *backend, const char *name, struct lock_view *view,
	     struct error *err);
/* Adds a finding if other programs keep nodes of their own in directories of locks. 0 or -1. */
int zk_check_ignored(struct zk_backend *zk, struct findings *findings, struct error *err);

/* ---- check.c ---- */
int zk_setup(struct backend *backend, struct error *err);
int zk_plan(struct backend *backend, char **text, struct error *err);
int zk_check(struct backend *backend, struct findings *findings, struct error *err);
