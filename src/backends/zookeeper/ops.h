/* SPDX-License-Identifier: MIT */
/* The functions that backend.c puts into its table, and zk_check_ignored() for check.c. */
#pragma once

#include <stdint.h>

#include "lock/backend.h"

struct zk_backend;

/* ---- queue.c, node.c: of the two strategies ---- */
enum outcome zk_queue_acquire(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err);
int64_t zk_queue_event(struct zk_backend *zk);
enum outcome zk_node_acquire(struct zk_backend *zk, const struct request *request,
			     struct grant *grant, struct error *err);

/* ---- hold.c ---- */
backend_grant_fn zk_renew;
backend_verify_fn zk_verify;

/* ---- release.c ---- */
backend_release_fn zk_release;

/* ---- inspect.c ---- */
backend_inspect_fn zk_inspect;
int zk_list_names(struct backend *backend, struct name_list *names, struct error *err);
backend_break_fn zk_break;
/* Adds a finding if other programs keep nodes of their own in directories of locks. 0 or -1. */
int zk_check_ignored(struct zk_backend *zk, struct findings *findings, struct error *err);

/* ---- check.c ---- */
int zk_setup(struct backend *backend, struct error *err);
int zk_plan(struct backend *backend, char **text, struct error *err);
int zk_check(struct backend *backend, struct findings *findings, struct error *err);
