/* SPDX-License-Identifier: MIT */
/* Rows with a token and an end: one that is acquired more than once. See simple.h. */
#include "api.h"

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "simple.h"

/*
 * Counts one acquisition more or less than *seen shows, which then has the fence. HELD; LOST:
 * it is not ours; BUSY: there is but one, which is not taken away; ERROR.
 */
static enum outcome count(struct mysql_backend *my, const struct request *request, int step,
			  struct simple_state *seen, struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + my->base.timeout_ms;
	bool again = false;

	while (step > 0 || seen->holds > 1) {
		const struct simple_extra extra = { .step = step, .holds = seen->holds };
		int64_t answer[3] = { 0 };	/* see insert_count.sql */
		struct simple_words words;
		MYSQL_RES *rows;

		simple_make_words(my, request, &extra, &words);
		if (simple_run(my, simple_of(my)->kind->count, words.values, &rows, err)) {
			again = true;
			if (simple_contended(my) && clock_boot_ms() < until_ms)
				continue;
			return OUTCOME_ERROR;
		}
		again |= my->resent;
		mysql_numbers(rows, answer, 3);
		mysql_free_result(rows);
		if (!answer[1])
			return OUTCOME_LOST;
		seen->fence = (uint64_t)answer[2];
		if (answer[0] > 0 || (again && answer[1] == extra.holds + step))
			return OUTCOME_HELD;
		/* Others count, too. */
		again = false;
		seen->holds = answer[1];
	}
	return OUTCOME_BUSY;
}

/* What a hold is extended by when it is counted: see own_ttl.sql. */
static int64_t own_ttl(const struct simple_state *state)
{
	if (state->holder.ttl_ms)
		return state->holder.ttl_ms;
	return state->rest_us > BACKEND_TTL_MS * 1000 ? state->rest_us / 1000 : BACKEND_TTL_MS;
}

enum outcome simple_again(struct mysql_backend *my, const struct request *request,
			  struct grant *grant, struct error *err)
{
	const struct simple_kind *kind = simple_of(my)->kind;
	struct simple_state state;
	enum outcome outcome;

	if (simple_look(my, request, &state, err))
		return OUTCOME_ERROR;
	if (!state.mine)
		return OUTCOME_LOST;
	outcome = hold_mode_covers(HOLD_EXCLUSIVE, 0, request, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (!kind->count) {
		error_set(err, ERROR_USAGE, 0, "%s cannot count how often it was acquired; "
			  "?strategy=lease can", kind->name);
		return OUTCOME_ERROR;
	}
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = own_ttl(&state);
	if (grant->ttl_ms < request->ttl_ms)
		grant->ttl_ms = request->ttl_ms;
	outcome = count(my, request, 1, &state, err);
	grant->fence = state.fence;
	return outcome;
}

enum outcome simple_count_down(struct mysql_backend *my, const struct request *request,
			       struct error *err)
{
	struct simple_state state;

	if (simple_look(my, request, &state, err))
		return OUTCOME_ERROR;
	return state.mine ? count(my, request, -1, &state, err) : OUTCOME_LOST;
}
