/* SPDX-License-Identifier: MIT */
/*
 * The strategy lease: a row for each lock, in dlock_locks, with its holder, an end by the
 * server's clock, and the fence. Those who hold it together, shared or in slots, are rows
 * in dlock_holders; those who wait, in dlock_queue. The tables are in lease_tables.sql.
 *
 * Each request is one packet of statements, so that no row stays locked while the server
 * waits for a client, which may be stopped. Taking an exclusive lock is one UPDATE that
 * compares and sets; holders of a shared one change under the lock of its row.
 *
 * Who waits, and who holds, has a ticket: GET_LOCK on a name made of its token's digest.
 * It lives as long as the connection. Waiters sleep in the server, in GET_LOCK on the
 * ticket of the one before them (lease_nap.sql), so that a release, or the end of that
 * connection, wakes the next one and nobody else, which takes its turn with a request of
 * its own (lease_turn.sql); the dead are those without a ticket. That one is prepared before
 * the sleep, as the release is while the lock is held.
 * Where nobody holds a ticket to sleep on (shared holds, a holder that left no process)
 * the first in line sleeps in slices, which look in between, and who releases interrupts
 * it (KILL QUERY). Once it is free, the first in line has 0.9 s to come; a waiter behind
 * it that looks after that passes over it. A waiter looks every 6 s in any case, and in
 * the middle of its sleep, which is one request with the look before it.
 */
#include "api.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"

/* The server's part of a wait ends by itself after this (lease_nap.sql). */
#define NAP_MS 6000
/* Pause before another try when others keep a row locked. */
#define CONTENDED_MS 100
/* Who has its turn has so long to come; see lease_stale.sql. */
#define GRANT_US 900000
#define OUT_OF_RANGE 1690
/* Before that many a hold has ended: then its release need not be prepared. */
#define PREPARE_AFTER_MS 20
/* More turns of a loop that makes progress in each than there can be. */
#define ROUNDS 200

static int lease_open(struct mysql_backend *my, const struct uri *uri, struct error *err)
{
	(void)uri;
	my->state = calloc(1, sizeof(struct lease));
	if (!my->state) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	return 0;
}

static void lease_close(struct mysql_backend *my)
{
	free(my->state);
}

static struct lease_call call_for(const struct request *request)
{
	return (struct lease_call){
		.request = request, .ttl_ms = request->ttl_ms, .keep_ms = request->min_hold_ms
	};
}

/* Our ticket, if this connection has none. */
static const char *missing_ticket(const struct mysql_backend *my)
{
	const struct lease *lease = lease_of(my);

	return !my->conn.mysql || lease->ticket != my->conn.generation ? sql_lease_ticket : NULL;
}

/* A try: takes it if it is free and nobody waits. */
static void compose_try(const struct mysql_backend *my, struct lease_call *call)
{
	const bool exclusive = lease_mode(call->request) == 0;

	/* Nobody sleeps on the ticket of one who holds with others. */
	lease_add_now(call, exclusive ? missing_ticket(my) : NULL, NULL);
	lease_add(call, sql_lease_first);
	lease_add(call, exclusive ? sql_lease_take : sql_lease_join);
	lease_add(call, sql_lease_state);
}

/* A place in line, a try, and a sleep if it came to nothing. */
static void compose_wait(const struct mysql_backend *my, struct lease_call *call)
{
	const bool exclusive = lease_mode(call->request) == 0;
	const struct lease *lease = lease_of(my);
	const int slices = lease->no_tickets ? NAP_MS * 1000 / LEASE_SHORT_SLICE_US
		: lease->dozes ? NAP_MS * 1000 / LEASE_SLICE_US : 0;

	call->into = true;
	lease_add_now(call, sql_lease_rest, missing_ticket(my));
	if (!lease->in_line) {
		lease_add(call, sql_lease_line_begin);
		lease_add(call, sql_lease_line);
		lease_add(call, sql_lease_line_end);
	}
	lease_add(call, sql_lease_look);
	lease_add(call, sql_lease_seen_now);
	lease_add(call, exclusive ? sql_lease_take : sql_lease_join);
	lease_add(call, sql_lease_state);
	lease_add(call, sql_lease_nap);
	if (exclusive && !lease_is_prepared(my, LEASE_TURN))
		lease_add_prepare(call, LEASE_TURN);
	if (!exclusive)
		lease_add(call, sql_lease_drop);
	lease_add(call, sql_lease_target);
	lease_add(call, sql_lease_no_target);
	lease_add(call, sql_lease_tell);
	for (int i = 0; i < slices; i++)
		lease_add(call, sql_lease_doze);
	lease_add(call, sql_lease_sleep);
}

static void note_ticket(struct mysql_backend *my, const struct lease_state *state,
			const struct request *request)
{
	struct lease *lease = lease_of(my);

	if (state->has_ticket)
		lease->connection = (int64_t)mysql_thread_id(my->conn.mysql);
	lease->ticket = state->has_ticket ? my->conn.generation : 0;
	lease->unbroken = state->mine && state->has_ticket;
	/* See lease_drop.sql. */
	if (state->mine && lease_mode(request) != 0)
		lease->ticket = 0;
}

/* An old connection of ours has our ticket: the server has not missed it yet. */
static int free_ticket(struct mysql_backend *my, const struct request *request,
		       struct lease_call *next, struct error *err)
{
	struct lease_call call = call_for(request);
	struct lease_state state;

	lease_add_now(&call, sql_lease_old, NULL);
	lease_add(&call, sql_lease_state);
	if (lease_ask(my, &call, false, &state, err))
		return -1;
	lease_end_connection(my, state.old);
	/* It ends in its own time; wait for it as long as a request may take. */
	next->patience = 1;
	return 0;
}

static int pass_over(struct mysql_backend *my, const struct request *request, int64_t first,
		     struct error *err)
{
	struct lease_call call = call_for(request);
	struct lease_state state;

	call.first = first;
	lease_add_now(&call, NULL, NULL);
	lease_add(&call, sql_lease_pass);
	lease_add(&call, sql_lease_next);
	lease_add(&call, sql_lease_state);
	if (lease_ask(my, &call, false, &state, err))
		return -1;
	lease_ring(my, state.next);
	return 0;
}

/* Runs one or two texts that set right what a look has found. */
static int mend(struct mysql_backend *my, const struct request *request, const char *text,
		const char *more, struct error *err)
{
	struct lease_call call = call_for(request);

	lease_add_now(&call, NULL, NULL);
	lease_add(&call, text);
	if (more)
		lease_add(&call, more);
	return lease_rows(my, &call, NULL, err);
}

/* The lock has N slots for those who use it now. */
static bool disagrees(const struct lease_state *state, const struct request *request,
		      struct error *err)
{
	return state->mode > 0 && state->rest_us > 0 &&
	       !hold_mode_slots_agree(state->mode, request, err);
}

/* The rest of the answer to a wait, which may end with that of its sleep (lease_sleep.sql). */
static int end_wait(struct mysql_backend *my, struct error *err)
{
	return mysql_drain(my, err) && !(my->conn.mysql && my->conn.code == OUT_OF_RANGE) ? -1 : 0;
}

/* What to do about an answer. */
enum verdict { VERDICT_HELD, VERDICT_BUSY, VERDICT_AGAIN, VERDICT_ERROR };

static enum verdict judge(struct mysql_backend *my, const struct request *request, bool waits,
			  const struct lease_state *state, struct lease_call *next,
			  struct error *err)
{
	struct lease *lease = lease_of(my);

	note_ticket(my, state, request);
	lease->in_line = state->in_line;
	/* Those ahead whose connections broke may come back before it is woken. */
	lease->behind = state->first != 0 || state->ahead > 0;
	if (state->mine) {
		/* In line on a connection that broke, and taken on another one. */
		if (!waits && state->in_line && mend(my, request, sql_lease_unline, NULL, err))
			return VERDICT_ERROR;
		return VERDICT_HELD;
	}
	if (disagrees(state, request, err))
		return VERDICT_ERROR;
	if (!state->known) {
		if (end_wait(my, err) || mend(my, request, sql_lease_make, NULL, err))
			return VERDICT_ERROR;
		return VERDICT_AGAIN;
	}
	/* Passed over while it was hung: back in its place. */
	if (waits && state->asleep) {
		if (end_wait(my, err) || mend(my, request, sql_lease_look, sql_lease_mark, err))
			return VERDICT_ERROR;
		return VERDICT_AGAIN;
	}
	if (state->first && state->open_us > GRANT_US) {
		if (end_wait(my, err) || pass_over(my, request, state->first, err))
			return VERDICT_ERROR;
		return VERDICT_AGAIN;
	}
	if (waits && !state->in_line)	/* the server has lost its data */
		return end_wait(my, err) ? VERDICT_ERROR : VERDICT_AGAIN;
	if (waits && !lease->no_tickets && !state->has_ticket) {
		if (end_wait(my, err) || free_ticket(my, request, next, err))
			return VERDICT_ERROR;
		return VERDICT_AGAIN;
	}
	return VERDICT_BUSY;
}

static enum outcome busy(const struct lease_state *state, const struct request *request,
			 int64_t retry_ms, struct grant *grant)
{
	grant->holder = state->owner;
	grant->age_ms = state->age_us < 0 ? -1 : state->age_us / 1000;
	grant->ahead = request->queue && state->in_line ? state->ahead : -1;
	grant->retry_ms = clock_boot_ms() + retry_ms;
	return OUTCOME_BUSY;
}

static enum outcome held(struct mysql_backend *my, const struct request *request,
			 const struct lease_state *state, struct grant *grant)
{
	struct lease *lease = lease_of(my);

	lease->in_line = lease->dozes = lease->napping = lease->woken = false;
	lease->lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
	lease->request = request;
	grant->fence = state->fence;
	if (lease_mode(request) == 0)
		grant->event_ms = clock_boot_ms() + PREPARE_AFTER_MS;
	return OUTCOME_HELD;
}

typedef void (*composer)(const struct mysql_backend *, struct lease_call *);

/* Takes in what there is of the end of a sleep in the server. True when it is over. */
static bool slept(struct mysql_backend *my)
{
	struct lease *lease = lease_of(my);
	struct error ignored = { 0 };
	enum mysql_step step;
	MYSQL_RES *rows;
	MYSQL_ROW row;

	while ((step = mysql_conn_next(&my->conn, &my->address, NULL, &rows, &ignored)) ==
	       MYSQL_STEP_ROWS) {
		row = mysql_fetch_row(rows);
		lease->dozes = row && !row[0];
		lease->woken = row && row[0] && !strcmp(row[0], "1");
		mysql_free_result(rows);
	}
	lease->napping = step == MYSQL_STEP_PENDING;
	/* See lease_sleep.sql. */
	if (step == MYSQL_STEP_FAILED)
		lease->woken = my->conn.code == OUT_OF_RANGE;
	return !lease->napping;
}

static enum outcome attempt(struct mysql_backend *my, const struct request *request,
			    composer compose, bool waits, struct grant *grant, struct error *err)
{
	struct lease *lease = lease_of(my);
	struct lease_state state;
	int64_t patience = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct lease_call call = call_for(request);

		call.patience = patience;
		call.again = lease->unsure;
		compose(my, &call);
		grant->sent_ms = clock_boot_ms();
		grant->ttl_ms = request->ttl_ms;
		switch (lease_ask(my, &call, waits, &state, err)) {
		case -1:
			lease->unsure = true;
			return OUTCOME_ERROR;
		case 1:
			lease->unsure = true;
			state.age_us = -1;
			return busy(&state, request, CONTENDED_MS, grant);
		default:
			lease->unsure |= my->resent;
			break;
		}
		switch (judge(my, request, waits, &state, &call, err)) {
		case VERDICT_HELD:
			return held(my, request, &state, grant);
		case VERDICT_ERROR:
			return OUTCOME_ERROR;
		case VERDICT_BUSY:
			/* Its sleep may be over already: nothing to sleep for. */
			if (!waits || !slept(my))
				return busy(&state, request, NAP_MS + my->base.timeout_ms, grant);
			break;
		case VERDICT_AGAIN:
			patience = call.patience;
			break;
		}
	}
	return busy(&state, request, CONTENDED_MS, grant);
}

/*
 * Who was woken mostly has its turn, and takes it with a shorter request than that of a
 * wait. On another connection than before there would be nothing that it builds on.
 */
static bool take_turn(struct mysql_backend *my, const struct request *request,
		      struct grant *grant)
{
	struct lease *lease = lease_of(my);
	struct lease_call call = call_for(request);
	struct lease_state state = { .known = true };
	int64_t rows, fence;

	if (!lease->woken || !lease->in_line || missing_ticket(my) || lease_mode(request) != 0)
		return false;
	lease->woken = false;
	if (lease->behind)
		lease_add(&call, sql_lease_behind);
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = request->ttl_ms;
	if (!lease_update(my, &call, LEASE_TURN, &rows, &fence)) {
		lease->unsure = true;
		return false;
	}
	if (rows != 1 || fence <= 0)
		return false;
	state.fence = (uint64_t)fence;
	lease->unbroken = true;
	held(my, request, &state, grant);
	/* Not before the command has been told to start. */
	lease->in_line = lease->unsettled = true;
	grant->event_ms = grant->sent_ms;
	return true;
}

/* It has begun to hold: what is left of its waiting, and what its end will need. */
static void settle(struct mysql_backend *my)
{
	struct lease *lease = lease_of(my);
	const struct request *request = lease->request;
	struct lease_call call = { .request = request, .all = true };
	const bool prepares = request && lease_mode(request) == 0 && !request->min_hold_ms &&
		!lease_is_prepared(my, LEASE_LET_GO);

	if (missing_ticket(my) || (!lease->unsettled && !prepares))
		return;
	if (lease->unsettled)
		lease_add(&call, sql_lease_settle);
	if (prepares)
		lease_add_prepare(&call, LEASE_LET_GO);
	lease_post(my, &call);
	lease->in_line = lease->unsettled = false;
}

static enum outcome lease_acquire(struct mysql_backend *my, const struct request *request,
				  struct grant *grant, struct error *err)
{
	enum outcome outcome = OUTCOME_BUSY;

	if (take_turn(my, request, grant))
		return OUTCOME_HELD;
	/* In line already, or not: most locks are free, so try before getting in line. */
	if (!lease_of(my)->in_line)
		outcome = attempt(my, request, compose_try, false, grant, err);
	if (outcome == OUTCOME_BUSY && request->queue) {
		outcome = attempt(my, request, compose_wait, true, grant, err);
		/* The server is there, as the try has shown: go on like who waits already. */
		if (outcome == OUTCOME_ERROR && err->kind == ERROR_UNAVAILABLE &&
		    !lease_of(my)->waits) {
			grant->retry_ms = clock_boot_ms();
			outcome = OUTCOME_BUSY;
		}
		lease_of(my)->waits = true;
	}
	return outcome;
}

static int64_t lease_event(struct mysql_backend *my)
{
	if (lease_of(my)->napping)
		return slept(my) ? 0 : CLOCK_NEVER;
	/* The rest of the answer that told of the hold. */
	if (my->conn.pending && !mysql_poll(my))
		return CLOCK_NEVER;
	if (!mysql_is_gone(my))
		settle(my);
	return my->conn.mysql ? CLOCK_NEVER : 0;
}

extern const struct mysql_strategy mysql_lease;
const struct mysql_strategy mysql_lease = {
	.name = "lease",
	.params = (const char *const[]){ NULL },
	.tables = sql_lease_tables,
	.grants = sql_lease_grants,
	.open = lease_open,
	.close = lease_close,
	.acquire = lease_acquire,
	.event = lease_event,
	.renew = lease_renew,
	.verify = lease_verify,
	.release = lease_release,
	.again = lease_again,
	.inspect = lease_inspect,
	.list = lease_list,
	.break_hold = lease_break,
	.check = lease_check,
};
