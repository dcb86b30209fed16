/* SPDX-License-Identifier: MIT */
/* The strategy lease: showing locks, breaking them, and what check finds. */
#include "lease_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lock/view.h"

/* How many slices (LEASE_SLICE_US) one request waits for a lock to become free. */
#define WATCH_SLICES 10

/* The columns of lease_inspect. */
enum shown { SHOWN_KIND, SHOWN_RANK, SHOWN_MODE, SHOWN_AGE, SHOWN_REST, SHOWN_OWNER, SHOWN_TURN,
	     SHOWN };

static int64_t milliseconds(const char *microseconds)
{
	return microseconds ? strtoll(microseconds, NULL, 10) / 1000 : -1;
}

static void read_row(MYSQL_ROW row, unsigned long owner_length, struct lock_view *view)
{
	const int64_t mode = row[SHOWN_MODE] ? strtoll(row[SHOWN_MODE], NULL, 10) : 0;
	const uint64_t rank = row[SHOWN_RANK] ? strtoull(row[SHOWN_RANK], NULL, 10) : 0;
	struct waiter_view *waiter;
	struct hold_view *hold;

	switch (row[SHOWN_KIND] ? row[SHOWN_KIND][0] : 0) {
	case 'l':
		view->fence = rank;
		break;
	case 'h':
		hold = lock_view_add_hold(view);
		view->held = true;
		lease_read_mode(mode, &hold->mode, &hold->slots);
		hold->fence = rank;
		hold->age_ms = milliseconds(row[SHOWN_AGE]);
		hold->expires_ms = milliseconds(row[SHOWN_REST]);
		mysql_read_holder(&hold->holder, row[SHOWN_OWNER], owner_length);
		break;
	case 'w':
		waiter = lock_view_add_waiter(view);
		lease_read_mode(mode, &waiter->mode, &waiter->slots);
		waiter->waiting_ms = milliseconds(row[SHOWN_AGE]);
		mysql_read_holder(&waiter->holder, row[SHOWN_OWNER], owner_length);
		break;
	}
}

/* Shows what is in rows, and frees them. 0 or -1. */
static int read_view(struct lease *lease, MYSQL_RES *rows, struct lock_view *view,
		     struct error *err)
{
	MYSQL_ROW row;

	/* Without tables there are no locks. */
	if (!rows)
		return 0;
	if (mysql_num_fields(rows) != SHOWN) {
		mysql_free_result(rows);
		return mysql_odd(&lease->my, err);
	}
	while ((row = mysql_fetch_row(rows)))
		read_row(row, mysql_fetch_lengths(rows)[SHOWN_OWNER], view);
	mysql_free_result(rows);
	return 0;
}

int lease_inspect(struct backend *backend, const char *name, bool listen,
		  struct lock_view *view, struct error *err)
{
	struct lease *lease = lease_of(backend);
	const struct request request = { .name = name, .token = "" };
	struct lease_call call = { .request = &request, .looks = true };
	MYSQL_RES *rows = NULL;

	lease_add(&call, sql_lease_now, ";\n", sql_lease_inspect);
	if (listen) {
		lease_add(&call, sql_lease_watch_begin);
		for (int i = 0; i < WATCH_SLICES; i++)
			lease_add(&call, sql_lease_watch);
	}
	if (lease_rows(lease, &call, MYSQL_FIRST_ROWS, &rows, err) ||
	    read_view(lease, rows, view, err))
		return -1;
	if (!listen)
		return mysql_drain(&lease->my, err);
	lease->napping = lease->my.conn.pending && !mysql_poll(&lease->my);
	return 0;
}

int lease_break(struct backend *backend, const char *name, struct lock_view *view,
		struct error *err)
{
	struct lease *lease = lease_of(backend);
	const struct request request = { .name = name, .token = "" };
	struct lease_call call = { .request = &request, .looks = true }, next = call;
	struct lease_state state;
	MYSQL_RES *rows = NULL;

	lease_add(&call, sql_lease_break);
	if (lease_rows(lease, &call, MYSQL_REPEAT, &rows, err) || read_view(lease, rows, view, err))
		return -1;
	lease_add(&next, sql_lease_now, ";\n", sql_lease_next, sql_lease_state);
	if (!lease_ask(lease, &next, MYSQL_REPEAT, &state, err))
		lease_ring(lease, state.next);
	return 0;
}

/* Adds all names that sql gives: it gives them in pages, each of which begins after a name. */
static int list_pages(struct lease *lease, const char *sql, struct name_list *names,
		      struct error *err)
{
	char after[256];
	size_t length = 0;
	MYSQL_RES *rows;
	MYSQL_ROW row;
	uint64_t count;

	do {
		struct lease_call call = { .looks = true, .after = after, .after_length = length };

		lease_add(&call, sql);
		if (lease_rows(lease, &call, MYSQL_REPEAT, &rows, err))
			return -1;
		count = rows ? mysql_num_rows(rows) : 0;
		if (count) {
			mysql_data_seek(rows, count - 1);
			row = mysql_fetch_row(rows);
			length = mysql_fetch_lengths(rows)[0];
			length = length < sizeof(after) ? length : sizeof(after);
			memcpy(after, row[0], length);
			mysql_data_seek(rows, 0);
		}
		mysql_add_names(rows, names);
	} while (count);
	return 0;
}

int lease_list(struct backend *backend, struct name_list *names, struct error *err)
{
	struct lease *lease = lease_of(backend);

	if (list_pages(lease, sql_lease_list, names, err) ||
	    list_pages(lease, sql_lease_list_queue, names, err))
		return -1;
	name_list_sort(names);
	return 0;
}

int lease_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct lease *lease = lease_of(backend);
	const struct request request = { .name = "dlock-check", .token = "" };
	struct lease_call call = { .request = &request, .looks = true };
	struct lease_state state;

	lease_add(&call, sql_lease_now, ";\n", sql_lease_inspect, sql_lease_tell);
	if (lease_ask(lease, &call, MYSQL_REPEAT, &state, err))
		return -1;
	if (lease->no_tickets)
		findings_add(findings, FINDING_NOTE, "waiting", "let all use one plain server",
			     "GET_LOCK does not serve here (a cluster, a proxy): a hand-over may "
			     "take a third of a second");
	else
		findings_add(findings, FINDING_OK, "waiting", NULL,
			     "waiters sleep until it is their turn");
	return 0;
}
