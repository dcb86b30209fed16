/* SPDX-License-Identifier: MIT */
/* Showing, listing and breaking locks: what a majority of the nodes has. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/lock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/view.h"
#include "round.h"
#include "validity.h"

struct digest {
	char text[41];
};

/* {fence, digest, text, fence of the hold, age, expires, waiters}: see inspect.lua. */
static const redisReply *view_of(const struct redlock_node *node)
{
	return node->state == NODE_ANSWERED && redis_has_shape(node->reply, "ssssiia")
		? node->reply : NULL;
}

/* How many nodes name this holder. */
static int count_holder(const struct redlock *lock, const char *digest)
{
	int count = 0;

	for (int i = 0; i < lock->count; i++) {
		const redisReply *view = view_of(&lock->nodes[i]);

		count += view && !strcmp(view->element[1]->str, digest);
	}
	return count;
}

/* The holder that most nodes name; NULL: there is none on any. */
static const char *find_holder(const struct redlock *lock, int *most)
{
	const char *digest = NULL;
	int count;

	*most = 0;
	for (int i = 0; i < lock->count; i++) {
		const redisReply *view = view_of(&lock->nodes[i]);

		if (!view || !view->element[1]->str[0])
			continue;
		count = count_holder(lock, view->element[1]->str);
		if (count <= *most)
			continue;
		*most = count;
		digest = view->element[1]->str;
	}
	return digest;
}

/* The hold, as its nodes have it. It ends when they are no majority any more. */
static void add_hold(const struct redlock *lock, const char *digest, struct lock_view *view)
{
	struct hold_view *hold = lock_view_add_hold(view);
	int64_t rest_ms[REDLOCK_MOST_NODES];
	size_t count = 0;

	for (int i = 0; i < lock->count; i++) {
		const redisReply *row = view_of(&lock->nodes[i]);
		redisReply *const *e = row ? row->element : NULL;

		if (!row || strcmp(e[1]->str, digest) != 0)
			continue;
		if (!hold->holder.pid)
			holder_decode(&hold->holder, e[2]->str, e[2]->len);
		if (strtoull(e[3]->str, NULL, 10) > hold->fence)
			hold->fence = strtoull(e[3]->str, NULL, 10);
		if (e[4]->integer > hold->age_ms)
			hold->age_ms = e[4]->integer;
		rest_ms[count++] = e[5]->integer;
	}
	/* As many must end as leave too few for a majority. */
	hold->expires_ms = redlock_free_in(rest_ms, count,
					   count >= (size_t)lock->quorum
						   ? (int)count - lock->quorum + 1 : (int)count);
	if (hold->expires_ms == INT64_MAX)
		hold->expires_ms = -1;
}

/* {digest, text, waiting} */
static void add_waiter(const redisReply *row, struct lock_view *view, struct digest seen[])
{
	redisReply *const *e = row->element;
	struct waiter_view *waiter;

	if (!redis_has_shape(row, "ssi"))
		return;
	for (size_t i = 0; i < view->waiter_count; i++)
		if (!strcmp(seen[i].text, e[0]->str))
			return;
	snprintf(seen[view->waiter_count].text, sizeof(seen[0].text), "%s", e[0]->str);
	waiter = lock_view_add_waiter(view);
	holder_decode(&waiter->holder, e[1]->str, e[1]->len);
	waiter->waiting_ms = e[2]->integer;
}

static int compare_waiters(const void *a, const void *b)
{
	const int64_t x = ((const struct waiter_view *)a)->waiting_ms;
	const int64_t y = ((const struct waiter_view *)b)->waiting_ms;

	return (x < y) - (x > y);
}

/* A waiter is in line on all nodes that it can reach, and shown once. */
static void add_waiters(const struct redlock *lock, struct lock_view *view)
{
	struct digest *seen;
	size_t most = 0;

	for (int i = 0; i < lock->count; i++)
		if (view_of(&lock->nodes[i]))
			most += lock->nodes[i].reply->element[6]->elements;
	if (!most)
		return;
	seen = memory_new(most, sizeof(*seen));
	for (int i = 0; i < lock->count; i++) {
		const redisReply *row = view_of(&lock->nodes[i]);

		for (size_t j = 0; row && j < row->element[6]->elements; j++)
			add_waiter(row->element[6]->element[j], view, seen);
	}
	free(seen);
	if (view->waiter_count)
		qsort(view->waiters, view->waiter_count, sizeof(view->waiters[0]),
		      compare_waiters);
}

static int look(struct redlock *lock, const char *name, const char *then_break,
		struct lock_view *view, struct error *err)
{
	const struct redlock_call call = {
		.script = &redlock_script_inspect, .token = "", .arguments = { then_break, NULL },
		.least = lock->quorum,
	};
	int answers = 0, most;
	const char *digest;

	redlock_begin(lock, name);
	for (int i = 0; i < lock->count; i++)
		lock->nodes[i].woken = false;
	if (redlock_round(lock, &call, err))
		return -1;
	for (int i = 0; i < lock->count; i++) {
		const redisReply *row = view_of(&lock->nodes[i]);
		const uint64_t fence = row ? strtoull(row->element[0]->str, NULL, 10) : 0;

		answers += row != NULL;
		if (fence > view->fence)
			view->fence = fence;
	}
	if (answers < lock->quorum)
		return redlock_no_majority(lock, answers, err);
	digest = find_holder(lock, &most);
	/* Nodes that do not answer may be the rest of a majority. */
	if (digest && most + lock->count - answers >= lock->quorum)
		add_hold(lock, digest, view);
	view->held = view->hold_count > 0;
	add_waiters(lock, view);
	return 0;
}

int redlock_inspect(struct backend *backend, const char *name, bool listen,
		    struct lock_view *view, struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);

	redlock_begin(lock, name);
	if (listen && redlock_listen(lock, REDIS_FREE, err))
		return -1;
	return look(lock, name, "0", view, err);
}

int redlock_break(struct backend *backend, const char *name, struct lock_view *view,
		  struct error *err)
{
	return look(redlock_from_backend(backend), name, "1", view, err);
}

/* ---- list ---- */

/* Where a node goes on with SCAN: "0" at first and at the end, "" after no answer. */
struct cursor {
	char text[32];
};

/* One page of the names of these nodes, a bit for each; 0: all. As redlock_round(). */
static int list_page(struct redlock *lock, unsigned nodes, const struct cursor *from,
		     const char *pattern, struct error *err)
{
	const char *const command[] = {
		"SCAN", from->text, "MATCH", pattern, "COUNT", "1000", NULL
	};
	const struct redlock_call call = {
		.command = command, .nodes = nodes, .least = nodes ? 1 : lock->quorum,
	};

	return redlock_round(lock, &call, err);
}

/* Adds the names on the page that a node has sent. */
static void read_page(const struct redlock *lock, const struct redlock_node *node,
		      struct name_list *names, struct cursor *next)
{
	const redisReply *keys;

	next->text[0] = '\0';
	if (node->state != NODE_ANSWERED || !redis_has_shape(node->reply, "sa"))
		return;
	keys = node->reply->element[1];
	for (size_t i = 0; i < keys->elements; i++)
		if (redis_is_text(keys->element[i]))
			redis_list_key(lock->prefix, keys->element[i], names);
	snprintf(next->text, sizeof(next->text), "%.30s", node->reply->element[0]->str);
}

/* Adds the names on a node's other pages. 0, or -1: it does not answer. */
static int list_rest(struct redlock *lock, int node, const char *pattern, struct cursor *next,
		     struct name_list *names, struct error *err)
{
	while (next->text[0] && strcmp(next->text, "0") != 0) {
		if (list_page(lock, 1u << node, next, pattern, err))
			return -1;
		read_page(lock, &lock->nodes[node], names, next);
	}
	return next->text[0] ? 0 : -1;
}

/* How many nodes have listed all their names. *first: why one has not. */
static int list_nodes(struct redlock *lock, const char *pattern, struct name_list *names,
		      struct error *first, struct error *err)
{
	struct cursor next[REDLOCK_MOST_NODES] = { { "0" } };
	int listed = 0;

	if (list_page(lock, 0, &next[0], pattern, err)) {
		*first = *err;
		return 0;
	}
	for (int i = 0; i < lock->count; i++) {
		read_page(lock, &lock->nodes[i], names, &next[i]);
		if (!next[i].text[0] && first->kind == ERROR_NONE)
			*first = lock->nodes[i].error;
	}
	for (int i = 0; i < lock->count; i++) {
		if (!list_rest(lock, i, pattern, &next[i], names, err))
			listed++;
		else if (first->kind == ERROR_NONE)
			*first = lock->nodes[i].error;
	}
	return listed;
}

/* Every majority has a node in common with the majority that has a lock. */
int redlock_list(struct backend *backend, struct name_list *names, struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);
	char *pattern = redis_list_pattern(lock->prefix);
	struct error first = { 0 };
	int listed;

	redlock_look_up(lock);
	listed = list_nodes(lock, pattern, names, &first, err);
	free(pattern);
	name_list_sort(names);
	if (listed >= lock->quorum)
		return 0;
	return error_set(err, first.kind == ERROR_NONE ? ERROR_UNAVAILABLE : first.kind, 0,
			 "no majority: %d of %d nodes can be listed, %d are needed; %.300s", listed,
			 lock->count, lock->quorum, first.message);
}
