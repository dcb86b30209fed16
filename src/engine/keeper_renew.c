/* SPDX-License-Identifier: MIT */
/* How the keeper extends a hold, its own or one that a run has joined. */
#include "keeper_join.h"

#include "base/clock.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "shared.h"

/* How long the lease is, or, without one, how often to look that the lock is still held. */
static int64_t period(const struct keeping *k, const struct grant *grant)
{
	return grant->ttl_ms ? grant->ttl_ms : k->plan->request->ttl_ms;
}

int64_t keeping_first_renewal(const struct keeping *k, const struct grant *grant)
{
	return k->plan->no_renew ? CLOCK_NEVER : lease_renew_at(grant->sent_ms, period(k, grant));
}

/*
 * No renewal goes on beyond the time when the command must be dead, or a daemon's process be
 * told: this process may be the only one left to see to that. False: it is too late to begin one.
 */
static bool bound_calls(struct keeping *k)
{
	const struct lease_span lease = shared_lease(k->plan->shared);
	int64_t deadline_ms = lease_stop(lease, k->plan->kill_after_ms).kill_ms, rest_ms;

	if (k->listener >= 0)
		deadline_ms = keeping_deadline(k);
	rest_ms = deadline_ms - clock_boot_ms();
	if (rest_ms <= 0)
		return false;
	k->backend->timeout_ms = clock_earlier(rest_ms, k->timeout_ms);
	k->backend->connect_timeout_ms = clock_earlier(rest_ms, k->connect_timeout_ms);
	return true;
}

/* With --no-renew it only verifies. */
static enum outcome extend(struct keeping *k, struct grant *grant, bool verify)
{
	struct error *err = &k->event.error;

	*err = (struct error){ 0 };
	if (k->plan->mode == KEEPER_JOIN)
		return verify ? keeping_verify_joined(k) : keeping_renew_joined(k, grant);
	return verify ? hold_verify(k->backend, &k->request, err)
		      : keeping_renew_once(k, grant, err);
}

bool keeping_renew(struct keeping *k, struct grant *grant, int64_t *next_ms)
{
	const bool verify = k->plan->no_renew;
	const int64_t asked_ms = clock_boot_ms();

	*next_ms = CLOCK_NEVER;
	if (!bound_calls(k)) {
		k->trouble = true;
		return true;
	}
	switch (extend(k, grant, verify)) {
	case OUTCOME_HELD:
		if (!verify)
			keeping_publish(k, grant);
		if (k->trouble)
			keeping_tell(k, KEEPER_RENEWED);
		k->trouble = false;
		if (!k->plan->no_renew)
			*next_ms = lease_renew_at(asked_ms, period(k, grant));
		return true;
	case OUTCOME_ERROR:
		if (!k->trouble)
			keeping_tell(k, KEEPER_TROUBLE);
		k->trouble = true;
		*next_ms = clock_boot_ms() + lease_retry_ms(period(k, grant));
		return true;
	case OUTCOME_LOST:
	case OUTCOME_BUSY:
		break;
	}
	if (!k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, KEEPING_GONE);
	return false;
}
