/* SPDX-License-Identifier: MIT */
/* Showing and listing the locks of a majority of the nodes, and checking each node. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lock/view.h"
#include "redlock.h"

static bool is_same(const struct row *a, const struct row *b)
{
	return a->holds == b->holds && !strcmp(a->id, b->id);
}

static int count_row(const struct rows *rows, size_t count, const struct row *row)
{
	int found = 0;

	for (size_t i = 0; i < count; i++)
		found += is_same(&rows->rows[i], row);
	return found;
}

/* Find the holder that most nodes name; NULL: there is none on any. */
static struct row *find_holder(const struct rows *rows, int *most)
{
	struct row *found = NULL;

	*most = 0;
	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->rows[i];
		const int count = row->holds ? count_row(rows, rows->count, row) : 0;

		if (count <= *most)
			continue;
		*most = count;
		found = row;
	}
	return found;
}

/* Add a row with the reason why this waiter does not get a free lock. */
static void add_young(const struct redlock *lock, struct rows *rows)
{
	struct holder nobody = { .pid = 0 };
	char text[HOLDER_TEXT_SIZE];

	snprintf(nobody.note, sizeof(nobody.note), "%s", lock->young);
	rows_add(rows, text, holder_encode(&nobody, text))->holds = true;
}

/* Sort holds first, then the waiters by queued_at. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->holds != y->holds)
		return x->holds ? -1 : 1;
	return (x->age_ms < y->age_ms) - (x->age_ms > y->age_ms);
}

/*
 * Keep one row of each waiter, which is in the queues of several nodes, and one of the holder that
 * most nodes name, with the greatest fence. It may have a majority, because nodes that do not
 * answer may have it, too.
 */
static void merge_rows(const struct redlock *lock, int answers, struct rows *rows)
{
	const struct redis_client *client = &lock->client;
	size_t kept = 0;
	int most;
	struct row *found = find_holder(rows, &most);

	if (most + client->count - answers < client->quorum)
		found = NULL;
	for (size_t i = 0; i < rows->count && found; i++)
		if (is_same(&rows->rows[i], found) && rows->rows[i].fence > found->fence)
			found->fence = rows->rows[i].fence;
	if (found)
		found->mine &= most >= client->quorum;
	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->rows[i];

		if (row->holds ? row != found : count_row(rows, kept, row) > 0)
			free(row->text);
		else
			rows->rows[kept++] = *row;
	}
	rows->count = kept;
	if (!found && lock->young[0])
		add_young(lock, rows);
	if (rows->count)
		qsort(rows->rows, rows->count, sizeof(rows->rows[0]), compare_rows);
}

/* ---- one node after the other ---- */

/*
 * Returns a client for one node alone, which answers within timeout_ms. It shares the connections
 * of all, and must not be freed.
 */
static struct redis_client make_node(const struct redis_client *all, int which, int64_t timeout_ms)
{
	struct redis_client one = *all;

	one.servers = &all->servers[which];
	one.count = one.quorum = 1;
	one.base.timeout_ms = one.base.connect_timeout_ms = timeout_ms;
	return one;
}

/* List the names on a majority: it has a node in common with the majority of each lock. */
static int list_names(struct redis_client *client, struct rows *rows, struct error *err)
{
	const struct request all = { .name = NULL };
	int listed = 0;

	for (int i = 0; i < client->count; i++) {
		/* After a majority, do not wait for the others. */
		struct redis_client one = make_node(client, i, listed >= client->quorum
						       ? client->patience_ms
						       : client->base.timeout_ms);
		struct error ignored = { 0 };

		listed += !redis_show(&one.base, &all, rows, &ignored);
	}
	return listed >= client->quorum ? 0 : redis_no_majority(client, listed, err);
}

int redlock_show(struct backend *backend, const struct request *request, struct rows *rows,
		 struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);
	int answers, failed;

	if (!request->name)
		return list_names(&lock->client, rows, err);
	failed = redis_show_rows(&lock->client, request, rows, &answers, err);
	merge_rows(lock, answers, rows);
	return failed;
}

/* ---- `dlock check` ---- */

/* Add the findings about one node, with its name in front. Returns 0, or -1 without an answer. */
static int check_node(const struct redis_client *client, int which, struct findings *findings)
{
	const char *label = client->servers[which].address.label + sizeof("redis ") - 1;
	struct findings found = { 0 };
	struct error err = { 0 };
	struct redis_client one = make_node(client, which, client->base.timeout_ms);
	const int failed = redis_check(&one.base, &found, &err);

	if (failed)
		findings_add(findings, FINDING_WARNING, "node", "repair this node: without it "
			     "fewer others may fail", "%.200s", err.message);
	for (size_t i = 0; i < found.count; i++)
		findings_add(findings, found.rows[i].severity, found.rows[i].topic,
			     found.rows[i].remedy[0] ? found.rows[i].remedy : NULL, "%s: %.150s",
			     label, found.rows[i].text);
	findings_finish(&found);
	return failed;
}

int redlock_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	int fit = 0;

	if (redis_ping(backend, err))
		return -1;
	for (int i = 0; i < client->count; i++)
		fit += !check_node(client, i, findings);
	if (fit < client->quorum)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "no majority: %d of %d nodes can be checked", fit, client->count);
	findings_add(findings, fit < client->count ? FINDING_WARNING : FINDING_OK, "majority",
		     fit < client->count ? "repair the nodes that do not answer" : NULL,
		     "%d of %d nodes answer, %d are needed", fit, client->count, client->quorum);
	return 0;
}
