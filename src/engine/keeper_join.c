/* SPDX-License-Identifier: MIT */
/* Joins, renews and verifies the hold of another process. */
#include "keeper_join.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock/lease.h"
#include "keeper_socket.h"

/* A lease that is longer counts as this one. */
#define JOINED_MOST_MS (INT64_C(24) * 3600 * 1000)

/*
 * Ask the daemon: any verb but RENEW and RELEASE. True: *outcome is the answer. False: there is no
 * daemon (*outcome LOST), or it does not answer (ERROR with k->event.error).
 */
static bool ask_daemon(struct keeping *k, enum keeper_verb verb, struct grant *grant,
		       enum outcome *outcome)
{
	const int64_t asked_ms = clock_boot_ms();
	int64_t patience_ms = 2 * k->backend->timeout_ms;
	struct error *err = &k->event.error;
	struct keeper_reply reply;
	int asked;

	/* Leave time for another query. */
	if (grant->ttl_ms)
		patience_ms = clock_earlier(patience_ms, grant->ttl_ms / 4 + 1);
	asked = keeper_socket_ask(verb, &k->request, k->job->identity, &reply,
				  verb == KEEPER_VERB_JOIN ? &k->joined.share_fd : NULL,
				  patience_ms, err);
	*outcome = asked < 0 ? OUTCOME_ERROR : OUTCOME_LOST;
	if (asked)
		return false;
	*outcome = reply.outcome;
	*err = reply.error;
	/* The answer to a verification has no lease. */
	if (reply.outcome != OUTCOME_HELD || verb == KEEPER_VERB_VERIFY)
		return true;
	grant->fence = reply.fence;
	grant->ttl_ms = reply.lease_ms ? reply.ttl_ms : 0;
	grant->sent_ms = asked_ms;
	/* The lease of the daemon has begun earlier. */
	if (grant->ttl_ms)
		grant->sent_ms += reply.lease_ms - lease_end(0, grant->ttl_ms);
	return true;
}

static enum outcome renew_for(struct keeping *k, int64_t ttl_ms, struct grant *grant)
{
	k->request.ttl_ms = ttl_ms;
	return hold_renew_other(k->backend, &k->request, grant, &k->event.error);
}

/*
 * Renew with the hold's own TTL. A very long lease, or one without an end, counts as a shorter one
 * for the run.
 */
static enum outcome renew_here(struct keeping *k, struct grant *grant)
{
	const enum outcome outcome = renew_for(k, 0, grant);

	grant->ttl_ms = clock_earlier(grant->ttl_ms, JOINED_MOST_MS);
	if (!grant->ttl_ms)
		grant->ttl_ms = k->job->request.ttl_ms;
	return outcome;
}

/* Verify the hold for a run that joins it, and renew it. */
static enum outcome try_to_join(struct keeping *k, struct grant *grant)
{
	const bool session = k->backend->session;
	enum outcome outcome;

	if (ask_daemon(k, KEEPER_VERB_JOIN, grant, &outcome))
		return outcome;
	/* Only the daemon can answer for a hold that lives with it. */
	if (outcome == OUTCOME_ERROR && session)
		return outcome;
	outcome = verify_here(k, grant);
	/* An outer run ends this one when it loses the lock; this one only verifies. */
	if (outcome != OUTCOME_HELD || (session && token_is_of_run(k->request.token)))
		return outcome;
	if (!session)
		return renew_here(k, grant);
	error_set(&k->event.error, ERROR_REFUSED, 0, "held already, with this token, by a "
		  "process that cannot be asked from here (it does not answer, or belongs to "
		  "another host, user or container), so that the command would not be protected");
	return OUTCOME_ERROR;
}

enum outcome renew_joined(struct keeping *k, struct grant *grant, bool verify)
{
	const enum keeper_verb verb = verify ? KEEPER_VERB_VERIFY : KEEPER_VERB_STAY;
	enum outcome outcome;

	if (!k->backend->session && !verify)
		return renew_here(k, grant);
	if (!k->backend->session || k->joined.share_fd < 0)
		return verify_here(k, grant);
	if (ask_daemon(k, verb, grant, &outcome))
		return outcome;
	if (outcome == OUTCOME_LOST)
		error_set(&k->event.error, ERROR_UNAVAILABLE, 0,
			  "the process that held it has ended");
	/* A daemon that hangs does not notice a loss. */
	else if (verify_here(k, grant) == OUTCOME_LOST)
		outcome = OUTCOME_LOST;
	return outcome;
}

void nest_and_exit(struct keeping *k)
{
	const int64_t ttl_ms = k->request.ttl_ms;
	struct grant grant = { 0 };
	enum outcome outcome;

	if (!ask_daemon(k, KEEPER_VERB_NEST, &grant, &outcome) && outcome != OUTCOME_ERROR) {
		outcome = verify_here(k, &grant);
		if (outcome == OUTCOME_HELD && !k->backend->session)
			outcome = renew_for(k, 0, &grant);
		if (outcome == OUTCOME_HELD && grant.ttl_ms && grant.ttl_ms < ttl_ms)
			outcome = renew_for(k, ttl_ms, &grant);
	}
	atomic_store(&k->job->shared->fence, grant.fence);
	k->event.lease_ms = grant.ttl_ms;
	send_and_exit(k, keeper_event_of(outcome));
}

void join_hold(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	k->stage = STAGE_JOINED;
	/* Renewals keep the hold's own TTL. */
	k->request.ttl_ms = 0;
	outcome = try_to_join(k, grant);
	if (outcome != OUTCOME_HELD)
		send_and_exit(k, keeper_event_of(outcome));
	/* The mode was checked when the hold was joined. */
	k->request.mode = HOLD_ANY;
	publish_lease(k, grant);
	atomic_store(&k->job->shared->fence, grant->fence);
	k->hold_fd = k->joined.share_fd;
	/* The next renewal counts from now: a daemon's lease may have begun long ago. */
	grant->sent_ms = clock_boot_ms();
	send_event(k, KEEPER_HELD);
}

void end_joined_and_exit(struct keeping *k)
{
	struct grant unused = { 0 };
	enum keeper_event_type type;

	limit_calls(k, CLOCK_NEVER);
	k->event.error = (struct error){ 0 };
	type = keeper_event_of(renew_joined(k, &unused, true));
	/* BUSY: it is held in another mode. */
	send_and_exit(k, type == KEEPER_HELD || type == KEEPER_BUSY ? KEEPER_RELEASED : type);
}
