/* SPDX-License-Identifier: MIT */
/*
 * The strategy lease. A lock is a row in dlock_locks, with its holder, an end by the server's
 * clock, and the fence. Clients that hold a lock together, shared or in slots, are rows in
 * dlock_holders; waiters are rows in dlock_queue. The tables are in sql/lease.sql, where the texts
 * named here are, too.
 *
 * Each request is one packet of statements, so that no row stays locked while the server waits for
 * a client, which may be stopped. Taking an exclusive lock is one UPDATE that compares and sets;
 * the holders of a shared lock change while its row is locked.
 *
 * Each waiter and each holder has a ticket: GET_LOCK on a name made of the digest of its token. The
 * ticket lives as long as the connection, so a waiter without a ticket is dead. Waiters sleep in
 * the server, in GET_LOCK on the ticket of the waiter before them (lease_nap). A release, or the
 * end of that connection, wakes the next waiter and nobody else; the waiter then takes its turn
 * with a short request (lease_turn).
 *
 * Whoever gets before others in line, by coming back to its former place, counts
 * that in the row of the lock. So a waiter that found nobody before itself need not look again when
 * it is woken: the statement that takes the lock compares the count.
 *
 * Where there is no ticket to sleep on (shared holds, a holder that left no process) the first in
 * line sleeps in slices, which look in between, and a client that releases interrupts the sleep
 * (KILL QUERY). Once the lock is free, the first in line has 0.9 s to come; a waiter behind it that
 * looks later passes over it. Every waiter looks every 6 s, and in the middle of its sleep, which
 * is one request with the look before it.
 */
#include "lease_parts.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"

/* The server's part of a wait ends by itself after this time (lease_nap). */
#define NAP_MS 6000
/* Pause before another try when others keep a row locked. */
#define CONTENDED_MS 100
/* A waiter whose turn it is has so long to come (lease_stale). */
#define GRANT_US 900000
/* The error that ends lease_sleep early. */
#define OUT_OF_RANGE 1690
/* More rounds than there can be, as each of them makes progress. */
#define ROUNDS 200

static struct lease_call call_for(const struct request *request)
{
	return (struct lease_call){
		.request = request, .ttl_ms = request->ttl_ms, .keep_ms = request->min_hold_ms
	};
}

/* A try, which takes the lock if it is free and nobody waits. */
static void compose_try(const struct lease *lease, struct lease_call *call)
{
	const bool exclusive = lease_mode(call->request) == 0;

	if (call->brief) {
		lease_add(call, sql_lease_brief_now, lease_missing_ticket(lease), ";\n",
			  sql_lease_brief, sql_lease_brief_state);
		return;
	}
	/* Nobody sleeps on the ticket of a client that holds together with others. */
	lease_add(call, sql_lease_now, exclusive ? lease_missing_ticket(lease) : "", ";\n",
		  sql_lease_first, exclusive ? sql_lease_take : sql_lease_join, sql_lease_state);
}

/* A place in line, a try, and a sleep if the try came to nothing. */
static void compose_wait(const struct lease *lease, struct lease_call *call)
{
	const bool exclusive = lease_mode(call->request) == 0;
	const int slices = lease->no_tickets ? NAP_MS * 1000 / LEASE_SHORT_SLICE_US
		: lease->dozes ? NAP_MS * 1000 / LEASE_SLICE_US : 0;

	call->into = true;
	lease_add(call, sql_lease_now, sql_lease_rest, lease_missing_ticket(lease), ";\n");
	if (!lease->in_line)
		lease_add(call, sql_lease_line_begin, lease_line_text(lease),
			  sql_lease_line_end);
	if (!lease->in_line || lease_missing_ticket(lease)[0])
		lease_add(call, sql_lease_overtake);
	lease_add(call, sql_lease_look, sql_lease_seen_now,
		  exclusive ? sql_lease_take : sql_lease_join, sql_lease_state, sql_lease_nap);
	if (!exclusive)
		lease_add(call, sql_lease_drop);
	lease_add(call, sql_lease_target, sql_lease_no_target, sql_lease_tell);
	for (int i = 0; i < slices; i++)
		lease_add(call, sql_lease_doze);
	lease_add(call, sql_lease_sleep);
}

/*
 * Ends an old connection of ours that still has our ticket, because the server has not noticed
 * that it broke.
 */
static int free_ticket(struct lease *lease, const struct request *request,
		       struct lease_call *next, struct error *err)
{
	struct lease_call call = call_for(request);
	struct lease_state state;

	lease_add(&call, sql_lease_now, sql_lease_old, ";\n", sql_lease_state);
	if (lease_ask(lease, &call, MYSQL_REPEAT, &state, err))
		return -1;
	mysql_end_connection(&lease->my, state.old);
	/* The connection ends in its own time: the next request waits for the ticket. */
	next->patience = 1;
	return 0;
}

static int pass_over(struct lease *lease, const struct request *request, int64_t first,
		     struct error *err)
{
	struct lease_call call = call_for(request);
	struct lease_state state;

	call.first = first;
	lease_add(&call, sql_lease_now, ";\n", sql_lease_pass, sql_lease_next, sql_lease_state);
	if (lease_ask(lease, &call, MYSQL_REPEAT, &state, err))
		return -1;
	lease_ring(lease, state.next);
	return 0;
}

/* Runs one or two texts that set right what a look has found. */
static int mend(struct lease *lease, const struct request *request, const char *text,
		const char *more, struct error *err)
{
	struct lease_call call = call_for(request);

	lease_add(&call, sql_lease_now, ";\n", text, more);
	return lease_rows(lease, &call, MYSQL_REPEAT, NULL, err);
}

/* Makes the row of a lock that has none. 0 or -1. */
static int make_row(struct lease *lease, const struct request *request, struct error *err)
{
	struct lease_call call = { .request = request };
	int64_t read_only;
	MYSQL_RES *rows;

	lease_add(&call, sql_lease_make);
	if (lease_rows(lease, &call, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, &read_only, 1);
	return read_only ? mysql_read_only(&lease->my, err) : 0;
}

/* Do those who use the lock now use another number of slots than request? */
static bool disagrees(const struct lease_state *state, const struct request *request,
		      struct error *err)
{
	return state->mode > 0 && state->rest_us > 0 &&
	       !hold_mode_slots_agree((int)state->mode, request, err);
}

/* Takes in the rest of the answer to a wait, which may end with the error of lease_sleep. */
static int end_wait(struct lease *lease, struct error *err)
{
	return mysql_drain(&lease->my, err) &&
	       !(lease->my.conn.mysql && lease->my.conn.code == OUT_OF_RANGE) ? -1 : 0;
}

/* What to do about an answer. */
enum verdict { VERDICT_HELD, VERDICT_BUSY, VERDICT_AGAIN, VERDICT_REPLACED, VERDICT_ERROR };

static enum verdict judge(struct lease *lease, const struct request *request, bool waits,
			  const struct lease_state *state, struct lease_call *next,
			  struct error *err)
{
	int failed;

	lease_note_ticket(lease, state, request);
	lease_note_place(lease, state);
	lease->behind = state->first != 0;
	if (state->read_only) {
		mysql_read_only(&lease->my, err);
		return VERDICT_ERROR;
	}
	if (state->mine) {
		/* It got in line on a connection that broke, and took the lock on another one. */
		if (!waits && lease->in_line && mend(lease, request, sql_lease_unline, "", err))
			return VERDICT_ERROR;
		return VERDICT_HELD;
	}
	if (request->self.replaces && !lease->arrived)
		lease->arrived = state->arrived;
	if (state->replaced)
		return (waits && end_wait(lease, err)) ||
		       mend(lease, request, sql_lease_unline, "", err) ? VERDICT_ERROR
								       : VERDICT_REPLACED;
	if (disagrees(state, request, err))
		return VERDICT_ERROR;
	if (!state->known)
		failed = end_wait(lease, err) || make_row(lease, request, err);
	else if (waits && state->asleep)
		/* Others passed over this waiter while it hung: it returns to its place. */
		failed = end_wait(lease, err) ||
			 mend(lease, request, sql_lease_look, sql_lease_mark, err);
	else if (state->first && state->open_us > GRANT_US)
		failed = end_wait(lease, err) || pass_over(lease, request, state->first, err);
	else if (waits && !lease->in_line)
		/* The row is gone: see lease_line_back. */
		failed = end_wait(lease, err);
	else if (waits && !lease->no_tickets && !state->has_ticket)
		failed = end_wait(lease, err) || free_ticket(lease, request, next, err);
	else
		return VERDICT_BUSY;
	return failed ? VERDICT_ERROR : VERDICT_AGAIN;
}

static enum outcome busy(const struct lease_state *state, const struct request *request,
			 int64_t retry_ms, struct grant *grant)
{
	grant->holder = state->owner;
	grant->age_ms = state->age_us < 0 ? -1 : state->age_us / 1000;
	grant->ahead = request->queue && state->place.id ? state->ahead : -1;
	grant->retry_ms = clock_boot_ms() + retry_ms;
	return OUTCOME_BUSY;
}

static enum outcome held(struct lease *lease, const struct lease_state *state,
			 struct grant *grant)
{
	lease->in_line = lease->dozes = lease->napping = lease->woken = false;
	lease->place.id = 0;
	lease->my.lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	grant->fence = (uint64_t)state->fence;
	return OUTCOME_HELD;
}

static enum outcome replaced(struct lease *lease, const struct lease_state *state,
			     struct grant *grant)
{
	lease->in_line = false;
	lease->place.id = 0;
	grant->replaced = true;
	grant->holder = state->newer;
	return OUTCOME_LOST;
}

typedef void (*composer)(const struct lease *, struct lease_call *);

/* Takes in what there is of the end of a sleep in the server. True when it is over. */
static bool slept(struct lease *lease)
{
	struct error ignored = { 0 };
	enum mysql_step step;
	MYSQL_RES *rows;
	MYSQL_ROW row;

	while ((step = mysql_next(&lease->my, &rows, &ignored)) == MYSQL_STEP_ROWS) {
		row = mysql_fetch_row(rows);
		lease->dozes = row && !row[0];
		lease->woken = row && row[0] && !strcmp(row[0], "1");
		mysql_free_result(rows);
	}
	lease->napping = step == MYSQL_STEP_PENDING;
	/* See lease_sleep. */
	if (step == MYSQL_STEP_FAILED)
		lease->woken = lease->my.conn.code == OUT_OF_RANGE;
	return !lease->napping;
}

static enum outcome attempt(struct lease *lease, const struct request *request,
			    composer compose, bool waits, struct grant *grant, struct error *err)
{
	const enum mysql_how how = waits ? MYSQL_FIRST_ROWS : MYSQL_REPEAT;
	const int64_t sleep_ms = NAP_MS + lease->my.base.timeout_ms;
	struct lease_state state = { .age_us = -1, .open_us = -1 };
	/* The brief request extends no hold that an earlier one may have got. */
	bool brief = !waits && !lease->unsure && lease_mode(request) == 0;
	int64_t patience = 0;
	int failed;

	for (int round = 0; round < ROUNDS; round++) {
		struct lease_call call = call_for(request);

		call.patience = patience;
		call.again = lease->unsure;
		call.brief = brief;
		failed = waits && !lease->in_line ? lease_line_up(lease, request, err) : 0;
		if (failed)
			return failed < 0 ? OUTCOME_ERROR
					  : busy(&state, request, CONTENDED_MS, grant);
		compose(lease, &call);
		grant->sent_ms = clock_boot_ms();
		grant->ttl_ms = request->ttl_ms;
		failed = lease_ask(lease, &call, how, &state, err);
		lease->unsure |= failed || lease->my.resent;
		if (failed)
			return failed < 0 ? OUTCOME_ERROR
					  : busy(&state, request, CONTENDED_MS, grant);
		switch (judge(lease, request, waits, &state, &call, err)) {
		case VERDICT_HELD:
			if (call.again || state.rest_us >= request->ttl_ms * 1000)
				return held(lease, &state, grant);
			/* An earlier request got it, with an earlier lease, which is extended. */
			lease->unsure = true;
			brief = false;
			break;
		case VERDICT_REPLACED:
			return replaced(lease, &state, grant);
		case VERDICT_ERROR:
			if (!mysql_code_is_contention(lease->my.conn.code))
				return OUTCOME_ERROR;
			lease->unsure = true;
			return busy(&state, request, CONTENDED_MS, grant);
		case VERDICT_BUSY:
			if (brief && !(state.mode == 0 && state.rest_us > 0)) {
				/* It takes more to say who comes first, or who holds together. */
				brief = false;
				break;
			}
			/* The sleep is over already when there was nothing to sleep for. */
			if (!waits || !slept(lease))
				return busy(&state, request, sleep_ms, grant);
			break;
		case VERDICT_AGAIN:
			patience = call.patience;
			break;
		}
	}
	return busy(&state, request, CONTENDED_MS, grant);
}

/*
 * A waiter that was woken mostly has its turn, and takes it with a shorter request than that of a
 * wait. The request builds on variables of the connection, so it needs the one it slept on.
 */
static bool take_turn(struct lease *lease, const struct request *request,
		      struct grant *grant)
{
	struct lease_call call = call_for(request);
	struct lease_state state = { .known = true };
	int64_t rows, fence;

	if (!lease->woken || !lease->in_line || lease_missing_ticket(lease)[0] ||
	    lease_mode(request) != 0)
		return false;
	lease->woken = false;
	lease_add(&call, lease->behind ? sql_lease_behind : "", sql_lease_turn);
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = request->ttl_ms;
	if (!lease_update(lease, &call, &rows, &fence)) {
		lease->unsure = true;
		return false;
	}
	if (rows != 1 || fence <= 0)
		return false;
	state.fence = fence;
	lease->unbroken = true;
	held(lease, &state, grant);
	/* The rest waits until the command has been told to start: see settle(). */
	lease->in_line = lease->unsettled = true;
	grant->event_ms = grant->sent_ms;
	return true;
}

/* After a hold has begun: cleans up after the wait. */
static void settle(struct lease *lease)
{
	struct lease_call call = { .request = NULL };

	if (lease_missing_ticket(lease)[0] || !lease->unsettled)
		return;
	lease_add(&call, sql_lease_settle);
	lease_post(lease, &call);
	lease->in_line = lease->unsettled = false;
}

static enum outcome lease_acquire(struct backend *backend, const struct request *request,
				  struct grant *grant, struct error *err)
{
	struct lease *lease = lease_of(backend);
	enum outcome outcome = OUTCOME_BUSY;

	if (take_turn(lease, request, grant))
		return OUTCOME_HELD;
	/* Most locks are free, so a client tries before it gets in line. */
	if (!lease->in_line)
		outcome = attempt(lease, request, compose_try, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		outcome = attempt(lease, request, compose_wait, true, grant, err);
		/* The try has shown that the server is there: this is an interrupted wait. */
		if (outcome == OUTCOME_ERROR && err->kind == ERROR_UNAVAILABLE &&
		    !lease->waits) {
			grant->retry_ms = clock_boot_ms();
			outcome = OUTCOME_BUSY;
		}
		lease->waits = true;
	}
	return outcome;
}

static int64_t lease_event(struct backend *backend)
{
	struct lease *lease = lease_of(backend);

	if (lease->napping)
		return slept(lease) ? 0 : CLOCK_NEVER;
	/* What is pending is the rest of the answer that told of the hold. */
	if (lease->my.conn.pending && !mysql_poll(&lease->my))
		return CLOCK_NEVER;
	if (!mysql_is_gone(&lease->my))
		settle(lease);
	return lease->my.conn.mysql ? CLOCK_NEVER : 0;
}

const struct backend_ops lease_ops = {
	MYSQL_COMMON_SLOTS,
	.acquire = lease_acquire,
	.event = lease_event,
	.renew = lease_renew,
	.verify = lease_verify,
	.release = lease_release,
	.inspect = lease_inspect,
	.list = lease_list,
	.break_hold = lease_break,
};
