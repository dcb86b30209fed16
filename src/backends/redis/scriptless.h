/* SPDX-License-Identifier: MIT */
/*
 * ?scripts=no: locks on a server that runs no scripts. scriptless.c describes how they work. These
 * are slots of struct backend_ops; backend.c fills the others.
 */
#pragma once

#include "lock.h"

struct uri;

/*
 * Reads ?scripts= of uri: *scriptless is true for "no". 0, or -1 with *err: it has another value
 * than yes and no, or there is a parameter beside it that needs scripts.
 */
int scriptless_read(const struct uri *uri, bool *scriptless, struct error *err);

/* See struct backend_ops. */
enum outcome scriptless_acquire(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err);
enum outcome scriptless_renew(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err);
enum outcome scriptless_verify(struct backend *backend, const struct request *request,
			       struct error *err);
enum outcome scriptless_release(struct backend *backend, const struct request *request,
				enum release how, int64_t keep_ms, struct error *err);
enum outcome scriptless_again(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err);
int scriptless_inspect(struct backend *backend, const char *name, bool listen,
		       struct lock_view *view, struct error *err);
int scriptless_break(struct backend *backend, const char *name, struct lock_view *view,
		     struct error *err);
int scriptless_check(struct backend *backend, struct findings *findings, struct error *err);
