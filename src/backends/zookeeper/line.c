/* SPDX-License-Identifier: MIT */
#include "line.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "lock/holder.h"
#include "conn.h"
#include "state.h"

void zk_node(const char *directory, const char *name, char path[static ZK_PATH_SIZE])
{
	/* Names of others may have any length; what has no room here is no path at all. */
	if (snprintf(path, ZK_PATH_SIZE, *name ? "%s/%s" : "%s%s", directory, name) >=
	    ZK_PATH_SIZE)
		path[0] = '\0';
}

/* ---- reading ---- */

/* Some nodes were given the same number: asks the server which was made first. */
static int ask_who_was_first(struct zk_conn *conn, const char *directory, struct zk_line *line,
			     struct error *err)
{
	struct zk_call **calls = memory_new((size_t)line->count, sizeof(*calls));
	char path[ZK_PATH_SIZE];
	int failed;

	for (ptrdiff_t i = 0; i < line->count; i++) {
		zk_node(directory, line->places[i].name, path);
		calls[i] = zk_exists(conn, path, 0);
	}
	failed = zk_conn_wait(conn);
	for (ptrdiff_t i = 0; i < line->count; i++) {
		if (!failed && calls[i]->rc == ZOK)
			line->places[i].czxid = calls[i]->stat.czxid;
		zk_call_free(calls[i]);
	}
	free(calls);
	zk_places_sort(line->places, (size_t)line->count);
	return failed ? zk_call_error(conn, failed, "list", directory, err) : 0;
}

int zk_line_read(struct zk_conn *conn, const char *directory, struct zk_call *names,
		 struct zk_line *line, struct error *err)
{
	struct zk_place place;
	const char *name = names->done && names->rc == ZOK ? names->text : NULL;

	*line = (struct zk_line){ .names = names };
	if (!name)
		return 0;
	line->places = memory_new(names->count, sizeof(*line->places));
	line->twins = memory_new(names->count, sizeof(*line->twins));
	for (size_t i = 0; i < names->count; i++, name += strlen(name) + 1) {
		if (!zk_place_parse(&place, name))
			continue;
		if (place.twin)
			line->twins[line->twin_count++] = place;
		else
			line->places[line->count++] = place;
	}
	if (!zk_places_sort(line->places, (size_t)line->count) ||
	    !ask_who_was_first(conn, directory, line, err))
		return 0;
	zk_line_finish(line);
	return -1;
}

int zk_line_get(struct zk_conn *conn, const char *directory, uint32_t watch,
		struct zk_line *line, struct error *err)
{
	struct zk_call *call = zk_list(conn, directory, watch);
	int rc = zk_call_wait(call);

	*line = (struct zk_line){ .count = 0 };
	if (rc == ZOK || rc == ZNONODE)
		return zk_line_read(conn, directory, call, line, err);
	zk_call_free(call);
	return zk_call_error(conn, rc, "list", directory, err);
}

void zk_line_finish(struct zk_line *line)
{
	zk_call_free(line->names);
	free(line->kept);
	free(line->places);
	free(line->twins);
	*line = (struct zk_line){ .count = 0 };
}

/* ---- shortening ---- */

/* Copies a place with its name to the end of a list whose names stand one after the other. */
static char *keep(char *text, struct zk_place *places, ptrdiff_t *count,
		  const struct zk_place *place)
{
	places[*count] = *place;
	places[(*count)++].name = text;
	return stpcpy(text, place->name) + 1;
}

static bool matters(const struct zk_line *line, ptrdiff_t i, ptrdiff_t me)
{
	return !i || i == zk_places_blocker(line->places, me) || i > me - ZK_LINE_KEPT;
}

/* Bytes for the names of all places that matter. */
static size_t size_of(const struct zk_line *line, ptrdiff_t me)
{
	size_t size = 0;

	for (ptrdiff_t i = 0; i <= me; i++) {
		const struct zk_place *twin;

		if (!matters(line, i, me))
			continue;
		twin = zk_line_twin(line, i);
		size += strlen(line->places[i].name) + 1 + (twin ? strlen(twin->name) + 1 : 0);
	}
	return size;
}

void zk_line_shorten(struct zk_line *line, ptrdiff_t me)
{
	const size_t most = ZK_LINE_KEPT + 2;	/* the head and the one that it waits for */
	struct zk_line kept = { .count = 0, .dropped = line->dropped };
	const struct zk_place *twin;
	char *text;

	if (me < 4 * ZK_LINE_KEPT || line->places[me].mode == HOLD_SLOT)
		return;
	kept.kept = text = memory_new(size_of(line, me), 1);
	kept.places = memory_new(most, sizeof(*kept.places));
	kept.twins = memory_new(most, sizeof(*kept.twins));
	for (ptrdiff_t i = 0; i <= me; i++) {
		if (!matters(line, i, me)) {
			kept.dropped++;
			continue;
		}
		text = keep(text, kept.places, &kept.count, &line->places[i]);
		twin = zk_line_twin(line, i);
		if (twin)
			text = keep(text, kept.twins, &kept.twin_count, twin);
	}
	zk_line_finish(line);
	*line = kept;
	/* Gives back about 100 kB, with what the library had of the line: a waiter stays small. */
	malloc_trim(0);
}

/* ---- places ---- */

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

const struct zk_place *zk_line_twin(const struct zk_line *line, ptrdiff_t i)
{
	const char *uuid = zk_place_uuid(&line->places[i]);

	for (ptrdiff_t k = 0; uuid && k < line->twin_count; k++)
		if (zk_place_has_uuid(&line->twins[k], uuid))
			return &line->twins[k];
	return NULL;
}

bool zk_line_pair(const struct zk_line *line, ptrdiff_t i, const char *directory,
		  struct zk_pair *pair)
{
	const struct zk_place *twin = zk_line_twin(line, i);

	if (!twin)
		return false;
	zk_node(directory, line->places[i].name, pair->place);
	zk_node(directory, twin->name, pair->twin);
	return true;
}

/* ---- what is shown ---- */

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
	if (state && state->phase != ZK_UNKNOWN) {
		holder_decode(holder, data->text, data->length);
		if (state->since_ms)
			*since_ms = state->since_ms;
		if (state->phase == ZK_KEPT) {
			holder->kept_ms = state->until_ms;
			holder->min_ms = state->min_ms;
		}
		return;
	}
	/* Curator writes its host's address by default, kazoo the name that its user chose. */
	if (data->length)
		text_clean(data->text, data->length, holder->host, sizeof(holder->host));
	snprintf(holder->command, sizeof(holder->command), "%s, session 0x%llx",
		 makers[place->maker], (unsigned long long)data->stat.ephemeralOwner);
}

int64_t zk_age_ms(int64_t since_ms)
{
	int64_t age_ms = clock_wall_ms() - since_ms;

	if (!since_ms)
		return -1;
	return age_ms < 0 ? 0 : age_ms;
}
