/* SPDX-License-Identifier: MIT */
/* The functions of the file backend's table that are not in backend.c: see struct backend_ops. */
#pragma once

#include "lock/backend.h"

/* ---- acquire.c ---- */
backend_grant_fn file_acquire;

/* ---- inspect.c ---- */
backend_inspect_fn file_inspect;
int file_list(struct backend *backend, struct name_list *names, struct error *err);
backend_break_fn file_break;

/* ---- check.c ---- */
int file_setup(struct backend *backend, struct error *err);
int file_plan(struct backend *backend, char **text, struct error *err);
int file_check(struct backend *backend, struct findings *findings, struct error *err);
