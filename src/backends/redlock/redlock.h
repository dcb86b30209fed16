/* SPDX-License-Identifier: MIT */
/* Declarations shared by the Redlock backend. backend.c describes how the backend works. */
#pragma once

#include "backends/redis/client.h"
#include "lock/holder.h"

struct redlock {
	struct redis_client client;	/* begins with struct backend */
	int splits;			/* tries in a row in which nobody had a majority */
	/*
	 * Why the last try was BUSY although nobody has the lock: too many nodes were restarted.
	 * Shown instead of a holder; "": no such reason.
	 */
	char young[HOLDER_NOTE_MAX + 1];
};

static inline struct redlock *redlock_from_backend(struct backend *backend)
{
	return (struct redlock *)backend;
}

/* See struct redis_client, */
redis_attempt_fn redlock_attempt;
/* and struct backend_ops: acquire.c, show.c. */
backend_show_fn redlock_show;
int redlock_check(struct backend *backend, struct findings *findings, struct error *err);
