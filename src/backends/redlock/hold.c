/* SPDX-License-Identifier: MIT */
/* Holding and releasing: see backend.c for the whole of it. */
#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/lease.h"
#include "round.h"
#include "validity.h"

/* How the nodes that answered see a hold. */
struct standing {
	int held, lost;
	const redisReply *best;		/* of those that hold: the one with the greatest fence */
	uint64_t fence;
	unsigned empty;			/* a bit for each node where nobody has the lock */
};

/* Prepares a call that is not the first one about this lock. */
static struct redlock *begin(struct backend *backend, const struct request *request)
{
	struct redlock *lock = redlock_from_backend(backend);

	redlock_begin(lock, request->name);
	return lock;
}

/*
 * HELD: a majority has the hold. LOST: so many have lost it that the others are no majority,
 * however they answer. ERROR with *err: too few have answered.
 */
static enum outcome judge(const struct redlock *lock, int held, int lost, struct error *err)
{
	if (held >= lock->quorum)
		return OUTCOME_HELD;
	if (lost > lock->count - lock->quorum) {
		error_set(err, ERROR_REFUSED, 0, "%d of %d nodes no longer have the lock", lost,
			  lock->count);
		return OUTCOME_LOST;
	}
	redlock_no_majority(lock, held + lost, err);
	return OUTCOME_ERROR;
}

static void odd(struct redlock_node *node)
{
	node->state = NODE_FAILED;
	error_set(&node->error, ERROR_UNAVAILABLE, 0, "%s: gave an answer that makes no sense",
		  node->address.label);
}

/* ---- renewing ---- */

/*
 * {1, fence, record}, {0} or {2} of the node that has this bit: see redis/lua/common.lua. False: it
 * makes no sense.
 */
static bool read_renewed(const redisReply *reply, unsigned node, struct standing *standing)
{
	redisReply *const *e = reply->element;
	uint64_t fence;

	if (redis_has_shape(reply, "iss") && e[0]->integer == 1) {
		fence = strtoull(e[1]->str, NULL, 10);
		standing->held++;
		if (fence < BACKEND_FENCE_END &&
		    (!standing->best || fence > standing->fence)) {
			standing->best = reply;
			standing->fence = fence;
		}
		return true;
	}
	if (!redis_has_shape(reply, "i") || e[0]->integer == 1)
		return false;
	standing->lost++;
	if (e[0]->integer == 0)
		standing->empty |= node;
	return true;
}

static void tally(struct redlock *lock, struct standing *standing)
{
	*standing = (struct standing){ .held = 0 };
	for (int i = 0; i < lock->count; i++)
		if (lock->nodes[i].state == NODE_ANSWERED &&
		    !read_renewed(lock->nodes[i].reply, 1u << i, standing))
			odd(&lock->nodes[i]);
}

/*
 * Set the lock again on the nodes that have lost it, while a majority has it for certain. Where
 * somebody else has it, nothing changes.
 */
static void restore(struct redlock *lock, const struct request *request,
		    const struct standing *standing)
{
	redisReply *const *e = standing->best->element;
	char ttl[REDIS_DIGITS_SIZE];
	char *fence = memory_copy(e[1]->str), *text = memory_copy(e[2]->str);
	const struct redlock_call call = {
		.what = "acquire", .token = request->token, .nodes = standing->empty,
		.arguments = { redis_digits(request->ttl_ms, ttl), "x", text, "0", fence, "",
			       NULL },
		.takes = true,
	};
	struct error ignored;

	redlock_round(lock, &call, &ignored);
	free(fence);
	free(text);
}

/* HELD: *grant has the lease that a majority has given. ERROR: nothing is left of it. */
static enum outcome note_lease(struct redlock *lock, int64_t sent_ms, int64_t ttl_ms,
			       struct grant *grant, struct error *err)
{
	if (redlock_validity(ttl_ms, clock_boot_ms() - sent_ms) <= 0) {
		error_set(err, ERROR_UNAVAILABLE, 0,
			  "the nodes answered so late that nothing of the TTL was left");
		return OUTCOME_ERROR;
	}
	grant->sent_ms = sent_ms;
	grant->ttl_ms = ttl_ms;
	lock->lease_end_ms = lease_end(sent_ms, ttl_ms);
	return OUTCOME_HELD;
}

enum outcome redlock_renew(struct backend *backend, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct redlock *lock = begin(backend, request);
	char ttl[REDIS_DIGITS_SIZE];
	const struct redlock_call call = {
		.what = "renew", .token = request->token,
		.arguments = { redis_digits(request->ttl_ms, ttl),
			       request->text ? request->text : "", NULL },
		.least = lock->quorum,
	};
	const int64_t sent_ms = clock_boot_ms();
	struct standing standing;
	enum outcome outcome;

	if (redlock_round(lock, &call, err))
		return OUTCOME_ERROR;
	tally(lock, &standing);
	outcome = judge(lock, standing.held, standing.lost, err);
	if (outcome == OUTCOME_HELD)
		outcome = note_lease(lock, sent_ms, request->ttl_ms, grant, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	grant->fence = standing.fence;
	if (standing.empty && standing.best)
		restore(lock, request, &standing);
	return outcome;
}

/* ---- releasing ---- */

/* Count answers to a release: 1, or 0 for a node that did not have the hold. */
static void read_released(struct redlock *lock, struct standing *standing)
{
	*standing = (struct standing){ .held = 0 };
	for (int i = 0; i < lock->count; i++) {
		struct redlock_node *node = &lock->nodes[i];
		bool held;

		if (node->state != NODE_ANSWERED)
			continue;
		node->touched = false;
		if (!redis_is_integer(node->reply)) {
			odd(node);
			continue;
		}
		/* A release that was sent twice may itself have ended the hold. */
		held = node->reply->integer != 0 ||
		       lease_ended_by_resent(node->resent, clock_boot_ms(), lock->lease_end_ms);
		standing->held += held;
		standing->lost += !held;
	}
}

enum outcome redlock_release(struct backend *backend, const struct request *request,
			     struct error *err)
{
	struct redlock *lock = begin(backend, request);
	char keep[REDIS_DIGITS_SIZE];
	const struct redlock_call call = {
		.what = "release", .token = request->token,
		.arguments = { redis_digits(request->keep_ms, keep),
			       request->text ? request->text : "", "0", "0", NULL },
		.least = lock->quorum,
	};
	struct standing standing;

	/* From here on no release need wake this waiter. */
	redlock_stop_listening(lock);
	if (redlock_round(lock, &call, err))
		return OUTCOME_ERROR;
	read_released(lock, &standing);
	return judge(lock, standing.held, standing.lost, err);
}
