/* SPDX-License-Identifier: MIT */
/* The strategy lease: showing locks, breaking them, and what check finds. */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lock/view.h"
#include "lease.h"

/* How many parts of half a second a request waits for a lock to become free. */
#define WATCH_SLICES 10

/* The columns of sql/lease_inspect.sql. */
enum shown { SHOWN_KIND, SHOWN_RANK, SHOWN_MODE, SHOWN_AGE, SHOWN_REST, SHOWN_HOLDS, SHOWN_OWNER,
	     SHOWN };

static int64_t milliseconds(const char *microseconds)
{
	return microseconds ? strtoll(microseconds, NULL, 10) / 1000 : -1;
}

/* False when out of memory. */
static bool read_row(MYSQL_ROW row, unsigned long owner_length, struct lock_view *view)
{
	const int64_t mode = row[SHOWN_MODE] ? strtoll(row[SHOWN_MODE], NULL, 10) : 0;
	const uint64_t rank = row[SHOWN_RANK] ? strtoull(row[SHOWN_RANK], NULL, 10) : 0;
	const char *owner = row[SHOWN_OWNER] ? row[SHOWN_OWNER] : "";
	struct waiter_view *waiter;
	struct hold_view *hold;

	switch (row[SHOWN_KIND] ? row[SHOWN_KIND][0] : 0) {
	case 'l':
		view->fence = rank;
		return true;
	case 'h':
		hold = lock_view_add_hold(view);
		if (!hold)
			return false;
		view->held = true;
		lease_read_mode(mode, &hold->mode, &hold->slots);
		hold->fence = rank;
		hold->age_ms = milliseconds(row[SHOWN_AGE]);
		hold->expires_ms = milliseconds(row[SHOWN_REST]);
		hold->count = row[SHOWN_HOLDS] ? (int)strtol(row[SHOWN_HOLDS], NULL, 10) : 1;
		holder_decode(&hold->holder, owner, owner_length);
		return true;
	case 'w':
		waiter = lock_view_add_waiter(view);
		if (!waiter)
			return false;
		lease_read_mode(mode, &waiter->mode, &waiter->slots);
		waiter->waiting_ms = milliseconds(row[SHOWN_AGE]);
		holder_decode(&waiter->holder, owner, owner_length);
		return true;
	default:
		return true;
	}
}

/* Reads rows, and frees them. 0 or -1. */
static int read_view(struct mysql_backend *my, MYSQL_RES *rows, struct lock_view *view,
		     struct error *err)
{
	int failed = 0;
	MYSQL_ROW row;

	if (!rows)	/* no tables, no locks */
		return 0;
	if (mysql_num_fields(rows) != SHOWN) {
		mysql_free_result(rows);
		mysql_odd(my, err);
		return -1;
	}
	while (!failed && (row = mysql_fetch_row(rows)))
		failed = read_row(row, mysql_fetch_lengths(rows)[SHOWN_OWNER], view) ? 0 : -1;
	mysql_free_result(rows);
	if (failed)
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
	return failed;
}

int lease_inspect(struct mysql_backend *my, const char *name, bool listen,
		  struct lock_view *view, struct error *err)
{
	const struct request request = { .name = name, .token = "" };
	struct lease_call call = { .request = &request, .looks = true };
	MYSQL_RES *rows = NULL;

	lease_add_now(&call, NULL, NULL);
	lease_add(&call, sql_lease_inspect);
	if (listen) {
		lease_add(&call, sql_lease_watch_begin);
		for (int i = 0; i < WATCH_SLICES; i++)
			lease_add(&call, sql_lease_watch);
	}
	if (lease_begin_rows(my, &call, &rows, err))
		return -1;
	if (read_view(my, rows, view, err))
		return -1;
	if (!listen)
		return mysql_drain(my, err);
	lease_of(my)->napping = my->conn.pending && !mysql_poll(my);
	return 0;
}

int lease_break(struct mysql_backend *my, const char *name, struct lock_view *view,
		struct error *err)
{
	const struct request request = { .name = name, .token = "" };
	struct lease_call call = { .request = &request, .looks = true }, next = call;
	struct lease_state state;
	MYSQL_RES *rows = NULL;

	lease_add(&call, sql_lease_break);
	if (lease_rows(my, &call, &rows, err) || read_view(my, rows, view, err))
		return -1;
	lease_add_now(&next, NULL, NULL);
	lease_add(&next, sql_lease_next);
	lease_add(&next, sql_lease_state);
	if (!lease_ask(my, &next, false, &state, err))
		lease_ring(my, state.next);
	return 0;
}

/* All names that sql gives, page by page, each from the last one of the one before on. */
static int list_pages(struct mysql_backend *my, const char *sql, struct name_list *names,
		      struct error *err)
{
	char after[256] = "";
	size_t length = 0, count;
	MYSQL_RES *rows;
	MYSQL_ROW row;

	do {
		struct lease_call call = { .looks = true, .after = after, .after_length = length };
		int failed = 0;

		lease_add(&call, sql);
		if (lease_rows(my, &call, &rows, err))
			return -1;
		count = 0;
		while (!failed && rows && (row = mysql_fetch_row(rows))) {
			length = mysql_fetch_lengths(rows)[0];
			length = length < sizeof(after) ? length : sizeof(after);
			memcpy(after, row[0], length);
			failed = name_list_add(names, row[0], length);
			count++;
		}
		mysql_free_result(rows);
		if (failed) {
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			return -1;
		}
	} while (count);
	return 0;
}

int lease_list(struct mysql_backend *my, struct name_list *names, struct error *err)
{
	if (list_pages(my, sql_lease_list, names, err) ||
	    list_pages(my, sql_lease_list_queue, names, err))
		return -1;
	name_list_sort(names);
	return 0;
}

int lease_check(struct mysql_backend *my, struct findings *findings, struct error *err)
{
	const struct request request = { .name = "dlock-check", .token = "" };
	struct lease_call call = { .request = &request, .looks = true };
	struct lease_state state;

	lease_add_now(&call, NULL, NULL);
	lease_add(&call, sql_lease_inspect);
	lease_add(&call, sql_lease_tell);
	if (lease_ask(my, &call, false, &state, err))
		return -1;
	if (lease_of(my)->no_tickets)
		findings_add(findings, FINDING_WARNING, "waiting", "let all use one plain server",
			     "GET_LOCK does not serve here (a cluster, a proxy): a hand-over may "
			     "take a third of a second");
	else
		findings_add(findings, FINDING_OK, "waiting", NULL,
			     "waiters sleep until it is their turn");
	return 0;
}
