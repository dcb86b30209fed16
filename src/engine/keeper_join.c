/* SPDX-License-Identifier: MIT */
/* The keeper of a nested run joins, renews and verifies the outer hold. */
#include "keeping.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "lock/hold.h"
#include "lock/lease.h"

#define JOINED_MOST_MS (INT64_C(24) * 3600 * 1000)

/* ---- by the daemon ---- */

/* Set *grant to the lease of the reply to a query at asked_ms. */
static void read_reply(const struct keeper_reply *reply, int64_t asked_ms, struct grant *grant)
{
	grant->fence = reply->fence;
	grant->ttl_ms = reply->lease_ms ? reply->ttl_ms : 0;
	grant->sent_ms = asked_ms;
	if (grant->ttl_ms)
		grant->sent_ms += reply->lease_ms - lease_end(0, grant->ttl_ms);
}

/* Return the time for a daemon's answer, in ms. It leaves time for another query. */
static int64_t reply_timeout(const struct keeping *k, const struct grant *grant)
{
	int64_t bound_ms = 2 * k->backend->timeout_ms;

	return grant->ttl_ms ? clock_earlier(bound_ms, grant->ttl_ms / 4 + 1) : bound_ms;
}

/*
 * Ask the daemon: any verb but RENEW and RELEASE. True: *outcome is the answer. False: there is no
 * daemon (*outcome LOST), or it does not answer (ERROR with k->event.error).
 */
static bool ask_daemon(struct keeping *k, enum keeper_verb verb, struct grant *grant,
		       enum outcome *outcome)
{
	const int64_t asked_ms = clock_boot_ms(), patience_ms = reply_timeout(k, grant);
	struct error *err = &k->event.error;
	struct keeper_reply reply;
	const int asked = keeper_socket_ask(verb, &k->request, k->s->identity, &reply,
					    verb == KEEPER_VERB_JOIN ? &k->share_fd : NULL,
					    patience_ms, err);

	*outcome = asked < 0 ? OUTCOME_ERROR : OUTCOME_LOST;
	if (asked)
		return false;
	*outcome = reply.outcome;
	*err = reply.error;
	if (reply.outcome == OUTCOME_HELD)
		read_reply(&reply, asked_ms, grant);
	return true;
}

/* ---- at the backend ---- */

static enum outcome verify_here(struct keeping *k, struct grant *grant)
{
	return hold_verify(k->backend, &k->request, &grant->fence, &k->event.error);
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
		grant->ttl_ms = k->s->request.ttl_ms;
	return outcome;
}

static enum outcome join_backend(struct keeping *k, struct grant *grant)
{
	const enum outcome outcome = verify_here(k, grant);

	if (outcome != OUTCOME_HELD)
		return outcome;
	/* An outer run ends this one when it loses the lock; this one only verifies. */
	if (k->backend->session && token_is_of_run(k->request.token))
		return outcome;
	if (k->backend->session) {
		error_set(&k->event.error, ERROR_REFUSED, 0, "held already, with this token, by a "
			  "process that cannot be asked from here (it does not answer, or belongs "
			  "to another host, user or container), so that the command would not be "
			  "protected");
		return OUTCOME_ERROR;
	}
	return renew_here(k, grant);
}

/*
 * Extend the lease by the longer of ttl_ms and the hold's own TTL, unless it has no end or lives
 * with another process, which renews it.
 */
static enum outcome nest_at_backend(struct keeping *k, int64_t ttl_ms, struct grant *grant)
{
	enum outcome outcome = verify_here(k, grant);

	if (outcome != OUTCOME_HELD || k->backend->session)
		return outcome;
	outcome = renew_for(k, 0, grant);
	if (outcome == OUTCOME_HELD && grant->ttl_ms && grant->ttl_ms < ttl_ms)
		outcome = renew_for(k, ttl_ms, grant);
	return outcome;
}

/* ---- the hold, wherever it lives ---- */

static enum outcome join_hold(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	if (ask_daemon(k, KEEPER_VERB_JOIN, grant, &outcome))
		return outcome;
	/* Only the daemon can answer for a hold that lives with it. */
	if (outcome == OUTCOME_ERROR && k->backend->session)
		return outcome;
	return join_backend(k, grant);
}

enum outcome keeping_renew_joined(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	if (!k->backend->session)
		return renew_here(k, grant);
	if (k->share_fd < 0)
		return verify_here(k, grant);
	if (ask_daemon(k, KEEPER_VERB_STAY, grant, &outcome))
		return outcome;
	if (outcome == OUTCOME_LOST)
		error_set(&k->event.error, ERROR_UNAVAILABLE, 0,
			  "the process that held it has ended");
	/* A daemon that hangs does not notice a loss. */
	else if (verify_here(k, grant) == OUTCOME_LOST)
		outcome = OUTCOME_LOST;
	return outcome;
}

enum outcome keeping_verify_joined(struct keeping *k)
{
	struct grant unused = { 0 };
	enum outcome outcome;

	if (!k->backend->session || k->share_fd < 0)
		return verify_here(k, &unused);
	ask_daemon(k, KEEPER_VERB_VERIFY, &unused, &outcome);
	return outcome;
}

void keeping_nest_exit(struct keeping *k)
{
	struct grant grant = { 0 };
	enum outcome outcome;

	if (!ask_daemon(k, KEEPER_VERB_NEST, &grant, &outcome) && outcome != OUTCOME_ERROR)
		outcome = nest_at_backend(k, k->request.ttl_ms, &grant);
	atomic_store(&k->s->shared->fence, grant.fence);
	k->event.lease_ms = grant.ttl_ms;
	keeping_exit(k, keeper_event_of(outcome));
}

/* ---- the beginning and the end ---- */

void keeping_join(struct keeping *k, struct grant *grant)
{
	enum outcome outcome;

	/* Renewals keep the hold's own TTL. */
	k->request.ttl_ms = 0;
	outcome = join_hold(k, grant);
	if (outcome != OUTCOME_HELD)
		keeping_exit(k, keeper_event_of(outcome));
	/* The mode was checked when the hold was joined. */
	k->request.mode = HOLD_ANY;
	keeping_publish(k, grant);
	atomic_store(&k->s->shared->fence, grant->fence);
	k->hold_fd = k->share_fd;
	/* The next renewal counts from now: a daemon's lease may have begun long ago. */
	grant->sent_ms = clock_boot_ms();
	keeping_send(k, KEEPER_HELD);
}

void keeping_end_joined_exit(struct keeping *k)
{
	enum keeper_event_type type;

	keeping_reset_timeouts(k);
	k->event.error = (struct error){ 0 };
	type = keeper_event_of(keeping_verify_joined(k));
	if (type == KEEPER_LOST && !k->event.error.message[0])
		error_set(&k->event.error, ERROR_REFUSED, 0, KEEPING_GONE);
	/* BUSY: it is held in another mode. */
	keeping_exit(k, type == KEEPER_HELD || type == KEEPER_BUSY ? KEEPER_RELEASED : type);
}
