/* SPDX-License-Identifier: MIT */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "lock.h"

/* ---- paths ---- */

void zk_directory(const struct zk_backend *zk, const char *name, char path[static ZK_PATH_SIZE])
{
	char component[ZK_COMPONENT_SIZE];

	zk_path_encode(name, component);
	snprintf(path, ZK_PATH_SIZE, "%s/%s", zk->root, component);
}

void zk_node(const char *directory, const char *name, char path[static ZK_PATH_SIZE])
{
	/* Names of others may have any length; what has no room here is no path at all. */
	if (snprintf(path, ZK_PATH_SIZE, "%s/%s", directory, name) >= ZK_PATH_SIZE)
		path[0] = '\0';
}

/* Before 3.5 there are no containers: this in a directory says that dlock removes it. */
#define OWN_DIRECTORY "dlock"

/* One node. ZOK when it is there now. */
static int make(struct zk_backend *zk, const char *path, const char *text, int mode,
		struct error *err)
{
	struct zk_call *call = zk_create(&zk->conn, path, text, mode);
	int rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : call->rc;

	zk_call_free(call);
	return rc == ZNODEEXISTS ? ZOK : rc;
}

/* The root, from its first part to its last. */
int zk_make_root(struct zk_backend *zk, struct error *err)
{
	char path[ZK_PATH_SIZE];
	int rc;

	snprintf(path, sizeof(path), "%s", zk->root);
	for (char *slash = path; slash; ) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		rc = make(zk, path, "", ZOO_PERSISTENT, err);
		if (rc != ZOK && err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "create", path, err);
		if (rc != ZOK)
			return -1;
		if (slash)
			*slash = '/';
	}
	return 0;
}

int zk_make_directory(struct zk_backend *zk, const char *path, struct error *err)
{
	int rc;

	for (int tries = 0; tries < 3; tries++) {
		rc = make(zk, path, "", ZOO_CONTAINER, err);
		if (rc == ZUNIMPLEMENTED)
			rc = make(zk, path, OWN_DIRECTORY, ZOO_PERSISTENT, err);
		if (rc == ZOK)
			return 0;
		if (rc != ZNONODE)
			break;
		if (zk_make_root(zk, err))
			return -1;
	}
	if (err->kind == ERROR_NONE)
		zk_call_error(&zk->conn, rc, "create", path, err);
	return -1;
}

void zk_tidy_directory(struct zk_backend *zk, const char *path, const struct Stat *stat)
{
	struct error ignored = { 0 };
	struct zk_call *call;
	bool own = false;

	if (stat->ephemeralOwner || stat->dataLength != sizeof(OWN_DIRECTORY) - 1)
		return;
	call = zk_get(&zk->conn, path, 0);
	if (!zk_conn_wait(&zk->conn, &ignored) && call->rc == ZOK)
		own = !strcmp(call->text, OWN_DIRECTORY);
	zk_call_free(call);
	if (own)
		zk_remove_directory(zk, path);
}

void zk_remove_directory(struct zk_backend *zk, const char *path)
{
	struct error ignored = { 0 };
	struct zk_call *call = zk_delete(&zk->conn, path, -1);

	/* Not when somebody has just come: the server refuses that. */
	zk_conn_wait(&zk->conn, &ignored);
	zk_call_free(call);
}

/* ---- the line ---- */

/* Nodes that were given the same number: asks which was made first. */
static int ask_who_was_first(struct zk_backend *zk, const char *directory, struct zk_line *line,
			     struct error *err)
{
	struct zk_call **calls = calloc((size_t)line->count, sizeof(struct zk_call *));
	char path[ZK_PATH_SIZE];
	int failed;

	if (!calls) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	for (ptrdiff_t i = 0; i < line->count; i++) {
		zk_node(directory, line->places[i].name, path);
		calls[i] = zk_exists(&zk->conn, path, 0);
	}
	failed = zk_conn_wait(&zk->conn, err);
	for (ptrdiff_t i = 0; i < line->count; i++) {
		if (!failed && calls[i]->rc == ZOK)
			line->places[i].czxid = calls[i]->stat.czxid;
		zk_call_free(calls[i]);
	}
	free(calls);
	zk_places_sort(line->places, (size_t)line->count);
	return failed;
}

int zk_line_read(struct zk_backend *zk, const char *directory, struct zk_call *names,
		 struct zk_line *line, struct error *err)
{
	struct zk_place place;
	const char *name = names->done && names->rc == ZOK ? names->text : NULL;

	*line = (struct zk_line){ .names = names };
	if (!name)
		return 0;
	line->places = calloc(names->count + 1, sizeof(*line->places));
	line->twins = calloc(names->count + 1, sizeof(*line->twins));
	if (!line->places || !line->twins) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	for (size_t i = 0; i < names->count; i++, name += strlen(name) + 1) {
		if (!zk_place_parse(&place, name))
			continue;
		if (place.twin)
			line->twins[line->twin_count++] = place;
		else
			line->places[line->count++] = place;
	}
	if (!zk_places_sort(line->places, (size_t)line->count))
		return 0;
	return ask_who_was_first(zk, directory, line, err);
}

int zk_line_get(struct zk_backend *zk, const char *directory, uint32_t watch,
		struct zk_line *line, struct error *err)
{
	struct zk_call *call = zk_list(&zk->conn, directory, watch);

	*line = (struct zk_line){ .count = 0 };
	if (zk_conn_wait(&zk->conn, err)) {
		zk_call_free(call);
		return -1;
	}
	if (call->rc != ZOK && call->rc != ZNONODE) {
		zk_call_error(&zk->conn, call->rc, "list", directory, err);
		zk_call_free(call);
		return -1;
	}
	return zk_line_read(zk, directory, call, line, err);
}

void zk_line_finish(struct zk_line *line)
{
	zk_call_free(line->names);
	free(line->kept);
	free(line->places);
	free(line->twins);
	*line = (struct zk_line){ .count = 0 };
}

/* Copies a place with its name to the end of a list whose names stand one after the other. */
static char *keep(char *text, struct zk_place *places, ptrdiff_t *count,
		  const struct zk_place *place)
{
	places[*count] = *place;
	places[(*count)++].name = text;
	return stpcpy(text, place->name) + 1;
}

/* Those that may matter: the head, the one that place me waits for, and the last ones. */
static bool matters(const struct zk_line *line, ptrdiff_t i, ptrdiff_t me)
{
	return !i || i == zk_places_blocker(line->places, me) || i > me - ZK_LINE_KEPT;
}

static size_t size_of(const struct zk_line *line, ptrdiff_t me)
{
	size_t size = 0;

	for (ptrdiff_t i = 0; i <= me; i++) {
		const struct zk_place *twin;

		if (!matters(line, i, me))
			continue;
		twin = zk_line_twin(line, &line->places[i]);
		size += strlen(line->places[i].name) + 1 + (twin ? strlen(twin->name) + 1 : 0);
	}
	return size;
}

void zk_line_shorten(struct zk_line *line, ptrdiff_t me)
{
	struct zk_line kept = { .count = 0, .dropped = line->dropped };
	const struct zk_place *twin;
	char *text;

	if (me < 4 * ZK_LINE_KEPT || line->places[me].mode == HOLD_SLOT)
		return;
	kept.kept = text = malloc(size_of(line, me));
	kept.places = calloc(ZK_LINE_KEPT + 3, sizeof(*kept.places));
	kept.twins = calloc(ZK_LINE_KEPT + 3, sizeof(*kept.twins));
	if (!kept.kept || !kept.places || !kept.twins) {
		zk_line_finish(&kept);
		return;
	}
	for (ptrdiff_t i = 0; i <= me; i++) {
		if (!matters(line, i, me)) {
			kept.dropped++;
			continue;
		}
		twin = zk_line_twin(line, &line->places[i]);
		text = keep(text, kept.places, &kept.count, &line->places[i]);
		if (twin)
			text = keep(text, kept.twins, &kept.twin_count, twin);
	}
	zk_line_finish(line);
	*line = kept;
	/* A hundred kB, with what the library had of it; waiters should be small. */
	malloc_trim(0);
}

ptrdiff_t zk_line_find_uuid(const struct zk_line *line, const char *uuid)
{
	for (ptrdiff_t i = 0; i < line->count; i++)
		if (zk_place_has_uuid(&line->places[i], uuid))
			return i;
	return -1;
}

ptrdiff_t zk_line_find(const struct zk_line *line, const char *name)
{
	for (ptrdiff_t i = 0; i < line->count; i++)
		if (!strcmp(line->places[i].name, name))
			return i;
	return -1;
}

void zk_line_remove(struct zk_line *line, ptrdiff_t i, ptrdiff_t count)
{
	line->count -= count;
	memmove(line->places + i, line->places + i + count,
		(size_t)(line->count - i) * sizeof(*line->places));
}

const struct zk_place *zk_line_twin(const struct zk_line *line, const struct zk_place *place)
{
	char uuid[ZK_UUID_SIZE];

	/* Only names of Curator's protected form have one. */
	if (strlen(place->name) < 3 + ZK_UUID_SIZE || strncmp(place->name, "_c_", 3) != 0)
		return NULL;
	memcpy(uuid, place->name + 3, ZK_UUID_SIZE - 1);
	uuid[ZK_UUID_SIZE - 1] = '\0';
	for (ptrdiff_t i = 0; i < line->twin_count; i++)
		if (zk_place_has_uuid(&line->twins[i], uuid))
			return &line->twins[i];
	return NULL;
}

/* ---- who ---- */

void zk_describe(const struct zk_place *place, const struct zk_call *data,
		 const struct zk_state *state, struct holder *holder, int64_t *since_ms)
{
	static const char *const makers[] = {
		[ZK_CURATOR] = "Curator", [ZK_KAZOO] = "kazoo", [ZK_DLOCK] = "dlock",
	};

	*since_ms = data->rc == ZOK ? data->stat.ctime : 0;
	*holder = (struct holder){ .pid = 0 };
	if (data->rc != ZOK)
		return;
	if (state) {
		holder_decode(holder, data->text, data->length);
		if (state->since_ms)
			*since_ms = state->since_ms;
		return;
	}
	/* Curator writes its host's address by default, kazoo what its user calls itself. */
	if (data->length)
		text_clean(data->text, data->length, holder->host, sizeof(holder->host));
	snprintf(holder->command, sizeof(holder->command), "%s, session 0x%llx",
		 makers[place->maker], (unsigned long long)data->stat.ephemeralOwner);
}

/* ---- handing over ---- */

/* So many are seen to at once; readers may be many. */
#define HAND_OVER_MOST 8

struct turn {
	char paths[2][ZK_PATH_SIZE];
	struct zk_call *call;
	uint32_t watch;
	int32_t version;
	bool taken;
};

/* Has it waited, and not noticed yet that it need not any more? */
static bool is_open(struct turn *turn)
{
	struct zk_state state;

	if (turn->call->rc != ZOK)
		return false;
	zk_state_read(&state, turn->call->text, turn->call->length);
	turn->version = turn->call->stat.version;
	return state.phase == ZK_WAITING;
}

/* Those of dlock whose turn it is, and who have not taken it yet. Their number. */
static size_t open_turns(struct zk_backend *zk, const char *directory, struct zk_call *names,
			 struct turn turns[static HAND_OVER_MOST])
{
	struct error ignored = { 0 };
	const struct zk_place *twin;
	struct zk_line line;
	size_t count = 0, open = 0;
	bool failed;

	failed = zk_line_read(zk, directory, names, &line, &ignored);
	for (ptrdiff_t i = 0; !failed && i < line.count && count < HAND_OVER_MOST; i++) {
		struct turn *turn = &turns[count];

		twin = zk_line_twin(&line, &line.places[i]);
		if (!twin || zk_places_blocker(line.places, i) >= 0)
			continue;
		turn->taken = false;
		turn->watch = zk_watch_number(&zk->conn);
		zk_node(directory, line.places[i].name, turn->paths[0]);
		zk_node(directory, twin->name, turn->paths[1]);
		turn->call = zk_get(&zk->conn, turn->paths[1], turn->watch);
		count++;
	}
	zk_line_finish(&line);
	failed = zk_conn_wait(&zk->conn, &ignored);
	for (size_t i = 0; i < count; i++) {
		struct zk_call *call = turns[i].call;

		if (!failed && is_open(&turns[i]))
			turns[open++] = turns[i];
		zk_call_free(call);
	}
	return open;
}

/* Takes the places of those away who have not taken their turn; not if they just have. */
static void remove_open(struct zk_backend *zk, struct turn *turns, size_t count)
{
	struct error ignored = { 0 };

	for (size_t i = 0; i < count; i++) {
		const char *const paths[2] = { turns[i].paths[0], turns[i].paths[1] };

		turns[i].call = turns[i].taken ? NULL : zk_delete_two(&zk->conn, paths,
								       turns[i].version);
	}
	zk_conn_wait(&zk->conn, &ignored);
	for (size_t i = 0; i < count; i++)
		zk_call_free(turns[i].call);
}

/* Waits until all have taken it: 0; or some not in time; -1: it has to be looked at anew. */
static size_t await_taking(struct zk_backend *zk, struct turn *turns, size_t count,
			   int64_t until_ms)
{
	size_t left = count;
	struct zk_event event;

	while (left && clock_boot_ms() < until_ms) {
		if (!zk_conn_rest(&zk->conn, until_ms))
			continue;
		while (zk_conn_event(&zk->conn, &event)) {
			for (size_t i = 0; i < count; i++) {
				if (turns[i].watch != event.watch || turns[i].taken)
					continue;
				if (event.gone)
					return SIZE_MAX;
				turns[i].taken = true;
				left--;
			}
		}
		if (zk_conn_broken(&zk->conn))
			return SIZE_MAX;
	}
	return left;
}

void zk_hand_over(struct zk_backend *zk, const char *directory, struct zk_call *names,
		  int64_t until_ms)
{
	static struct turn turns[HAND_OVER_MOST];
	size_t count, left;

	for (;;) {
		zk_conn_begin(&zk->conn, until_ms - clock_boot_ms());
		count = open_turns(zk, directory, names, turns);
		if (!count || clock_boot_ms() + ZK_GRACE_MS > until_ms)
			return;
		left = await_taking(zk, turns, count, clock_boot_ms() + ZK_GRACE_MS);
		if (!left)
			return;
		if (left != SIZE_MAX)
			remove_open(zk, turns, count);
		names = zk_list(&zk->conn, directory, 0);
		zk_conn_wait(&zk->conn, &(struct error){ 0 });
	}
}
