/* SPDX-License-Identifier: MIT */
/*
 * A run inside a hold of the same lock, with one rule for all holds and backends: verify what is
 * stored, run the command while it stays, and stop the command when it is gone. See keeping.h.
 */
#include "supervisor.h"

#include <stdatomic.h>

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

static enum obtained join(struct supervisor *s, enum token_scope scope)
{
	struct keeper_event event;

	s->result->end = RUN_FAILED;
	if (!supervisor_start_keeper(s, KEEPER_JOIN, &s->result->error))
		s->result->end = supervisor_hear_answer(s, &event, &s->result->error);
	if (s->result->end != RUN_EXITED) {
		keeper_kill(&s->keeper);
		keeper_drop_hold(&s->keeper);
		return supervisor_refuse_token(s, scope);
	}
	s->protected = s->joined = true;
	s->fence = s->result->facts.fence = atomic_load(&s->shared->fence);
	s->result->facts.obtained_ms = clock_boot_ms();
	supervisor_tell(s, EVENT_JOINED, SAY_STEP, "already held, with the token in DLOCK_TOKEN");
	return OBTAINED_YES;
}

enum obtained supervisor_join(struct supervisor *s)
{
	enum token_scope scope;

	if (environment_find_token(s->run->name, s->identity, s->token, &s->level, &scope,
				   &s->result->error)) {
		s->result->end = RUN_FAILED;
		return OBTAINED_NO;
	}
	return scope == TOKEN_OF_OTHER ? OBTAINED_NOT_YET : join(s, scope);
}
