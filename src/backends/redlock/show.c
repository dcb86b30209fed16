/* SPDX-License-Identifier: MIT */
/* Showing and listing locks: what a majority of the nodes has. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "redlock.h"

/* What all nodes show. */
struct shown {
	struct rows rows;		/* a row of one node beside that of another */
	int answers;
};

static void read_nodes(const struct redis_client *client, struct shown *shown)
{
	for (int i = 0; i < client->count; i++)
		if (client->servers[i].state == SERVER_ANSWERED)
			shown->answers += redis_read_rows(client->servers[i].reply, &shown->rows);
}

static bool is_same(const struct row *a, const struct row *b)
{
	return a->holds == b->holds && !strcmp(a->id, b->id);
}

static int count_row(const struct rows *rows, const struct row *row)
{
	int count = 0;

	for (size_t i = 0; i < rows->count; i++)
		count += is_same(&rows->rows[i], row);
	return count;
}

/* The holder that most nodes name; NULL: there is none on any. */
static const struct row *find_holder(const struct rows *rows, int *most)
{
	const struct row *found = NULL;

	*most = 0;
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->rows[i];
		const int count = row->holds ? count_row(rows, row) : 0;

		if (count <= *most)
			continue;
		*most = count;
		found = row;
	}
	return found;
}

static struct row *add_copy(struct rows *rows, const struct row *row)
{
	struct row *copy = rows_add(rows, row->text, strlen(row->text));
	char *const text = copy->text;

	*copy = *row;
	copy->text = text;
	return copy;
}

/* Add the hold that so many nodes have, with what one of them says and the greatest fence. */
static void add_hold(const struct redis_client *client, const struct rows *all,
		     const struct row *found, int count, struct rows *rows)
{
	struct row *hold = add_copy(rows, found);

	for (size_t i = 0; i < all->count; i++)
		if (is_same(&all->rows[i], found) && all->rows[i].fence > hold->fence)
			hold->fence = all->rows[i].fence;
	hold->mine &= count >= client->quorum;
}

static int compare_waiters(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->age_ms < y->age_ms) - (x->age_ms > y->age_ms);
}

/* A waiter is in the queue of all nodes that it can reach, and is shown once. */
static void add_waiters(const struct rows *all, struct rows *rows)
{
	const size_t first = rows->count;

	for (size_t i = 0; i < all->count; i++)
		if (!all->rows[i].holds && !count_row(rows, &all->rows[i]))
			add_copy(rows, &all->rows[i]);
	if (rows->count > first)
		qsort(rows->rows + first, rows->count - first, sizeof(rows->rows[0]),
		      compare_waiters);
}

/* Show why this waiter does not get a lock that nobody has. */
static void add_young(const struct redlock *lock, struct rows *rows)
{
	struct holder nobody = { .pid = 0 };
	char text[HOLDER_TEXT_SIZE];

	snprintf(nobody.note, sizeof(nobody.note), "%s", lock->young);
	rows_add(rows, text, holder_encode(&nobody, text))->holds = true;
}

static int show_rows(struct redlock *lock, const struct request *request, struct rows *rows,
		     struct error *err)
{
	struct redis_client *client = &lock->client;
	const struct redis_call call = {
		.what = "show", .token = request->token, .arguments = { NULL },
		.least = client->quorum,
	};
	struct shown shown = { .answers = 0 };
	const struct row *found;
	int most;

	redis_begin(client, request->name);
	if (redis_round(client, &call, err))
		return -1;
	read_nodes(client, &shown);
	redis_free_replies(client);
	rows->fence = shown.rows.fence;
	found = find_holder(&shown.rows, &most);
	/* Nodes that do not answer may be the rest of a majority. */
	if (found && most + client->count - shown.answers >= client->quorum)
		add_hold(client, &shown.rows, found, most, rows);
	else if (lock->young[0])
		add_young(lock, rows);
	add_waiters(&shown.rows, rows);
	rows_finish(&shown.rows);
	return shown.answers >= client->quorum ? 0 : redis_no_majority(client, shown.answers, err);
}

/* ---- names ---- */

void redlock_begin_one(struct redis_client *one, const struct redis_client *all, int which,
		       int64_t timeout_ms)
{
	struct redis_address *address;

	*one = (struct redis_client){ .base = all->base };
	redis_client_init(one, 1);
	address = &redis_client_add(one)->address;
	*address = all->servers[which].address;
	address->age = false;
	one->prefix = all->prefix;
	one->base.timeout_ms = one->base.connect_timeout_ms = timeout_ms;
}

/* The names belong to the client of all. */
void redlock_end_one(struct redis_client *one)
{
	one->servers[0].address = (struct redis_address){ .port = 0 };
	one->prefix = NULL;
	redis_client_finish(one);
}

/* Every majority has a node in common with the majority that has a lock. */
static int list_names(struct redis_client *client, struct rows *rows, struct error *err)
{
	const struct request all = { .name = NULL };
	struct error first = { 0 };
	struct redis_client one;
	int listed = 0;

	for (int i = 0; i < client->count; i++) {
		struct error reason = { 0 };

		/* With a majority, the others need not be waited for. */
		redlock_begin_one(&one, client, i, listed >= client->quorum
				  ? client->patience_ms : client->base.timeout_ms);
		listed += !redis_show(&one.base, &all, rows, &reason);
		if (first.kind == ERROR_NONE)
			first = reason;
		redlock_end_one(&one);
	}
	if (listed >= client->quorum)
		return 0;
	return error_set(err, first.kind == ERROR_NONE ? ERROR_UNAVAILABLE : first.kind, 0,
			 "no majority: %d of %d nodes can be listed, %d are needed; %.300s", listed,
			 client->count, client->quorum, first.message);
}

int redlock_show(struct backend *backend, const struct request *request, struct rows *rows,
		 struct error *err)
{
	return request->name ? show_rows(redlock_from_backend(backend), request, rows, err)
			     : list_names(redis_from_backend(backend), rows, err);
}
