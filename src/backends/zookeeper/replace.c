/* SPDX-License-Identifier: MIT */
#include "replace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "directory.h"
#include "lock.h"

/* How often others may write to the directory, or change their twins, at the same moment. */
#define TRIES 50

/* ---- the data of the directory ---- */

/* "newest=CZXID&host=…", as holder_encode() writes it, behind the mark of zk_tidy_directory(). */
#define NEWEST_SIZE (HOLDER_TEXT_SIZE + 64)

struct newest {
	int64_t czxid;			/* of the place of the last waiter that came; 0: none */
	struct holder holder;
	int32_t version;		/* of the data */
	bool own_directory;		/* the data has the mark */
	bool foreign;			/* the data is another program's */
};

static void parse(const struct zk_call *data, struct newest *newest)
{
	const char *rest = data->text;
	struct text_pair pair;

	*newest = (struct newest){ .version = data->stat.version };
	newest->own_directory = zk_is_own_directory(data);
	newest->foreign = data->length && !newest->own_directory &&
			  strncmp(data->text, "newest=", strlen("newest=")) != 0;
	while (text_next_pair(&rest, data->text + data->length, &pair))
		if (pair.key_length == strlen("newest") && !memcmp(pair.key, "newest", 6))
			text_number(pair.value, pair.length, &newest->czxid);
	/* What is newer than the note of it is from before the server lost its data. */
	if (newest->czxid > data->stat.mzxid)
		newest->czxid = 0;
	holder_decode(&newest->holder, data->text, data->length);
}

/* Asks the leader. 0, or -1 with *err. */
static int read_newest(struct zk_backend *zk, const char *directory, struct newest *newest,
		       struct error *err)
{
	struct zk_call *sync = zk_sync(&zk->conn, zk->root);
	struct zk_call *data = zk_get(&zk->conn, directory, 0);
	const int rc = zk_call_wait(data);

	*newest = (struct newest){ .czxid = 0 };
	if (rc == ZOK)
		parse(data, newest);
	zk_call_free(sync);
	zk_call_free(data);
	return rc == ZOK || rc == ZNONODE ? 0 : zk_call_error(&zk->conn, rc, "read", directory,
							      err);
}

static enum outcome judge(const struct zk_backend *zk, const struct newest *newest,
			  struct grant *grant)
{
	if (newest->czxid <= zk->arrived)
		return OUTCOME_HELD;
	grant->replaced = true;
	grant->holder = newest->holder;
	return OUTCOME_LOST;
}

void zk_replace_arrived(struct zk_backend *zk, uint64_t czxid)
{
	const int64_t number = (int64_t)czxid;

	if (number && (!zk->arrived || number < zk->arrived))
		zk->arrived = number;
}

enum outcome zk_replace_check(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err)
{
	char directory[ZK_PATH_SIZE];
	struct newest newest;

	zk_directory(zk, request->name, directory);
	return read_newest(zk, directory, &newest, err) ? OUTCOME_ERROR
							: judge(zk, &newest, grant);
}

/* Writes that this waiter is the newest one, unless that is known. As zk_replace_waiters(). */
static enum outcome note_newest(struct zk_backend *zk, const struct request *request,
				struct grant *grant, struct error *err)
{
	const char *directory = zk->seat.directory;
	char who[HOLDER_TEXT_SIZE], text[NEWEST_SIZE];
	enum outcome outcome;
	struct newest newest;
	int rc = ZBADVERSION;

	holder_encode(&request->self, who);
	for (int tries = 0; rc == ZBADVERSION && tries < TRIES; tries++) {
		if (read_newest(zk, directory, &newest, err))
			return OUTCOME_ERROR;
		outcome = judge(zk, &newest, grant);
		if (outcome != OUTCOME_HELD || newest.czxid == zk->arrived)
			return outcome;
		if (newest.foreign) {
			error_set(err, ERROR_REFUSED, 0, "%s: %.200s has data of another program, "
				  "which --replace-waiters would overwrite", zk->conn.label,
				  directory);
			return OUTCOME_ERROR;
		}
		snprintf(text, sizeof(text), "%snewest=%" PRId64 "&%s",
			 newest.own_directory ? ZK_OWN_DIRECTORY "&" : "", zk->arrived, who);
		rc = zk_call_end(zk_set(&zk->conn, directory, text, newest.version));
	}
	if (rc == ZOK)
		return OUTCOME_HELD;
	zk_call_error(&zk->conn, rc, "write to", directory, err);
	return OUTCOME_ERROR;
}

/* ---- those before it ---- */

struct rival {
	struct zk_pair at;
	struct zk_call *place;
	struct zk_call *twin;
	struct zk_call *removed;
};

/* Did it come with the option, and does it wait? */
static bool is_rival(const struct rival *rival)
{
	struct zk_state state;
	struct holder holder;

	return rival->place->rc == ZOK && zk_call_state(rival->twin, &state) &&
	       state.phase == ZK_WAITING &&
	       !holder_decode(&holder, rival->place->text, rival->place->length) &&
	       holder.queueing.replace;
}

static void ask(struct zk_backend *zk, const struct zk_line *line, ptrdiff_t count,
		struct rival *rivals)
{
	for (ptrdiff_t i = 0; i < count; i++) {
		if (!zk_line_pair(line, i, zk->seat.directory, &rivals[i].at))
			continue;
		rivals[i].place = zk_get(&zk->conn, rivals[i].at.place, 0);
		rivals[i].twin = zk_get(&zk->conn, rivals[i].at.twin, 0);
	}
}

/*
 * Removes the rivals, of which one that is taking its turn at this moment has a new version of its
 * twin. A result of a request, or ZBADVERSION: look again.
 */
static int remove_rivals(struct zk_backend *zk, struct rival *rivals, ptrdiff_t count)
{
	int rc, result = ZOK;

	for (ptrdiff_t i = 0; i < count; i++)
		if (rivals[i].place && is_rival(&rivals[i]))
			rivals[i].removed = zk_delete_two(&zk->conn, &rivals[i].at,
							  rivals[i].twin->stat.version);
	rc = zk_conn_wait(&zk->conn);
	if (rc)
		return rc;
	for (ptrdiff_t i = 0; i < count; i++) {
		rc = rivals[i].removed ? rivals[i].removed->rc : ZOK;
		if (rc != ZOK && rc != ZNONODE && result == ZOK)
			result = rc;
	}
	return result;
}

static void rivals_free(struct rival *rivals, ptrdiff_t count)
{
	for (ptrdiff_t i = 0; i < count; i++) {
		zk_call_free(rivals[i].place);
		zk_call_free(rivals[i].twin);
		zk_call_free(rivals[i].removed);
	}
	free(rivals);
}

/* One look at the line. A result of a request: ZBADVERSION, look again. */
static int send_away(struct zk_backend *zk, const struct zk_line *line)
{
	const char *own = strrchr(zk->seat.at.place, '/') + 1;
	ptrdiff_t count = zk_line_find(line, own);
	struct rival *rivals;
	int rc;

	if (count <= 0)
		return ZOK;
	rivals = memory_new((size_t)count, sizeof(*rivals));
	ask(zk, line, count, rivals);
	rc = zk_conn_wait(&zk->conn);
	if (!rc)
		rc = remove_rivals(zk, rivals, count);
	rivals_free(rivals, count);
	return rc;
}

enum outcome zk_replace_waiters(struct zk_backend *zk, const struct request *request,
				struct grant *grant, struct error *err)
{
	enum outcome outcome = note_newest(zk, request, grant, err);
	int rc = ZBADVERSION;
	struct zk_line line;

	if (outcome != OUTCOME_HELD)
		return outcome;
	for (int tries = 0; rc == ZBADVERSION && tries < TRIES; tries++) {
		if (zk_line_get(&zk->conn, zk->seat.directory, 0, &line, err))
			return OUTCOME_ERROR;
		rc = send_away(zk, &line);
		zk_line_finish(&line);
	}
	if (rc == ZOK)
		return OUTCOME_HELD;
	zk_call_error(&zk->conn, rc, "remove the waiters before", zk->seat.at.place, err);
	return OUTCOME_ERROR;
}
