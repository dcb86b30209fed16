/* SPDX-License-Identifier: MIT */
/* The rows of the ZooKeeper backend, and breaking holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "lock/view.h"
#include "lock.h"

/* The nodes of a lock, with their data. */
struct listing {
	char directory[ZK_PATH_SIZE];
	struct zk_queue queue;
	struct zk_call *names;
	struct zk_call **data;		/* of each entry; NULL: not asked for */
};

static void finish_listing(struct listing *listing)
{
	for (ptrdiff_t i = 0; listing->data && i < listing->queue.count; i++)
		zk_call_free(listing->data[i]);
	free(listing->data);
	zk_call_free(listing->names);
	zk_queue_finish(&listing->queue);
	listing->data = NULL;
	listing->names = NULL;
}

/* Take out the entries that have ended since the queue was read: they block nobody. */
static void drop_ended(struct listing *listing)
{
	for (ptrdiff_t i = listing->queue.count - 1; i >= 0; i--) {
		if (!listing->data[i] || listing->data[i]->rc == ZOK)
			continue;
		zk_call_free(listing->data[i]);
		memmove(listing->data + i, listing->data + i + 1,
			(size_t)(listing->queue.count - 1 - i) * sizeof(*listing->data));
		zk_queue_remove(&listing->queue, i);
	}
}

/*
 * Read the data of all entries. Where this process waits itself, the holders will do: a long queue
 * whose waiters read all of each other would be slow.
 */
static int read_data(struct zk_backend *zk, struct listing *listing, struct error *err)
{
	const struct zk_queue *queue = &listing->queue;
	char path[ZK_PATH_SIZE];
	int rc;

	listing->data = memory_new((size_t)queue->count, sizeof(*listing->data));
	for (ptrdiff_t i = 0; i < queue->count; i++) {
		if (zk->own.at.node[0] && zk_entries_blocker(queue->entries, i) >= 0)
			break;
		zk_node_path(listing->directory, queue->entries[i].name, path);
		listing->data[i] = zk_get(&zk->conn, path, 0);
	}
	rc = zk_conn_wait(&zk->conn);
	if (rc)
		return zk_call_error(&zk->conn, rc, "list", listing->directory, err);
	drop_ended(listing);
	return 0;
}

static int list_once(struct zk_backend *zk, struct listing *listing, struct error *err)
{
	struct zk_call *sync;
	int rc;

	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return -1;
	sync = zk_sync(&zk->conn, zk->root);
	listing->names = zk_list(&zk->conn, listing->directory, 0);
	rc = zk_call_end(sync);
	if (rc)
		return zk_call_error(&zk->conn, rc, "sync", zk->root, err);
	if (zk_queue_read(&zk->conn, listing->directory, listing->names, &listing->queue, err))
		return -1;
	/* Taken with strategy node, whatever ours is: the directory itself is the only entry. */
	if (listing->names->rc == ZOK && listing->names->stat.ephemeralOwner) {
		zk_queue_finish(&listing->queue);
		listing->queue.entries = memory_new(1, sizeof(*listing->queue.entries));
		listing->queue.entries[0] = (struct zk_entry){ .name = "", .maker = ZK_DLOCK };
		listing->queue.count = 1;
	}
	return read_data(zk, listing, err);
}

/* 0, or -1 with *err. The caller ends with finish_listing() in any case. */
static int list_lock(struct zk_backend *zk, const char *name, struct listing *listing,
		     struct error *err)
{
	int result;

	zk_directory(zk, name, listing->directory);
	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	for (;;) {
		result = list_once(zk, listing, err);
		if (!result || !zk_conn_ask_again(&zk->conn, err))
			return result;
		finish_listing(listing);
	}
}

/* ---- rows ---- */

/* Describe the entry of another program, of which only data and stat are known. */
static void describe_foreign(const struct zk_entry *entry, const struct zk_call *data,
			     char text[static HOLDER_TEXT_SIZE])
{
	static const char *const makers[] = {
		[ZK_CURATOR] = "Curator", [ZK_KAZOO] = "kazoo", [ZK_DLOCK] = "dlock",
	};
	struct holder holder = { .pid = 0 };

	/* Curator writes its host's address by default, kazoo the name that its user chose. */
	if (data->length)
		text_clean(data->text, data->length, holder.host, sizeof(holder.host));
	snprintf(holder.command, sizeof(holder.command), "%s, session 0x%llx",
		 makers[entry->maker], (unsigned long long)data->stat.ephemeralOwner);
	holder_encode(&holder, text);
}

static struct row *add_text(struct rows *rows, const struct zk_entry *entry,
			    const struct zk_call *data, enum zk_state state)
{
	char text[HOLDER_TEXT_SIZE];

	if (!data)
		return rows_add(rows, "", 0);
	if (state != ZK_FOREIGN)
		return rows_add(rows, data->text, data->length);
	describe_foreign(entry, data, text);
	return rows_add(rows, text, strlen(text));
}

/* How long ago that was, by the clock of this host; -1: not known. */
static int64_t age_of(int64_t since_ms)
{
	const int64_t age_ms = clock_wall_ms() - since_ms;

	return !since_ms ? -1 : age_ms < 0 ? 0 : age_ms;
}

static void add_row(struct rows *rows, const struct zk_entry *entry, const struct zk_call *data,
		    const char *uuid, bool unblocked)
{
	static const struct Stat no_stat;
	const struct Stat *stat = data ? &data->stat : &no_stat;
	const char *own = zk_entry_uuid(entry);
	struct zk_record record = { .state = ZK_WAITING };
	struct row *row;

	if (data)
		zk_record_read(&record, data->text, data->length, uuid);
	row = add_text(rows, entry, data, record.state);
	row->mine = entry->name[0] ? zk_entry_has_uuid(entry, uuid) : record.mine;
	row->holds = unblocked && record.state != ZK_WAITING;
	row->mode = entry->mode;
	row->slots = entry->slots;
	row->age_ms = age_of(row->holds && record.taken_ms ? record.taken_ms : stat->ctime);
	if (own)
		snprintf(row->id, sizeof(row->id), "%.*s", ZK_UUID_SIZE - 1, own);
	else if (data)
		snprintf(row->id, sizeof(row->id), "%" PRIx64, (uint64_t)stat->czxid);
	if (!row->holds)
		return;
	row->fence = (uint64_t)stat->czxid;
	if (row->fence > rows->fence)
		rows->fence = row->fence;
}

static void add_rows(struct rows *rows, const struct listing *listing, const char *token)
{
	const struct zk_queue *queue = &listing->queue;
	char uuid[ZK_UUID_SIZE] = "";
	size_t first = rows->count;

	if (token[0])
		zk_uuid(token, uuid);
	for (ptrdiff_t i = 0; i < queue->count; i++)
		add_row(rows, &queue->entries[i], listing->data[i], uuid,
			zk_entries_blocker(queue->entries, i) < 0);
	/* Holds first: a waiter that has not yet taken the lock may be before one. */
	for (size_t i = first; i < rows->count; i++) {
		const struct row row = rows->rows[i];

		if (!row.holds)
			continue;
		memmove(rows->rows + first + 1, rows->rows + first, (i - first) * sizeof(row));
		rows->rows[first++] = row;
	}
}

/* Add the names that no lock known to dlock has. */
static void add_ignored(const struct zk_call *names, struct name_list *ignored)
{
	const char *name = names->text;
	struct zk_entry entry;

	for (size_t i = 0; names->rc == ZOK && i < names->count; i++, name += strlen(name) + 1)
		if (!zk_entry_parse(&entry, name))
			name_list_add(ignored, name, strlen(name));
}

static int show_lock(struct zk_backend *zk, const struct request *request, struct rows *rows,
		     struct error *err)
{
	struct listing listing = { .data = NULL };
	const int failed = list_lock(zk, request->name, &listing, err);

	if (!failed) {
		add_rows(rows, &listing, request->token);
		add_ignored(listing.names, &rows->ignored);
	}
	finish_listing(&listing);
	return failed;
}

/* ---- the names of all locks ---- */

/* Is there an entry among the names, or is the directory a node of strategy node? */
static bool has_entry(const struct zk_call *names)
{
	const char *name = names->text;
	struct zk_entry entry;

	if (names->rc == ZOK && names->stat.ephemeralOwner)
		return true;
	for (size_t i = 0; names->rc == ZOK && i < names->count; i++, name += strlen(name) + 1)
		if (zk_entry_parse(&entry, name) && !entry.shadow)
			return true;
	return false;
}

typedef void each_directory_fn(void *context, const char *component, const struct zk_call *names);

/* List all directories in the root, and call each for them. 0, or -1 with *err. */
static int for_each_directory(struct zk_backend *zk, each_directory_fn *each, void *context,
			      struct error *err)
{
	struct zk_call *sync = zk_sync(&zk->conn, zk->root);
	struct zk_call *root = zk_list(&zk->conn, zk->root, 0), **calls;
	const char *component;
	char path[ZK_PATH_SIZE];
	int rc = zk_call_wait(root);

	zk_call_free(sync);
	if (rc != ZOK) {
		zk_call_free(root);
		return rc == ZNONODE ? 0 : zk_call_error(&zk->conn, rc, "list", zk->root, err);
	}
	component = root->text;
	calls = memory_new(root->count, sizeof(*calls));
	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		zk_node_path(zk->root, component, path);
		calls[i] = zk_list(&zk->conn, path, 0);
	}
	rc = zk_conn_wait(&zk->conn);
	component = root->text;
	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		if (!rc)
			each(context, component, calls[i]);
		zk_call_free(calls[i]);
	}
	free(calls);
	zk_call_free(root);
	return rc ? zk_call_error(&zk->conn, rc, "list", zk->root, err) : 0;
}

static void add_name(void *context, const char *component, const struct zk_call *names)
{
	char name[ZK_COMPONENT_SIZE];

	if (has_entry(names) && zk_path_decode(component, name, sizeof(name)))
		name_list_add(context, name, strlen(name));
}

static int show_names(struct zk_backend *zk, struct name_list *names, struct error *err)
{
	int result;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do {
		result = zk_conn_open(&zk->conn, ZK_ASKING_MS, err);
		if (!result)
			result = for_each_directory(zk, add_name, names, err);
	} while (result && zk_conn_ask_again(&zk->conn, err));
	return result;
}

int zk_show(struct backend *backend, const struct request *request, struct rows *rows,
	    struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	int failed = request->name ? show_lock(zk, request, rows, err)
				   : show_names(zk, &rows->names, err);

	/* A process that gives up shows who has the lock, and ends without close(). */
	if (zk->done)
		zk_conn_close(&zk->conn);
	return failed;
}

/* ---- breaking ---- */

/* Entry i of the listing is the hold. */
static enum outcome remove_hold(struct zk_backend *zk, const struct listing *listing,
				ptrdiff_t i, struct error *err)
{
	struct zk_pair pair;
	int rc;

	zk_queue_pair(&listing->queue, i, listing->directory, &pair);
	/* Strategy node: the version tells the node from a later one, unless that was written. */
	rc = zk_call_end(zk_delete_pair(&zk->conn, &pair, listing->data[i]->stat.version));
	if (rc == ZOK)
		return OUTCOME_HELD;
	if (rc == ZNONODE)
		return OUTCOME_LOST;
	zk_call_error(&zk->conn, rc, "remove", pair.node, err);
	return OUTCOME_ERROR;
}

static enum outcome break_once(struct zk_backend *zk, const char *name, const struct row *row,
			       struct error *err)
{
	struct listing listing = { .data = NULL };
	enum outcome outcome = list_lock(zk, name, &listing, err) ? OUTCOME_ERROR : OUTCOME_LOST;

	/* The fence is that of one node, whoever made it. */
	for (ptrdiff_t i = 0; outcome == OUTCOME_LOST && i < listing.queue.count; i++)
		if (listing.data[i] && (uint64_t)listing.data[i]->stat.czxid == row->fence) {
			outcome = remove_hold(zk, &listing, i, err);
			break;
		}
	finish_listing(&listing);
	return outcome;
}

enum outcome zk_break(struct backend *backend, const char *name, const struct row *row,
		      struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum outcome outcome;

	do
		outcome = break_once(zk, name, row, err);
	while (outcome == OUTCOME_ERROR && zk_conn_ask_again(&zk->conn, err));
	return outcome;
}

/* ---- check ---- */

struct ignored {
	struct name_list names;
	char where[64];			/* the directory of the first one */
};

static void note_ignored(void *context, const char *component, const struct zk_call *names)
{
	struct ignored *ignored = context;
	const size_t before = ignored->names.count;

	add_ignored(names, &ignored->names);
	if (!before && ignored->names.count)
		snprintf(ignored->where, sizeof(ignored->where), "%.60s", component);
}

int zk_check_ignored(struct zk_backend *zk, struct findings *findings, struct error *err)
{
	struct ignored ignored = { .where = "" };
	int failed = for_each_directory(zk, note_ignored, &ignored, err);

	/* Whether the root can be listed is another finding. */
	if (failed && err->kind == ERROR_REFUSED)
		failed = 0;
	if (ignored.names.count)
		findings_add(findings, FINDING_WARNING, "layout", "use one kind of lock at a path",
			     "%.100s in %.60s is of another program, which dlock does not "
			     "exclude (such nodes in all: %zu)", ignored.names.names[0],
			     ignored.where, ignored.names.count);
	name_list_finish(&ignored.names);
	return failed;
}
