/* SPDX-License-Identifier: MIT */
/* What the ZooKeeper backend tells of its locks, and breaking them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/view.h"
#include "directory.h"
#include "lock.h"
#include "ops.h"
#include "path.h"
#include "turn.h"

/* What was asked of one place. */
struct asked {
	struct zk_call *place;
	struct zk_call *twin;
};

static void add_hold(struct lock_view *view, const struct zk_place *place,
		     const struct asked *asked, const struct zk_state *state)
{
	struct hold_view *hold = lock_view_add_hold(view);
	int64_t since_ms;

	zk_describe(place, asked->place, state, &hold->holder, &since_ms);
	hold->mode = place->mode;
	hold->slots = place->slots;
	hold->fence = (uint64_t)asked->place->stat.czxid;
	hold->age_ms = zk_age_ms(since_ms);
	hold->expires_ms = state && state->until_ms ? state->until_ms - clock_wall_ms() : -1;
	if (state && state->until_ms && hold->expires_ms < 0)
		hold->expires_ms = 0;
	if (hold->fence > view->fence)
		view->fence = hold->fence;
}

static void add_waiter(struct lock_view *view, const struct zk_place *place,
		       const struct asked *asked, const struct zk_state *state)
{
	struct waiter_view *waiter = lock_view_add_waiter(view);
	int64_t since_ms;

	zk_describe(place, asked->place, state, &waiter->holder, &since_ms);
	waiter->mode = place->mode;
	waiter->slots = place->slots;
	waiter->waiting_ms = zk_age_ms(asked->place->stat.ctime);
}

/* Takes out the places that have ended since the line was read: they block nobody. */
static void drop_ended(struct zk_line *line, struct asked *asked)
{
	for (ptrdiff_t i = line->count - 1; i >= 0; i--) {
		if (asked[i].place->rc == ZOK)
			continue;
		zk_call_free(asked[i].place);
		zk_call_free(asked[i].twin);
		memmove(asked + i, asked + i + 1, (size_t)(line->count - 1 - i) * sizeof(*asked));
		zk_line_remove(line, i, 1);
	}
}

static void fill_view(struct zk_line *line, struct asked *asked, struct lock_view *view)
{
	const struct zk_state *known;
	struct zk_state state;

	drop_ended(line, asked);
	for (ptrdiff_t i = 0; i < line->count; i++) {
		if (!zk_call_state(asked[i].twin, &state) || state.phase == ZK_UNKNOWN)
			known = NULL;
		else
			known = &state;
		if (zk_places_blocker(line->places, i) < 0)
			add_hold(view, &line->places[i], &asked[i], known);
		else
			add_waiter(view, &line->places[i], &asked[i], known);
	}
	view->held = view->hold_count > 0;
}

static bool is_node(const struct zk_line *line)
{
	return line->names->rc == ZOK && line->names->stat.ephemeralOwner;
}

static void ask_all(struct zk_backend *zk, const char *directory, const struct zk_line *line,
		    struct asked *asked)
{
	const struct zk_place *twin;
	char path[ZK_PATH_SIZE];

	for (ptrdiff_t i = 0; i < line->count; i++) {
		zk_node(directory, line->places[i].name, path);
		asked[i].place = zk_get(&zk->conn, path, 0);
		twin = is_node(line) ? &line->places[i] : zk_line_twin(line, i);
		if (!twin)
			continue;
		zk_node(directory, twin->name, path);
		asked[i].twin = zk_get(&zk->conn, path, 0);
	}
}

/* Adds the names that no lock known to dlock has. */
static void add_ignored(const struct zk_call *names, struct name_list *ignored)
{
	const char *name = names->text;
	struct zk_place place;

	for (size_t i = 0; names->rc == ZOK && i < names->count; i++, name += strlen(name) + 1)
		if (!zk_place_parse(&place, name))
			name_list_add(ignored, name, strlen(name));
}

/* Reads the line and all that is in it. The caller ends with zk_line_finish(). */
static int look(struct zk_backend *zk, const char *directory, uint32_t watch,
		struct zk_line *line, struct lock_view *view, struct error *err)
{
	struct zk_call *sync;
	struct asked *asked;
	int result;

	*line = (struct zk_line){ .count = 0 };
	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return -1;
	sync = zk_sync(&zk->conn, zk->root);
	result = zk_line_get(&zk->conn, directory, watch, line, err);
	zk_call_free(sync);
	if (result)
		return -1;
	/* Taken with strategy node, whatever ours is: the directory itself is the only place. */
	if (is_node(line)) {
		line->places[0] = (struct zk_place){ .name = "", .maker = ZK_DLOCK };
		line->count = 1;
	}
	asked = memory_new((size_t)line->count, sizeof(*asked));
	ask_all(zk, directory, line, asked);
	result = zk_conn_wait(&zk->conn);
	if (result) {
		zk_call_error(&zk->conn, result, "list", directory, err);
	} else {
		fill_view(line, asked, view);
		add_ignored(line->names, &view->ignored);
	}
	for (ptrdiff_t i = 0; i < line->count; i++) {
		zk_call_free(asked[i].place);
		zk_call_free(asked[i].twin);
	}
	free(asked);
	return result;
}

static int look_within(struct zk_backend *zk, const char *directory, uint32_t watch,
		       struct zk_line *line, struct lock_view *view, struct error *err)
{
	int result;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	for (;;) {
		result = look(zk, directory, watch, line, view, err);
		if (!result || !zk_conn_ask_again(&zk->conn, err))
			return result;
		zk_line_finish(line);
		lock_view_finish(view);
	}
}

int zk_inspect(struct backend *backend, const char *name, bool listen, struct lock_view *view,
	       struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	char directory[ZK_PATH_SIZE];
	struct zk_line line;
	int result;

	zk_directory(zk, name, directory);
	if (listen)
		zk->inspect_watch = zk_watch_number(&zk->conn);
	result = look_within(zk, directory, listen ? zk->inspect_watch : 0, &line, view, err);
	zk_line_finish(&line);
	return result;
}

/* ---- breaking ---- */

static int remove_holders(struct zk_backend *zk, const char *directory,
			  const struct zk_line *line, struct error *err)
{
	struct zk_pair pair;
	struct zk_call *place, *twin;
	int rc;

	for (ptrdiff_t i = 0; i < line->count; i++) {
		if (zk_places_blocker(line->places, i) >= 0)
			continue;
		twin = NULL;
		zk_node(directory, line->places[i].name, pair.place);
		place = zk_delete(&zk->conn, pair.place, -1);
		if (zk_line_pair(line, i, directory, &pair))
			twin = zk_delete(&zk->conn, pair.twin, -1);
		rc = zk_call_wait(place);
		if ((rc == ZOK || rc == ZNONODE) && twin)
			rc = twin->rc;
		zk_call_free(place);
		zk_call_free(twin);
		if (rc != ZOK && rc != ZNONODE)
			return zk_call_error(&zk->conn, rc, "remove", pair.place, err);
	}
	return 0;
}

int zk_break(struct backend *backend, const char *name, struct lock_view *view,
	     struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	char directory[ZK_PATH_SIZE];
	struct zk_call *names;
	struct zk_line line;
	int result;

	zk_directory(zk, name, directory);
	result = look_within(zk, directory, 0, &line, view, err);
	if (!result && view->held) {
		result = remove_holders(zk, directory, &line, err);
		names = zk_list(&zk->conn, directory, 0);
		if (!zk_conn_wait(&zk->conn) && !result)
			zk_hand_over(zk, directory, names, zk->conn.deadline_ms);
		else
			zk_call_free(names);
	}
	zk_line_finish(&line);
	return result;
}

/* ---- list ---- */

/* Is there a place among the names, or is the directory a node of strategy node? */
static bool has_place(const struct zk_call *names)
{
	const char *name = names->text;
	struct zk_place place;

	if (names->rc == ZOK && names->stat.ephemeralOwner)
		return true;
	for (size_t i = 0; names->rc == ZOK && i < names->count; i++, name += strlen(name) + 1)
		if (zk_place_parse(&place, name) && !place.twin)
			return true;
	return false;
}

/* Lists all directories in the root: *calls, which the caller frees. 0, or -1 with *err. */
static int list_each(struct zk_backend *zk, const struct zk_call *root, struct zk_call ***calls,
		     struct error *err)
{
	const char *component = root->text;
	char path[ZK_PATH_SIZE];
	int rc;

	*calls = memory_new(root->count, sizeof(**calls));
	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		zk_node(zk->root, component, path);
		(*calls)[i] = zk_list(&zk->conn, path, 0);
	}
	rc = zk_conn_wait(&zk->conn);
	return rc ? zk_call_error(&zk->conn, rc, "list", zk->root, err) : 0;
}

/* Adds the names of those directories in the root that have a place. */
static int add_held(struct zk_backend *zk, const struct zk_call *root, struct name_list *names,
		    struct error *err)
{
	const char *component = root->text;
	char name[ZK_COMPONENT_SIZE];
	struct zk_call **calls;
	const int failed = list_each(zk, root, &calls, err);

	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		if (!failed && has_place(calls[i]) &&
		    zk_path_decode(component, name, sizeof(name)))
			name_list_add(names, name, strlen(name));
		zk_call_free(calls[i]);
	}
	free(calls);
	return failed;
}

static int list_once(struct zk_backend *zk, struct name_list *names, struct error *err)
{
	struct zk_call *sync, *root;
	int rc, result = 0;

	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return -1;
	sync = zk_sync(&zk->conn, zk->root);
	root = zk_list(&zk->conn, zk->root, 0);
	rc = zk_call_wait(root);
	if (rc == ZOK)
		result = add_held(zk, root, names, err);
	else if (rc != ZNONODE)
		result = zk_call_error(&zk->conn, rc, "list", zk->root, err);
	zk_call_free(sync);
	zk_call_free(root);
	return result;
}

int zk_list_names(struct backend *backend, struct name_list *names, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	int result;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do
		result = list_once(zk, names, err);
	while (result && zk_conn_ask_again(&zk->conn, err));
	name_list_sort(names);
	return result;
}

/* ---- check ---- */

int zk_check_ignored(struct zk_backend *zk, struct findings *findings, struct error *err)
{
	struct zk_call *root = zk_list(&zk->conn, zk->root, 0), **calls;
	struct name_list ignored = { 0 };
	const char *component, *where = NULL;
	int failed;

	/* Whether the root can be listed is another finding. */
	if (zk_call_wait(root) != ZOK) {
		zk_call_free(root);
		return 0;
	}
	failed = list_each(zk, root, &calls, err);
	component = root->text;
	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		if (!failed)
			add_ignored(calls[i], &ignored);
		if (ignored.count && !where)
			where = component;
		zk_call_free(calls[i]);
	}
	free(calls);
	if (ignored.count)
		findings_add(findings, FINDING_WARNING, "layout", "use one kind of lock at a path",
			     "%.100s in %.60s is of another program, which dlock does not "
			     "exclude (such nodes in all: %zu)", ignored.names[0], where,
			     ignored.count);
	name_list_finish(&ignored);
	zk_call_free(root);
	return failed;
}
