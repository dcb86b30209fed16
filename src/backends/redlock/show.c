/* SPDX-License-Identifier: MIT */
/* Showing, listing and breaking locks: what a majority of the nodes has. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/lock.h"
#include "base/error.h"
#include "round.h"
#include "validity.h"

/* What all nodes show. */
struct shown {
	struct rows rows;		/* a row of one node beside that of another */
	int answers;
};

/* Add {fence, holds, waiters} of a node: see redis/lua/common.lua. False: it makes no sense. */
static bool read_node(const redisReply *reply, struct rows *rows)
{
	uint64_t fence;

	if (!redis_has_shape(reply, "saa"))
		return false;
	for (size_t part = 1; part <= 2; part++)
		for (size_t i = 0; i < reply->element[part]->elements; i++)
			if (!redis_add_row(reply->element[part]->element[i], part == 1, rows))
				return false;
	fence = strtoull(reply->element[0]->str, NULL, 10);
	if (fence > rows->fence)
		rows->fence = fence;
	return true;
}

static void read_nodes(const struct redlock *lock, struct shown *shown)
{
	for (int i = 0; i < lock->count; i++)
		if (lock->nodes[i].state == NODE_ANSWERED)
			shown->answers += read_node(lock->nodes[i].reply, &shown->rows);
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

/* Add the hold, as its nodes have it. It ends when they are no majority any more. */
static void add_hold(const struct redlock *lock, const struct rows *all, const struct row *found,
		     struct rows *rows)
{
	int64_t rest_ms[REDLOCK_MOST_NODES];
	struct row *hold = add_copy(rows, found);
	int count = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct row *row = &all->rows[i];

		if (!is_same(row, found) || count == lock->count)
			continue;
		if (row->fence > hold->fence)
			hold->fence = row->fence;
		if (row->age_ms > hold->age_ms)
			hold->age_ms = row->age_ms;
		rest_ms[count++] = row->left_ms;
	}
	hold->mine &= count >= lock->quorum;
	/* As many must end as leave too few for a majority. */
	hold->left_ms = redlock_free_in(rest_ms, (size_t)count,
					count >= lock->quorum ? count - lock->quorum + 1 : count);
	if (hold->left_ms == INT64_MAX)
		hold->left_ms = -1;
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
	const struct redlock_call call = {
		.what = "show", .token = request->token, .arguments = { NULL },
		.least = lock->quorum,
	};
	struct shown shown = { .answers = 0 };
	const struct row *found;
	int most;

	redlock_begin(lock, request->name);
	if (redlock_round(lock, &call, err))
		return -1;
	read_nodes(lock, &shown);
	rows->fence = shown.rows.fence;
	found = find_holder(&shown.rows, &most);
	/* Nodes that do not answer may be the rest of a majority. */
	if (found && most + lock->count - shown.answers >= lock->quorum)
		add_hold(lock, &shown.rows, found, rows);
	else if (lock->young[0])
		add_young(lock, rows);
	add_waiters(&shown.rows, rows);
	rows_finish(&shown.rows);
	return shown.answers >= lock->quorum ? 0 : redlock_no_majority(lock, shown.answers, err);
}

/* ---- names ---- */

/* Add the names on one node. timeout_ms: as in struct redlock_call. 0, or -1 without a reply. */
static int list_node(struct redlock *lock, int which, int64_t timeout_ms, const char *pattern,
		     struct name_list *names, struct error *err)
{
	const struct redlock_node *node = &lock->nodes[which];
	char cursor[32] = "0";
	const char *const command[] = {
		"SCAN", cursor, "MATCH", pattern, "COUNT", "1000", NULL
	};
	const struct redlock_call call = {
		.command = command, .nodes = 1u << which, .least = 1, .timeout_ms = timeout_ms,
	};
	const redisReply *keys;

	do {
		if (redlock_round(lock, &call, err))
			return -1;
		if (node->state != NODE_ANSWERED || !redis_has_shape(node->reply, "sa"))
			return -1;
		keys = node->reply->element[1];
		for (size_t i = 0; i < keys->elements; i++)
			if (redis_is_text(keys->element[i]))
				redis_list_key(lock->prefix, keys->element[i], names);
		snprintf(cursor, sizeof(cursor), "%.30s", node->reply->element[0]->str);
	} while (strcmp(cursor, "0") != 0);
	return 0;
}

/* Every majority has a node in common with the majority that has a lock. */
static int list_names(struct redlock *lock, struct name_list *names, struct error *err)
{
	char *pattern = redis_list_pattern(lock->prefix);
	struct error first = { 0 };
	int listed = 0;

	redlock_look_up(lock);
	for (int i = 0; i < lock->count; i++) {
		/* With a majority, the others need not be waited for. */
		if (!list_node(lock, i, listed >= lock->quorum ? lock->node_timeout_ms : 0, pattern,
			       names, err))
			listed++;
		else if (first.kind == ERROR_NONE)
			first = lock->nodes[i].error;
	}
	free(pattern);
	if (listed >= lock->quorum)
		return 0;
	return error_set(err, first.kind == ERROR_NONE ? ERROR_UNAVAILABLE : first.kind, 0,
			 "no majority: %d of %d nodes can be listed, %d are needed; %.300s", listed,
			 lock->count, lock->quorum, first.message);
}

int redlock_show(struct backend *backend, const struct request *request, struct rows *rows,
		 struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);

	return request->name ? show_rows(lock, request, rows, err)
			     : list_names(lock, &rows->names, err);
}

/* ---- breaking ---- */

/* A node that has another holder, or none, keeps it. */
enum outcome redlock_break(struct backend *backend, const char *name, const struct row *row,
			   struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);
	const struct redlock_call call = {
		.what = "break", .token = "", .arguments = { row->id, NULL }, .least = lock->quorum,
	};
	int answers = 0;
	bool held = false;

	redlock_begin(lock, name);
	if (redlock_round(lock, &call, err))
		return OUTCOME_ERROR;
	for (int i = 0; i < lock->count; i++) {
		const struct redlock_node *node = &lock->nodes[i];

		if (node->state != NODE_ANSWERED || !redis_is_integer(node->reply))
			continue;
		answers++;
		held |= node->reply->integer == 1;
	}
	if (answers >= lock->quorum)
		return held ? OUTCOME_HELD : OUTCOME_LOST;
	redlock_no_majority(lock, answers, err);
	return OUTCOME_ERROR;
}
