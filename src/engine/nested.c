/* SPDX-License-Identifier: MIT */
/*
 * A run inside a hold of the same lock, with one rule for all holds and backends: verify what is
 * stored, run the command while it stays, and stop the command when it is gone. See keeping.h.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "environment.h"

enum obtained supervisor_refuse_token(struct supervisor *s, enum token_scope scope)
{
	const struct error why = s->result->error;

	if (s->result->end != RUN_LOST && why.kind != ERROR_UNAVAILABLE)
		return OBTAINED_NO;
	s->result->error = (struct error){ 0 };
	/* Not an acquisition: the server may be back by then, and the hold may have ended. */
	if (s->result->end != RUN_LOST)
		return supervisor_fail(s, &why);
	if (scope == TOKEN_OF_NAME) {
		s->level = 0;
		return OBTAINED_NOT_YET;
	}
	error_set(&s->result->error, ERROR_REFUSED, 0, "the hold that DLOCK_TOKEN is of has ended");
	return OBTAINED_NO;
}

/* What a keeper needs, for a backend that has none otherwise. 0, or -1 with *err. */
static int open_ways(struct supervisor *s, struct error *err)
{
	if (!s->run->driver->local)
		return 0;
	s->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->lost_fd >= 0 && !pipe2(s->guard_pipe, O_CLOEXEC))
		return 0;
	return error_set(err, ERROR_INTERNAL, errno, "eventfd or pipe");
}

/* Forgets the attempt to join, to acquire instead. */
static void close_ways(struct supervisor *s)
{
	if (!s->run->driver->local)
		return;
	close(s->lost_fd);
	close(s->guard_pipe[0]);
	close(s->guard_pipe[1]);
	s->lost_fd = s->guard_pipe[0] = s->guard_pipe[1] = -1;
}

/* Makes the guard ready to run the command. 0, or -1 with *err. */
static int prepare_guard(struct supervisor *s, struct error *err)
{
	static char nowhere[ENVIRONMENT_FENCE_SIZE];

	supervisor_plan_guard(s, NULL);
	/* The descriptors belong to the outer hold, which this run must not free. */
	s->guard_plan.unlocks = s->guard_plan.inherits = false;
	s->fence = atomic_load(&s->shared->fence);
	/* To the guard, 0 says that there is no lock. Then the command must see no fence. */
	if (!s->fence) {
		s->guard_plan.fence_text = nowhere;
		s->fence = 1;
	}
	return supervisor_start_guard(s, err);
}

/* The command's tree is dead; was the lock held until then? The keeper's last word says. */
static void hear_last_word(struct supervisor *s)
{
	int64_t until_ms = clock_boot_ms() + 2 * s->timeout_ms + KEEPER_GRACE_MS;

	keeper_release(&s->keeper, false);
	if (!s->has_last_word)
		s->has_last_word = supervisor_await_last(s, until_ms, &s->last_word);
	if (s->has_last_word && s->last_word.type == KEEPER_RELEASED)
		return;
	if (s->has_last_word && s->last_word.type == KEEPER_LOST)
		supervisor_lose(s, s->last_word.error.message);
	/* Not known; but what ended within the lease was protected to its end. */
	else if (s->ended_ms >= s->last_lease.end_ms)
		supervisor_expire(s);
}

static void run_joined(struct supervisor *s, struct error *err)
{
	s->result->facts.obtained_ms = clock_boot_ms();
	s->result->facts.fence = atomic_load(&s->shared->fence);
	supervisor_tell(s, EVENT_JOINED, SAY_STEP, "already held, with the token in DLOCK_TOKEN");
	s->protected = s->joined = true;
	if (prepare_guard(s, err)) {
		s->result->end = RUN_FAILED;
		return;
	}
	supervisor_run_command(s);
	hear_last_word(s);
	if (s->lost && s->result->end == RUN_EXITED)
		s->result->end = RUN_LOST;
}

static enum obtained join(struct supervisor *s, enum token_scope scope)
{
	struct error *err = &s->result->error;
	enum obtained obtained = OBTAINED_NO;
	struct keeper_event event;

	s->result->end = RUN_FAILED;
	if (!open_ways(s, err) && !supervisor_start_keeper(s, KEEPER_JOIN, err))
		s->result->end = supervisor_hear_answer(s, &event, err);
	if (s->result->end == RUN_EXITED)
		run_joined(s, err);
	else
		obtained = supervisor_refuse_token(s, scope);
	keeper_kill(&s->keeper);
	keeper_drop_hold(&s->keeper);
	guard_finish(&s->guard);
	if (obtained != OBTAINED_NO)
		close_ways(s);
	return obtained;
}

enum obtained supervisor_run_nested(struct supervisor *s)
{
	enum token_scope scope;

	if (environment_find_token(s->run->name, s->identity, s->token, &s->level, &scope,
				   &s->result->error)) {
		s->result->end = RUN_FAILED;
		return OBTAINED_NO;
	}
	return scope == TOKEN_OF_OTHER ? OBTAINED_NOT_YET : join(s, scope);
}
