/* SPDX-License-Identifier: MIT */
/*
 * ?scripts=no: locks on a server that runs no scripts. scriptless.c describes how they work. These
 * are slots of struct backend_ops; backend.c fills the others.
 */
#pragma once

#include "lock.h"

/*
 * Reads ?scripts= of uri: *scriptless is true for "no". 0, or -1 with *err: it has another value
 * than yes and no, or there is a parameter beside it that needs scripts.
 */
int scriptless_read(const struct uri *uri, bool *scriptless, struct error *err);

/* See struct backend_ops. */
backend_grant_fn scriptless_acquire, scriptless_renew, scriptless_again;
backend_verify_fn scriptless_verify;
backend_release_fn scriptless_release;
backend_inspect_fn scriptless_inspect;
backend_break_fn scriptless_break;
int scriptless_check(struct backend *backend, struct findings *findings, struct error *err);
