/* SPDX-License-Identifier: MIT */
/* The functions of the file backend's table that are not in backend.c: see struct backend_ops. */
#pragma once

#include "lock/backend.h"

/* ---- acquire.c ---- */
enum outcome file_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err);

/* ---- inspect.c ---- */
int file_inspect(struct backend *backend, const char *name, bool listen,
		 struct lock_view *view, struct error *err);
int file_list(struct backend *backend, struct name_list *names, struct error *err);
int file_break(struct backend *backend, const char *name, struct lock_view *view,
	       struct error *err);

/* ---- check.c ---- */
int file_setup(struct backend *backend, struct error *err);
int file_plan(struct backend *backend, char **text, struct error *err);
int file_check(struct backend *backend, struct findings *findings, struct error *err);
