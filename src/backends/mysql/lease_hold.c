/* SPDX-License-Identifier: MIT */
/* The strategy lease: what a holder does with its token. */
#include "lease_parts.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"

/* At most so many dead waiters are removed at once; an id has up to 20 digits, and a comma. */
#define BURIED 100
#define ID_SIZE 21

/*
 * While others keep the row locked, the request is sent again, for as long as one may take: who
 * gives up a release keeps all others out until the lease ends. After that it is an error, too:
 * *err says why.
 */
static int ask(struct lease *lease, const struct lease_call *call, struct lease_state *state,
	       struct error *err)
{
	const int64_t until_ms = clock_boot_ms() + lease->my.base.timeout_ms;
	bool again = false;
	int failed;

	while ((failed = lease_ask(lease, call, MYSQL_REPEAT, state, err)) > 0 &&
	       clock_boot_ms() < until_ms)
		again = true;
	/* The first statements of a request that failed may have been done. */
	lease->my.resent |= again;
	return failed ? -1 : 0;
}

/* ask(), for a call that is to extend a lease: a server that is read-only fails it. */
static int change(struct lease *lease, const struct lease_call *call, struct lease_state *state,
		  struct error *err)
{
	if (ask(lease, call, state, err))
		return -1;
	return state->read_only ? mysql_read_only(&lease->my, err) : 0;
}

static enum outcome lost(const struct lease *lease, const struct request *request,
			 const struct lease_state *state, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, state->rest_us > 0
		  ? "%s: lock '%.200s' belongs to somebody else now"
		  : "%s: the lease of lock '%.200s' is over", lease->my.address.label,
		  request->name);
	return OUTCOME_LOST;
}

/* Does this connection have our ticket, and can it be used? */
static bool has_ticket(const struct lease *lease)
{
	return lease->ticket && lease->my.conn.mysql && !lease->napping &&
	       lease->ticket == lease->my.conn.generation;
}

/* Removes rows of waiters that died, which nobody else would. */
static void bury(struct lease *lease, const struct request *request)
{
	struct lease_call call = { .request = request };
	char ids[BURIED * ID_SIZE + 1] = "";
	struct error ignored = { 0 };
	MYSQL_RES *rows = NULL;
	MYSQL_ROW row;
	size_t used = 0;

	lease_add(&call, sql_lease_dead);
	if (lease_rows(lease, &call, MYSQL_REPEAT, &rows, &ignored))
		return;
	while (rows && (row = mysql_fetch_row(rows)) && used + ID_SIZE < sizeof(ids))
		used += (size_t)snprintf(ids + used, sizeof(ids) - used, "%s%.20s",
					 used ? "," : "", row[0] ? row[0] : "0");
	mysql_free_result(rows);

	const struct sql_value values[] = {
		SQL_PART("ids", ids),
		SQL_PART("alive", lease->no_tickets ? sql_lease_seen : sql_lease_alive),
		SQL_LAST
	};

	if (used)
		mysql_run(&lease->my, sql_lease_bury, values, MYSQL_ONCE, NULL, &ignored);
}

/* Notes the lease that a request sent at sent_ms has extended, as the state shows. */
static void note_lease(struct lease *lease, int64_t sent_ms, const struct lease_state *state,
		       struct grant *grant)
{
	grant->sent_ms = sent_ms;
	grant->ttl_ms = state->owner.ttl_ms;
	if (!grant->fence)
		grant->fence = (uint64_t)state->fence;
	lease->my.lease_end_ms = lease_end(sent_ms, grant->ttl_ms);
}

enum outcome lease_renew(struct backend *backend, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct lease *lease = lease_of(backend);
	struct lease_call call = { .request = request, .ttl_ms = request->ttl_ms, .looks = true };
	struct lease_call shared = call;
	const int64_t sent_ms = clock_boot_ms();
	/* Over a new connection the ticket is taken anew, for those who come to wait. */
	const bool untied = lease->ticket && !has_ticket(lease);
	struct lease_state state;
	bool dead;

	if (untied)
		lease->unbroken = false;
	/* The request that left the line when the hold began may not have arrived. */
	lease_add(&call, sql_lease_now, untied ? sql_lease_ticket : "", ";\n", sql_lease_renew,
		  untied ? sql_lease_unline : "", sql_lease_next, sql_lease_state);
	if (change(lease, &call, &state, err))
		return OUTCOME_ERROR;
	dead = state.dead;
	if (lease->ticket && state.has_ticket)
		lease->ticket = lease->my.conn.generation;
	if (state.mine && state.mode != 0) {
		lease_add(&shared, sql_lease_now, ";\n", sql_lease_renew_shared, sql_lease_state);
		if (change(lease, &shared, &state, err))
			return OUTCOME_ERROR;
	}
	if (!state.mine)
		return lost(lease, request, &state, err);
	note_lease(lease, sent_ms, &state, grant);
	if (dead)
		bury(lease, request);
	return OUTCOME_HELD;
}

static int look(struct lease *lease, const struct request *request,
		struct lease_state *state, struct error *err)
{
	struct lease_call call = { .request = request, .looks = true };

	lease_add(&call, sql_lease_now, ";\n", sql_lease_state);
	return ask(lease, &call, state, err);
}

enum outcome lease_verify(struct backend *backend, const struct request *request,
			  struct error *err)
{
	struct lease_state state;
	enum hold_mode mode;
	int slots;

	if (look(lease_of(backend), request, &state, err))
		return OUTCOME_ERROR;
	if (!state.mine)
		return OUTCOME_LOST;
	lease_read_mode(state.mode, &mode, &slots);
	return hold_mode_covers(mode, slots, request, err);
}

/* ---- giving back ---- */

/* What is left to do after a release: nothing of it can fail the release. */
static void clean_up(struct lease *lease, const struct request *request, bool dead)
{
	struct lease_call call = { .request = request };
	struct error ignored = { 0 };

	if (dead)
		bury(lease, request);
	if (!request->forget)
		return;
	lease_add(&call, sql_lease_forget);
	lease_rows(lease, &call, MYSQL_REPEAT, NULL, &ignored);
}

/* The texts of one release, of an exclusive hold or of one held together with others. */
static void compose_release(const struct lease *lease, bool exclusive, bool in_line,
			    struct lease_call *call)
{
	const bool tied = has_ticket(lease);

	lease_add(call, sql_lease_now, !tied && lease->connection ? sql_lease_old : "", ";\n");
	if (exclusive)
		lease_add(call, sql_lease_release,
			  tied && !lease->no_tickets ? sql_lease_untie : sql_lease_set_done);
	else
		lease_add(call, sql_lease_release_shared);
	lease_add(call, in_line ? sql_lease_unline : "", sql_lease_next, sql_lease_state);
}

/*
 * The quick way for an exclusive hold on whose ticket the next waiter sleeps. 1: the lock is given
 * back; 0: it is not, for whatever reason; -1: that is not known.
 */
static int let_go(struct lease *lease, struct lease_call call)
{
	/* See lease_let_go. */
	enum { DONE, TICKET, LINE, COUNT };
	int64_t answer[COUNT];

	lease_add(&call, lease->unsettled ? sql_lease_settle : "", sql_lease_let_go);
	if (!lease_numbers(lease, &call, answer, COUNT))
		return -1;
	lease->in_line = lease->unsettled = false;
	if (answer[DONE] != 1)
		return 0;
	/* The ticket was not on this connection, so the next waiter has not been told. */
	if (answer[TICKET] < 1)
		return -1;
	lease->ticket = 0;
	/* If nobody has the ticket now, those who are in line are dead. */
	clean_up(lease, call.request, answer[LINE] && answer[TICKET] == 1);
	return 1;
}

enum outcome lease_release(struct backend *backend, const struct request *request,
			   int64_t keep_ms, struct error *err)
{
	struct lease *lease = lease_of(backend);
	struct lease_call call = { .request = request, .keep_ms = keep_ms, .looks = true };
	struct lease_call other = call;
	/* What kind of hold a token has is known only to who acquired it. */
	const bool exclusive = lease_mode(request) == 0;
	/* Another process, or one that has lost a connection, cannot know. */
	const bool in_line = lease->in_line || lease->ticket == 0;
	const int64_t sent_ms = clock_boot_ms();
	bool told = lease->unbroken && has_ticket(lease), resent;
	struct lease_state state;
	int gone = 0;

	if (told && (!in_line || lease->unsettled) && exclusive)
		gone = let_go(lease, call);
	if (gone > 0)
		return OUTCOME_HELD;
	compose_release(lease, exclusive, in_line, &call);
	if (ask(lease, &call, &state, err))
		return OUTCOME_ERROR;
	resent = lease->my.resent || gone < 0;
	told = told && !resent;
	if (!state.done && state.mine && (state.mode == 0) != exclusive) {
		compose_release(lease, !exclusive, false, &other);
		if (ask(lease, &other, &state, err))
			return OUTCOME_ERROR;
		resent |= lease->my.resent;
	}
	lease->ticket = 0;
	lease->in_line = false;
	mysql_end_connection(&lease->my, state.old);
	/* The waiter that slept on our ticket is awake; others need to be told. */
	if (!told && state.open_us >= 0)
		lease_ring(lease, state.next);
	clean_up(lease, request, state.dead > 0);
	if (state.done || lease_ended_by_resent(resent, sent_ms, lease->my.lease_end_ms))
		return OUTCOME_HELD;
	return lost(lease, request, &state, err);
}
