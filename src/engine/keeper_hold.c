/* SPDX-License-Identifier: MIT */
/* The keeper's single steps about its hold, which the phases of its life are made of. */
#include "keeping.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "lock/view.h"
#include "shared.h"

void keeping_publish(struct keeping *k, const struct grant *grant)
{
	struct lease_span lease = { .end_ms = CLOCK_NEVER, .ttl_ms = grant->ttl_ms };

	if (grant->ttl_ms)
		lease.end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	shared_set_lease(k->plan->shared, lease);
	atomic_store(&k->plan->shared->session_ms, k->backend->session_ms);
}

/* What is left of the minimum hold, in ms. */
static int64_t rest_of_hold(const struct keeping *k)
{
	const int64_t held_ms = atomic_load(&k->plan->shared->held_ms);
	const int offer = atomic_load(&k->plan->shared->offer);

	/* Who comes too late to take an offer has written the time all the same. */
	if (!held_ms || offer == OFFER_WITHDRAWN || offer == OFFER_CLOSED)
		return 0;
	return lease_keep(held_ms, k->min_hold_ms, clock_boot_ms());
}

void keeping_unbound_calls(struct keeping *k)
{
	if (!k->timeout_ms)
		return;
	k->backend->timeout_ms = k->timeout_ms;
	k->backend->connect_timeout_ms = k->connect_timeout_ms;
}

enum outcome keeping_renew_once(struct keeping *k, struct grant *grant, struct error *err)
{
	struct request request = k->request;
	enum outcome outcome;

	request.text = k->text_changed ? k->text : NULL;
	outcome = hold_renew(k->backend, &request, grant, err);
	if (outcome == OUTCOME_HELD)
		k->text_changed = false;
	return outcome;
}

void keeping_change_text(struct keeping *k)
{
	holder_encode(&k->self, k->text);
	k->text_changed = true;
}

void keeping_view(struct keeping *k)
{
	struct lock_view view = { 0 };
	struct error ignored = { 0 };
	const struct hold_view *first;

	if (k->orphaned || k->abandoned ||
	    hold_view(k->backend, k->request.name, k->request.token, &view, &ignored))
		return;
	first = lock_view_first(&view);
	k->viewed_ms = clock_boot_ms();
	k->event.holder_known = first != NULL;
	k->event.ahead = lock_view_ahead(&view);
	if (first) {
		k->event.holder = first->holder;
		k->event.age_ms = first->age_ms;
	}
	lock_view_finish(&view);
}

/* Store in the record of a hold that lives with this process that it is only kept. */
static enum outcome begin_keeping(struct keeping *k, int64_t keep_ms, struct error *err)
{
	struct grant grant = { 0 };

	k->self.kept_ms = clock_wall_ms() + keep_ms;
	keeping_change_text(k);
	return keeping_renew_once(k, &grant, err);
}

enum outcome keeping_release_once(struct keeping *k, int64_t *keep_ms, struct error *err)
{
	const int64_t lease_end_ms = shared_lease(k->plan->shared).end_ms;

	/* The connection of a keeper that was killed is gone, and cannot be kept. */
	*keep_ms = k->backend->session && k->plan->mode == KEEPER_RELEASE
		   ? 0 : rest_of_hold(k);
	if (k->backend->session && *keep_ms > 0)
		return begin_keeping(k, *keep_ms, err);
	return hold_release(k->backend, &k->request, &k->self, *keep_ms, lease_end_ms, err);
}
