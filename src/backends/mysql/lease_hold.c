/* SPDX-License-Identifier: MIT */
/* The strategy lease: what a holder does with its token. */
#include "api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lease.h"

/* How many others may count the same hold meanwhile. */
#define COUNT_ATTEMPTS 20

/* Others keep our row locked: a holder can only try again. */
static int ask(struct mysql_backend *my, const struct lease_call *call, struct lease_state *state,
	       struct error *err)
{
	/* What is left of err says why. */
	return lease_ask(my, call, false, state, err) ? -1 : 0;
}

static enum outcome lost(const struct mysql_backend *my, const struct request *request,
			 const struct lease_state *state, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, state->rest_us > 0
		  ? "%s: lock '%.200s' belongs to somebody else now"
		  : "%s: the lease of lock '%.200s' is over", my->address.label, request->name);
	return OUTCOME_LOST;
}

/* Does this connection have our ticket, and can it be used? */
static bool has_ticket(const struct mysql_backend *my)
{
	const struct lease *lease = lease_of(my);

	return lease->ticket && my->conn.mysql && !lease->napping &&
	       lease->ticket == my->conn.generation;
}

/* Rows of waiters that died, which nobody else would remove. */
static void bury(struct mysql_backend *my, const struct request *request)
{
	struct lease_call call = { .request = request };
	char ids[100 * 21 + 1] = "";
	struct error ignored = { 0 };
	struct sql_value values[] = { SQL_PART("ids", ""), SQL_LAST };
	MYSQL_RES *rows = NULL;
	MYSQL_ROW row;
	size_t used = 0;

	lease_add(&call, sql_lease_dead);
	if (lease_rows(my, &call, &rows, &ignored))
		return;
	while (rows && (row = mysql_fetch_row(rows)) && used + 24 < sizeof(ids))
		used += (size_t)snprintf(ids + used, sizeof(ids) - used, "%s%.20s",
					 used ? "," : "", row[0] ? row[0] : "0");
	mysql_free_result(rows);
	values[0].bytes = ids;
	values[0].length = used;
	if (used)
		mysql_run(my, sql_lease_bury, values, MYSQL_ONCE, NULL, &ignored);
}

/* What the state says after the lease was extended: a request sent at sent_ms. */
static void note_lease(struct lease *lease, int64_t sent_ms, const struct lease_state *state,
		       struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = state->owner.ttl_ms;
	lease->lease_end_ms = lease_end(sent_ms, grant->ttl_ms);
}

enum outcome lease_renew(struct mysql_backend *my, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct lease *lease = lease_of(my);
	struct lease_call call = { .request = request, .ttl_ms = request->ttl_ms, .looks = true };
	struct lease_call shared = call;
	const int64_t sent_ms = clock_boot_ms();
	struct lease_state state;
	bool dead;

	/* Over a new connection the ticket is taken anew, for those who come to wait. */
	const bool untied = lease->ticket && !has_ticket(my);

	lease_add_now(&call, untied ? sql_lease_ticket : NULL, NULL);
	if (untied)
		lease->unbroken = false;
	lease_add(&call, sql_lease_renew);
	/* What it sent as it began to hold may not have arrived. */
	if (untied)
		lease_add(&call, sql_lease_unline);
	lease_add(&call, sql_lease_next);
	lease_add(&call, sql_lease_state);
	if (ask(my, &call, &state, err))
		return OUTCOME_ERROR;
	dead = state.dead;
	if (lease->ticket && state.has_ticket)
		lease->ticket = my->conn.generation;
	if (state.mine && state.mode != 0) {
		lease_add_now(&shared, NULL, NULL);
		lease_add(&shared, sql_lease_renew_shared);
		lease_add(&shared, sql_lease_state);
		if (ask(my, &shared, &state, err))
			return OUTCOME_ERROR;
	}
	if (!state.mine)
		return lost(my, request, &state, err);
	note_lease(lease, sent_ms, &state, grant);
	if (dead)
		bury(my, request);
	return OUTCOME_HELD;
}

/* How our hold, if there is one, answers a wish. */
static enum outcome answer(const struct lease_state *state, const struct request *request,
			   struct error *err)
{
	enum hold_mode mode;
	int slots;

	if (!state->mine)
		return OUTCOME_LOST;
	lease_read_mode(state->mode, &mode, &slots);
	return hold_mode_covers(mode, slots, request, err);
}

static int look(struct mysql_backend *my, const struct request *request,
		struct lease_state *state, struct error *err)
{
	struct lease_call call = { .request = request, .looks = true };

	lease_add_now(&call, NULL, NULL);
	lease_add(&call, sql_lease_state);
	return ask(my, &call, state, err);
}

enum outcome lease_verify(struct mysql_backend *my, const struct request *request,
			  struct error *err)
{
	struct lease_state state;

	return look(my, request, &state, err) ? OUTCOME_ERROR : answer(&state, request, err);
}

/*
 * Counts the hold that *state shows up or down, by comparing and setting: with an answer
 * lost, the count tells. HELD, with the new *state; LOST; ERROR.
 */
static enum outcome count(struct mysql_backend *my, const struct request *request, int step,
			  struct lease_state *state, struct error *err)
{
	for (int i = 0; i < COUNT_ATTEMPTS; i++) {
		struct lease_call call = { .request = request, .looks = true, .holds = state->holds,
					   .step = step, .ttl_ms = request->ttl_ms };

		lease_add_now(&call, NULL, NULL);
		lease_add(&call, state->mode == 0 ? sql_lease_count : sql_lease_count_shared);
		lease_add(&call, sql_lease_state);
		if (ask(my, &call, state, err))
			return OUTCOME_ERROR;
		if (!state->mine)
			return OUTCOME_LOST;
		if (state->done || (my->resent && state->holds == call.holds + step))
			return OUTCOME_HELD;
		if (step < 0 && state->holds <= 1)
			break;
	}
	return OUTCOME_BUSY;
}

enum outcome lease_again(struct mysql_backend *my, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct lease_state state;
	enum outcome outcome;
	int64_t sent_ms;

	if (look(my, request, &state, err))
		return OUTCOME_ERROR;
	outcome = answer(&state, request, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	grant->fence = state.fence;
	sent_ms = clock_boot_ms();
	outcome = count(my, request, 1, &state, err);
	if (outcome == OUTCOME_HELD)
		note_lease(lease_of(my), sent_ms, &state, grant);
	if (outcome != OUTCOME_BUSY)
		return outcome;
	error_set(err, ERROR_UNAVAILABLE, 0, "%s: lock '%.200s' is counted by too many at once",
		  my->address.label, request->name);
	return OUTCOME_ERROR;
}

/* ---- giving back ---- */

static void forget(struct mysql_backend *my, const struct request *request)
{
	struct lease_call call = { .request = request };
	struct error ignored = { 0 };

	lease_add(&call, sql_lease_forget);
	lease_rows(my, &call, NULL, &ignored);
}

/* The texts of one release, of an exclusive hold or of another. */
static void compose_release(const struct mysql_backend *my, bool exclusive, bool in_line,
			    struct lease_call *call)
{
	const bool tied = has_ticket(my);

	lease_add_now(call, !tied && lease_of(my)->connection ? sql_lease_old : NULL, NULL);
	lease_add(call, exclusive ? sql_lease_release : sql_lease_release_shared);
	if (exclusive)
		lease_add(call, tied && !lease_of(my)->no_tickets ? sql_lease_untie
								  : sql_lease_set_done);
	if (in_line)
		lease_add(call, sql_lease_unline);
	lease_add(call, sql_lease_next);
	lease_add(call, sql_lease_state);
}

static void after_release(struct mysql_backend *my, const struct request *request,
			  const struct lease_state *state, bool told)
{
	lease_end_connection(my, state->old);
	/* Who slept on our ticket is awake; others need to hear of it. */
	if (!told && state->open_us >= 0)
		lease_ring(my, state->next);
	if (state->dead)
		bury(my, request);
	if (request->forget)
		forget(my, request);
}

/*
 * The quick way for an exclusive hold on whose ticket whoever is next sleeps. 1: it is given
 * back; 0: it is not, for whatever reason; -1: that is not known.
 */
static int let_go(struct mysql_backend *my, struct lease_call call)
{
	struct lease *lease = lease_of(my);
	int64_t rows, next;	/* see lease_let_go.sql */

	if (lease->unsettled)
		lease_add(&call, sql_lease_settle);
	/* What is prepared frees all of it, and at once. */
	if (call.keep_ms || !call.all)
		lease->prepared[LEASE_LET_GO] = 0;
	if (!lease_update(my, &call, LEASE_LET_GO, &rows, &next))
		return -1;
	lease->in_line = lease->unsettled = false;
	if (rows != 1)
		return 0;
	/* It was not on this connection: who is next does not know. */
	if (next < 1)
		return -1;
	lease->ticket = 0;
	lease->request = NULL;
	/* Nobody who lives comes after us. */
	if (next <= 1)
		bury(my, call.request);
	if (call.request->forget)
		forget(my, call.request);
	return 1;
}

/* One acquisition less, but not the last one: see RELEASE_COUNTED. */
static enum outcome release_counted(struct mysql_backend *my, const struct request *request,
				    struct error *err)
{
	struct lease_state state;
	enum outcome outcome;

	if (look(my, request, &state, err))
		return OUTCOME_ERROR;
	if (!state.mine)
		return lost(my, request, &state, err);
	if (state.holds <= 1)
		return OUTCOME_HELD;
	outcome = count(my, request, -1, &state, err);
	if (outcome == OUTCOME_HELD)
		return OUTCOME_BUSY;
	return outcome == OUTCOME_BUSY ? OUTCOME_HELD : outcome;
}

enum outcome lease_release(struct mysql_backend *my, const struct request *request,
			   enum release how, int64_t keep_ms, struct error *err)
{
	struct lease *lease = lease_of(my);
	struct lease_call call = { .request = request, .keep_ms = keep_ms, .looks = true,
				   .all = how == RELEASE_ALL };
	struct lease_call shared = call;
	/* Another process, or one that has lost a connection, does not know. */
	const bool in_line = lease->in_line || lease->ticket == 0;
	const int64_t sent_ms = clock_boot_ms();
	bool told = lease->unbroken && has_ticket(my), resent, done;
	struct lease_state state;
	enum outcome outcome;
	int gone = 0;

	if (how == RELEASE_COUNTED)
		return release_counted(my, request, err);
	if (told && (!in_line || lease->unsettled) && lease_mode(request) == 0)
		gone = let_go(my, call);
	if (gone > 0)
		return OUTCOME_HELD;
	compose_release(my, true, in_line, &call);
	if (ask(my, &call, &state, err))
		return OUTCOME_ERROR;
	resent = my->resent || gone < 0;
	told = told && !resent;
	done = state.done;
	if (!done && state.mine && state.mode != 0) {
		compose_release(my, false, false, &shared);
		if (ask(my, &shared, &state, err))
			return OUTCOME_ERROR;
		resent |= my->resent;
		done = state.done;
	}
	if (done || call.all) {
		lease->ticket = 0;
		lease->request = NULL;
	}
	lease->in_line = false;
	if (!done && state.mine && how == RELEASE_ONE && state.holds > 1) {
		outcome = count(my, request, -1, &state, err);
		if (outcome == OUTCOME_HELD)
			return OUTCOME_BUSY;
		if (outcome == OUTCOME_BUSY)	/* the last one: others were faster */
			return lease_release(my, request, how, keep_ms, err);
		if (outcome == OUTCOME_ERROR)
			return outcome;
	}
	after_release(my, request, &state, told);
	/* Sent twice within the lease: it was the first one that released. */
	if (done || (resent && sent_ms < lease->lease_end_ms))
		return OUTCOME_HELD;
	return lost(my, request, &state, err);
}
