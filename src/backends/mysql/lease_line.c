/* SPDX-License-Identifier: MIT */
/*
 * The strategy lease: our ticket, and getting in line. With --replace-waiters each waiter has the
 * time of its arrival, and the row of the lock has the time of the newest of them: an earlier one
 * can no longer take the lock, finds that out, and leaves.
 */
#include "lease_parts.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- the ticket ---- */

const char *lease_missing_ticket(const struct lease *lease)
{
	const struct mysql_conn *conn = &lease->my.conn;

	return !conn->mysql || lease->ticket != conn->generation ? sql_lease_ticket : "";
}

void lease_note_ticket(struct lease *lease, const struct lease_state *state,
		       const struct request *request)
{
	if (state->has_ticket)
		lease->connection = (int64_t)mysql_thread_id(lease->my.conn.mysql);
	lease->ticket = state->has_ticket ? lease->my.conn.generation : 0;
	lease->unbroken = state->mine && state->has_ticket;
	/* See lease_drop. */
	if (state->mine && lease_mode(request) != 0)
		lease->ticket = 0;
}

/* ---- the line ---- */

/* Wakes the waiters that this one has sent away. */
static int wake_replaced(struct lease *lease, const struct request *request, struct error *err)
{
	struct lease_call call = { .request = request };
	MYSQL_RES *rows;
	MYSQL_ROW row;

	lease_add(&call, sql_lease_replaced);
	if (lease_rows(lease, &call, MYSQL_REPEAT, &rows, err))
		return -1;
	while (rows && (row = mysql_fetch_row(rows)))
		lease_ring(lease, row[0] ? strtoll(row[0], NULL, 10) : 0);
	mysql_free_result(rows);
	return 0;
}

const char *lease_line_text(const struct lease *lease)
{
	return lease->place.id ? sql_lease_line_back : sql_lease_line;
}

void lease_note_place(struct lease *lease, const struct lease_state *state)
{
	lease->in_line = state->place.id != 0;
	if (lease->in_line)
		lease->place = state->place;
}

static int get_in_line(struct lease *lease, const struct request *request, struct error *err)
{
	struct lease_call call = { .request = request, .ttl_ms = request->ttl_ms };
	struct lease_state state;
	int failed;

	lease_add(&call, sql_lease_now, lease_missing_ticket(lease), ";\n", sql_lease_line_begin,
		  lease_line_text(lease), sql_lease_line_end, sql_lease_overtake,
		  sql_lease_look, sql_lease_replace, sql_lease_state);
	failed = lease_ask(lease, &call, MYSQL_REPEAT, &state, err);
	if (!failed) {
		lease_note_ticket(lease, &state, request);
		lease_note_place(lease, &state);
	}
	return failed;
}

int lease_line_up(struct lease *lease, const struct request *request, struct error *err)
{
	int failed;

	if (!request->self.replaces)
		return 0;
	/* The try that tells the time of arrival got nowhere: it comes first again. */
	if (!lease->arrived)
		return 1;
	failed = get_in_line(lease, request, err) || wake_replaced(lease, request, err);
	lease->in_line = !failed;
	return failed;
}
