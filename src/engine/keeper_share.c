/* SPDX-License-Identifier: MIT */
/* The daemon of `dlock acquire`, and the runs that join its hold: see keeper_join.h. */
#include "keeper_join.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/hold_mode.h"
#include "shared.h"

void keeping_end_after(struct keeping *k, int64_t ttl_ms)
{
	k->until_ms = clock_boot_ms() + ttl_ms;
	k->self.until_ms = clock_wall_ms() + ttl_ms;
	keeping_change_text(k);
}

void keeping_extend(struct keeping *k, int64_t ttl_ms, bool keep_end, struct grant *grant,
		    struct keeper_reply *reply)
{
	k->own_ms = ttl_ms;
	if (k->until_ms != CLOCK_NEVER &&
	    !(keep_end && k->until_ms > clock_boot_ms() + ttl_ms))
		keeping_end_after(k, ttl_ms);
	reply->outcome = keeping_renew_once(k, grant, &reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	keeping_publish(k, grant);
	reply->lease_ms = k->until_ms == CLOCK_NEVER ? 0 : ttl_ms;
}

/* What is left of the hold in ms, for a run that enforces its end; 0: it has no end. */
static int64_t lease_left(const struct keeping *k)
{
	int64_t end_ms = clock_earlier(shared_lease(k->plan->shared).end_ms, k->until_ms);
	int64_t left_ms = end_ms - clock_boot_ms();

	if (end_ms == CLOCK_NEVER)
		return 0;
	return left_ms > 0 ? left_ms : 1;
}

/* Extends the hold for a run that has joined it, or is about to. */
static void extend_for_run(struct keeping *k, struct grant *grant, struct keeper_reply *reply)
{
	keeping_extend(k, k->own_ms, true, grant, reply);
	if (reply->outcome != OUTCOME_HELD)
		return;
	reply->fence = grant->fence;
	reply->lease_ms = lease_left(k);
	reply->ttl_ms = grant->ttl_ms ? grant->ttl_ms : k->own_ms;
}

/* Does the hold cover what a query asks for? */
static enum outcome covers(const struct keeping *k, const struct keeper_query *query,
			   struct error *err)
{
	const struct request asked = { .mode = query->mode, .slots = query->slots };

	return hold_mode_covers(k->request.mode, k->request.slots, &asked, err);
}

void keeping_nest_answer(struct keeping *k, const struct keeper_query *query, struct grant *grant,
			 struct keeper_reply *reply)
{
	reply->outcome = covers(k, query, &reply->error);
	if (reply->outcome != OUTCOME_HELD)
		return;
	keeping_extend(k, query->ttl_ms > k->own_ms ? query->ttl_ms : k->own_ms, true, grant,
		       reply);
	reply->fence = grant->fence;
	reply->ttl_ms = reply->lease_ms;
}

/* Watches the connection of a run that joins. 0, or -1 with *err. */
static int add_member(struct keeping *k, int fd, struct error *err)
{
	struct epoll_event hang_up = { .events = EPOLLRDHUP, .data.fd = fd };

	if (k->members < 0)
		k->members = epoll_create1(EPOLL_CLOEXEC);
	/* Close the connections of runs that have ended, to make room. */
	keeping_has_members(k);
	if (epoll_ctl(k->members, EPOLL_CTL_ADD, fd, &hang_up))
		return error_set(err, ERROR_INTERNAL, errno, "epoll");
	return 0;
}

enum outcome keeping_join_answer(struct keeping *k, const struct keeper_query *query,
				 struct grant *grant, int fd)
{
	struct keeper_reply reply = { .outcome = OUTCOME_LOST };
	enum outcome outcome;

	/* A daemon that is leaving frees the lock as soon as it can, and is joined no more. */
	if (!k->leaving)
		reply.outcome = covers(k, query, &reply.error);
	outcome = k->leaving ? OUTCOME_HELD : reply.outcome;
	if (reply.outcome == OUTCOME_HELD) {
		extend_for_run(k, grant, &reply);
		outcome = reply.outcome;
	}
	if (reply.outcome == OUTCOME_HELD && add_member(k, fd, &reply.error))
		reply.outcome = OUTCOME_ERROR;
	if (reply.outcome != OUTCOME_HELD)
		keeper_socket_answer(fd, &reply);
	else if (keeper_socket_answer_join(fd, &reply, k->hold_fd))
		k->member_count++;
	return outcome;
}

enum outcome keeping_stay_answer(struct keeping *k, struct grant *grant, int fd)
{
	struct keeper_reply reply = { .outcome = OUTCOME_LOST };

	extend_for_run(k, grant, &reply);
	keeper_socket_answer(fd, &reply);
	return reply.outcome;
}

bool keeping_has_members(struct keeping *k)
{
	struct epoll_event gone;

	while (k->member_count && epoll_wait(k->members, &gone, 1, 0) == 1) {
		close(gone.data.fd);
		k->member_count--;
	}
	return k->member_count > 0;
}

bool keeping_leave(struct keeping *k)
{
	k->leaving = true;
	return keeping_has_members(k);
}
