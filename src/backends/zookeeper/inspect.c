/* SPDX-License-Identifier: MIT */
/* What the ZooKeeper backend tells of its locks, and breaking them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/view.h"
#include "lock.h"

/* What was asked of one place. */
struct asked {
	struct zk_call *place;
	struct zk_call *twin;
};

static int64_t age_ms(int64_t since_ms)
{
	int64_t age = since_ms ? clock_wall_ms() - since_ms : -1;

	return since_ms && age < 0 ? 0 : age;
}

static bool add_hold(struct lock_view *view, const struct zk_place *place,
		     const struct asked *asked, const struct zk_state *state)
{
	struct hold_view *hold = lock_view_add_hold(view);
	int64_t since_ms;

	if (!hold)
		return false;
	zk_describe(place, asked->place, state, &hold->holder, &since_ms);
	hold->mode = place->mode;
	hold->slots = place->slots;
	hold->fence = (uint64_t)asked->place->stat.czxid;
	hold->age_ms = age_ms(since_ms);
	hold->count = state ? (int)state->count : 1;
	hold->expires_ms = -1;
	if (state && state->until_ms)
		hold->expires_ms = state->until_ms - clock_wall_ms();
	if (state && state->until_ms && hold->expires_ms < 0)
		hold->expires_ms = 0;
	if (hold->fence > view->fence)
		view->fence = hold->fence;
	return true;
}

static bool add_waiter(struct lock_view *view, const struct zk_place *place,
		       const struct asked *asked, const struct zk_state *state)
{
	struct waiter_view *waiter = lock_view_add_waiter(view);
	int64_t since_ms;

	if (!waiter)
		return false;
	zk_describe(place, asked->place, state, &waiter->holder, &since_ms);
	waiter->mode = place->mode;
	waiter->slots = place->slots;
	waiter->waiting_ms = age_ms(asked->place->stat.ctime);
	return true;
}

/* What has ended since the line was read is in nobody's way: it counts for nothing. */
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

static int fill_view(struct zk_line *line, struct asked *asked, struct lock_view *view,
		     struct error *err)
{
	struct zk_state state;
	bool added = true, known;

	drop_ended(line, asked);
	for (ptrdiff_t i = 0; i < line->count && added; i++) {
		known = asked[i].twin && asked[i].twin->rc == ZOK;
		if (known)
			zk_state_read(&state, asked[i].twin->text, asked[i].twin->length);
		added = zk_places_blocker(line->places, i) < 0
			? add_hold(view, &line->places[i], &asked[i], known ? &state : NULL)
			: add_waiter(view, &line->places[i], &asked[i], known ? &state : NULL);
	}
	view->held = view->hold_count > 0;
	if (added)
		return 0;
	error_set(err, ERROR_INTERNAL, 0, "out of memory");
	return -1;
}

static void ask_all(struct zk_backend *zk, const char *directory, const struct zk_line *line,
		    struct asked *asked)
{
	const struct zk_place *twin;
	char path[ZK_PATH_SIZE];

	for (ptrdiff_t i = 0; i < line->count; i++) {
		zk_node(directory, line->places[i].name, path);
		asked[i].place = zk_get(&zk->conn, path, 0);
		twin = zk_line_twin(line, &line->places[i]);
		if (!twin)
			continue;
		zk_node(directory, twin->name, path);
		asked[i].twin = zk_get(&zk->conn, path, 0);
	}
}

/* Is the lock taken with strategy node? */
static bool is_node(const struct zk_line *line)
{
	return line->names->rc == ZOK && line->names->stat.ephemeralOwner;
}

static int look_at_node(struct zk_backend *zk, const char *path, struct zk_line *line,
			struct lock_view *view, struct error *err)
{
	struct asked asked = { .place = zk_get(&zk->conn, path, 0) };
	int result = zk_conn_wait(&zk->conn, err);
	struct zk_state state;

	if (!result && asked.place->rc == ZOK) {
		line->places[0] = (struct zk_place){ .name = "", .maker = ZK_DLOCK };
		line->count = 1;
		zk_state_read(&state, asked.place->text, asked.place->length);
		if (!add_hold(view, &line->places[0], &asked,
			      state.phase == ZK_UNKNOWN ? NULL : &state)) {
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			result = -1;
		}
		view->held = true;
	}
	zk_call_free(asked.place);
	return result;
}

/* Reads the line and all that is in it. The caller ends with zk_line_finish(). */
static int look(struct zk_backend *zk, const char *directory, uint32_t watch,
		struct zk_line *line, struct lock_view *view, struct error *err)
{
	struct zk_call *sync;
	struct asked *asked;
	int result = -1;

	*line = (struct zk_line){ .count = 0 };
	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return -1;
	sync = zk_sync(&zk->conn, zk->root);
	result = zk_line_get(zk, directory, watch, line, err);
	zk_call_free(sync);
	/* Whatever the strategy of ours: what is there tells. */
	if (!result && is_node(line))
		return look_at_node(zk, directory, line, view, err);
	if (result || !line->count)
		return result;
	asked = calloc((size_t)line->count, sizeof(*asked));
	if (!asked) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	ask_all(zk, directory, line, asked);
	result = zk_conn_wait(&zk->conn, err);
	if (!result)
		result = fill_view(line, asked, view, err);
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
		*err = (struct error){ .kind = ERROR_NONE };
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
	struct zk_call *calls[2] = { NULL, NULL };
	char path[ZK_PATH_SIZE];
	const struct zk_place *twin;
	int result = 0;

	for (ptrdiff_t i = 0; i < line->count && !result; i++) {
		if (zk_places_blocker(line->places, i) >= 0)
			continue;
		twin = is_node(line) ? NULL : zk_line_twin(line, &line->places[i]);
		snprintf(path, sizeof(path), "%s", directory);
		if (!is_node(line))
			zk_node(directory, line->places[i].name, path);
		calls[0] = zk_delete(&zk->conn, path, -1);
		if (twin) {
			zk_node(directory, twin->name, path);
			calls[1] = zk_delete(&zk->conn, path, -1);
		}
		result = zk_conn_wait(&zk->conn, err);
		for (int k = 0; k < 2; k++) {
			if (!result && calls[k] && calls[k]->rc != ZOK &&
			    calls[k]->rc != ZNONODE) {
				zk_call_error(&zk->conn, calls[k]->rc, "remove", path, err);
				result = -1;
			}
			zk_call_free(calls[k]);
			calls[k] = NULL;
		}
	}
	return result;
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
		if (!zk_conn_wait(&zk->conn, err) && !result)
			zk_hand_over(zk, directory, names, zk->conn.deadline_ms);
		else
			zk_call_free(names);
	}
	zk_line_finish(&line);
	return result;
}

/* ---- list ---- */

/* Is there a place among the names, or is it an ephemeral node: is the lock held? */
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

static int add_held(struct zk_backend *zk, const struct zk_call *root, struct zk_call **calls,
		    struct name_list *names, struct error *err)
{
	const char *component = root->text;
	char path[ZK_PATH_SIZE], name[ZK_COMPONENT_SIZE];
	int result;

	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		zk_node(zk->root, component, path);
		calls[i] = zk_list(&zk->conn, path, 0);
	}
	result = zk_conn_wait(&zk->conn, err);
	component = root->text;
	for (size_t i = 0; i < root->count; i++, component += strlen(component) + 1) {
		if (!result && has_place(calls[i]) &&
		    zk_path_decode(component, name, sizeof(name)) &&
		    name_list_add(names, name, strlen(name))) {
			error_set(err, ERROR_INTERNAL, 0, "out of memory");
			result = -1;
		}
		zk_call_free(calls[i]);
	}
	return result;
}

static int list_once(struct zk_backend *zk, struct name_list *names, struct error *err)
{
	struct zk_call *sync, *root, **calls;
	int result;

	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return -1;
	sync = zk_sync(&zk->conn, zk->root);
	root = zk_list(&zk->conn, zk->root, 0);
	result = zk_conn_wait(&zk->conn, err);
	if (!result && root->rc != ZOK && root->rc != ZNONODE) {
		zk_call_error(&zk->conn, root->rc, "list", zk->root, err);
		result = -1;
	}
	if (!result && root->rc == ZOK) {
		calls = calloc(root->count + 1, sizeof(struct zk_call *));
		result = calls ? add_held(zk, root, calls, names, err) : -1;
		free(calls);
	}
	zk_call_free(sync);
	zk_call_free(root);
	return result;
}

int zk_list_names(struct backend *backend, struct name_list *names, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	int result;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		result = list_once(zk, names, err);
	} while (result && zk_conn_ask_again(&zk->conn, err));
	name_list_sort(names);
	return result;
}
