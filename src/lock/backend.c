/* SPDX-License-Identifier: MIT */
/* The calls of a backend whose answer has times, which are bounded here for all backends. */
#include "backend.h"

#include <inttypes.h>

#include "base/error.h"
#include "lease.h"
#include "view.h"

/* ERROR: somebody has forged the last fence. */
static enum outcome refuse_fence(uint64_t fence, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "the fence would be %" PRIu64 ", which no clock gives: "
		  "somebody has written the last fence; when the lock is free, remove where it is "
		  "stored, see dlock-backends(7)", fence);
	return OUTCOME_ERROR;
}

enum outcome backend_grant(backend_grant_fn *slot, struct backend *backend,
			   const struct request *request, struct grant *grant, struct error *err)
{
	const enum outcome outcome = slot(backend, request, grant, err);

	if (outcome == OUTCOME_HELD)
		grant->ttl_ms = lease_bound(grant->ttl_ms, request->ttl_ms, backend->session);
	grant->age_ms = lease_shown(grant->age_ms);
	if (outcome == OUTCOME_HELD && grant->fence >= BACKEND_FENCE_END)
		return refuse_fence(grant->fence, err);
	return outcome;
}

int backend_inspect(struct backend *backend, const char *name, bool listen,
		    struct lock_view *view, struct error *err)
{
	const int failed = backend->ops->inspect(backend, name, listen, view, err);

	for (size_t i = 0; i < view->hold_count; i++) {
		view->holds[i].age_ms = lease_shown(view->holds[i].age_ms);
		view->holds[i].expires_ms = lease_shown(view->holds[i].expires_ms);
	}
	for (size_t i = 0; i < view->waiter_count; i++)
		view->waiters[i].waiting_ms = lease_shown(view->waiters[i].waiting_ms);
	return failed;
}
