/* SPDX-License-Identifier: MIT */
/* Holding by strategy queue: see zookeeper.c. What is done with a token, too. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "lease.h"
#include "zookeeper_keep.h"
#include "zookeeper_lock.h"

/* Does this object hold, by a session of its own? */
static bool is_holder(const struct zk_backend *zk)
{
	return zk->seat.phase == ZK_HELD && zk->seat.place[0];
}

static enum outcome lost(const struct zk_backend *zk, const char *what, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", zk->conn.label, what);
	return OUTCOME_LOST;
}

/* An outcome that is not known. A session that has expired took the lock along. */
static enum outcome failed(struct zk_backend *zk, struct error *err)
{
	if (err->errnum != ESTALE)
		return OUTCOME_ERROR;
	zk_seat_forget(&zk->seat);
	return lost(zk, "the session has expired", err);
}

/* ---- a token's place, whoever made it ---- */

struct found {
	bool waits;			/* it does not hold */
	char directory[ZK_PATH_SIZE];
	char paths[2][ZK_PATH_SIZE];	/* of the place and its twin */
	enum hold_mode mode;
	struct zk_state state;
	int32_t version;		/* of the twin */
	uint64_t fence;
	char text[ZK_NODE_TEXT_SIZE];	/* strategy node: what the node says */
};

static enum outcome read_found(struct zk_backend *zk, struct found *found, struct error *err)
{
	struct zk_call *place = zk_exists(&zk->conn, found->paths[0], 0);
	struct zk_call *twin = zk_get(&zk->conn, found->paths[1], 0);
	enum outcome outcome = OUTCOME_HELD;
	int rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : place->rc;

	if (rc == ZOK)
		rc = twin->rc;
	if (rc == ZNONODE) {
		outcome = OUTCOME_LOST;
	} else if (rc != ZOK) {
		if (err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "read", found->paths[1], err);
		outcome = OUTCOME_ERROR;
	} else {
		zk_state_read(&found->state, twin->text, twin->length);
		snprintf(found->text, sizeof(found->text), "%s", twin->text);
		found->version = twin->stat.version;
		found->fence = (uint64_t)place->stat.czxid;
		found->waits |= found->state.phase == ZK_WAITING;
		if (found->waits || found->state.phase > ZK_HELD)
			outcome = OUTCOME_LOST;
	}
	zk_call_free(place);
	zk_call_free(twin);
	return outcome;
}

/* The same for strategy node. */
static enum outcome find_node(struct zk_backend *zk, const char *uuid, struct found *found,
			      struct error *err)
{
	struct zk_call *data = zk_get(&zk->conn, found->directory, 0);
	int rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : data->rc;
	bool ours = zk_node_is(data, uuid);

	zk_call_free(data);
	if (rc != ZOK && rc != ZNONODE) {
		if (err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "read", found->directory, err);
		return OUTCOME_ERROR;
	}
	if (!ours)
		return OUTCOME_LOST;
	found->mode = HOLD_EXCLUSIVE;
	memcpy(found->paths[0], found->directory, ZK_PATH_SIZE);
	memcpy(found->paths[1], found->directory, ZK_PATH_SIZE);
	return read_found(zk, found, err);
}

/* HELD with *found, LOST, or ERROR. Through the leader, for others may have changed it. */
static enum outcome find(struct zk_backend *zk, const struct request *request,
			 struct found *found, struct error *err)
{
	char uuid[ZK_UUID_SIZE];
	const struct zk_place *twin = NULL;
	enum outcome outcome = OUTCOME_ERROR;
	struct zk_call *sync;
	struct zk_line line = { .count = 0 };
	ptrdiff_t i = -1;

	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return OUTCOME_ERROR;
	zk_uuid(request->token, uuid);
	zk_directory(zk, request->name, found->directory);
	found->waits = false;
	sync = zk_sync(&zk->conn, zk->root);
	if (zk->one_node) {
		outcome = find_node(zk, uuid, found, err);
		zk_call_free(sync);
		return outcome;
	}
	if (!zk_line_get(zk, found->directory, 0, &line, err)) {
		outcome = OUTCOME_LOST;
		i = zk_line_find_uuid(&line, uuid);
	}
	zk_call_free(sync);
	if (i >= 0)
		twin = zk_line_twin(&line, &line.places[i]);
	found->waits = twin && zk_places_blocker(line.places, i) >= 0;
	if (twin) {
		zk_node(found->directory, line.places[i].name, found->paths[0]);
		zk_node(found->directory, twin->name, found->paths[1]);
		found->mode = line.places[i].mode;
		outcome = read_found(zk, found, err);
	}
	zk_line_finish(&line);
	return outcome;
}

static enum outcome find_within(struct zk_backend *zk, const struct request *request,
				struct found *found, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = find(zk, request, found, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

/* BUSY if it holds in a mode that gives less than the one asked for. */
static enum outcome compare_modes(enum hold_mode held, enum hold_mode wanted)
{
	if (wanted == HOLD_ANY || held == HOLD_EXCLUSIVE || held == wanted)
		return OUTCOME_HELD;
	return OUTCOME_BUSY;
}

enum outcome zk_hold_verify(struct zk_backend *zk, const struct request *request,
			    struct error *err)
{
	struct found found;
	enum outcome outcome = find_within(zk, request, &found, err);

	if (outcome == OUTCOME_ERROR)
		return failed(zk, err);
	return outcome == OUTCOME_HELD ? compare_modes(found.mode, request->mode) : outcome;
}

/* Writes the state, unless somebody else has meanwhile. HELD, LOST, BUSY: do it again. */
static enum outcome write_state(struct zk_backend *zk, const struct found *found,
				struct error *err)
{
	char text[ZK_NODE_TEXT_SIZE];
	struct zk_call *set;
	int rc;

	if (zk->one_node)
		zk_node_text(found->text, strlen(found->text), &found->state, text);
	else
		zk_state_write(&found->state, text);
	set = zk_set(&zk->conn, found->paths[1], text, found->version);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : set->rc;
	zk_call_free(set);
	if (rc == ZOK)
		return OUTCOME_HELD;
	if (rc == ZBADVERSION)
		return OUTCOME_BUSY;
	if (rc == ZNONODE)
		return OUTCOME_LOST;
	if (err->kind == ERROR_NONE)
		zk_call_error(&zk->conn, rc, "write", found->paths[1], err);
	return OUTCOME_ERROR;
}

enum outcome zk_hold_again(struct zk_backend *zk, const struct request *request,
			   struct grant *grant, struct error *err)
{
	enum outcome outcome;
	struct found found;

	do {
		outcome = find_within(zk, request, &found, err);
		if (outcome == OUTCOME_HELD)
			outcome = compare_modes(found.mode, request->mode);
		if (outcome != OUTCOME_HELD)
			return outcome == OUTCOME_ERROR ? failed(zk, err) : outcome;
		found.state.phase = ZK_HELD;
		found.state.count++;
		outcome = write_state(zk, &found, err);
	} while (outcome == OUTCOME_BUSY);
	grant->fence = found.fence;
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	return outcome == OUTCOME_ERROR ? failed(zk, err) : outcome;
}

/* ---- the holder itself ---- */

/* The daemon tells for how long it will hold: for `dlock status`. */
static void write_until(struct zk_backend *zk, const struct request *request)
{
	struct error ignored = { 0 };
	struct found found = { .version = 0 };

	if (zk->seat.state.until_ms == request->until_ms)
		return;
	memcpy(found.paths[0], zk->seat.place, ZK_PATH_SIZE);
	memcpy(found.paths[1], zk->seat.twin, ZK_PATH_SIZE);
	if (read_found(zk, &found, &ignored) != OUTCOME_HELD)
		return;
	found.state.until_ms = request->until_ms;
	if (write_state(zk, &found, &ignored) == OUTCOME_HELD)
		zk->seat.state.until_ms = request->until_ms;
}

/*
 * Both nodes are there, says a transaction that a majority has agreed to; and the session is
 * still the one that made them.
 */
static enum outcome prove(struct zk_backend *zk, const struct request *request,
			  struct grant *grant, struct error *err)
{
	const char *const paths[2] = { zk->seat.place, zk->seat.twin };
	struct zk_call *check, *own;
	int64_t sent_ms, owner = 0;
	int rc;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err))
		return failed(zk, err);
	sent_ms = clock_boot_ms();
	check = zk_check_two(&zk->conn, paths);
	own = zk_exists(&zk->conn, zk->seat.place, zk->seat.own_watch);
	rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : check->rc;
	if (rc == ZOK)
		rc = own->rc;
	if (rc == ZOK)
		owner = own->stat.ephemeralOwner;
	zk_call_free(check);
	zk_call_free(own);
	if (rc == ZNONODE)
		return lost(zk, "its node was removed", err);
	if (rc == ZOK && owner != zk_conn_session(&zk->conn))
		return lost(zk, "its node belongs to another session", err);
	if (rc == ZSESSIONEXPIRED)
		return lost(zk, "the session has expired", err);
	if (rc != ZOK) {
		if (err->kind == ERROR_NONE)
			zk_call_error(&zk->conn, rc, "renew", zk->seat.place, err);
		return OUTCOME_ERROR;
	}
	zk_grant(zk, sent_ms, grant);
	write_until(zk, request);
	return OUTCOME_HELD;
}

/* Only the process with the session can extend it. */
static enum outcome renew_for_other(struct zk_backend *zk, const struct request *request,
				    struct grant *grant, struct error *err)
{
	struct found found;
	enum outcome outcome = find_within(zk, request, &found, err);

	if (outcome == OUTCOME_HELD && found.state.until_ms) {
		error_set(err, ERROR_REFUSED, 0, "%s: only the keeper that 'dlock acquire' left "
			  "behind can renew it, and here it does not answer", zk->conn.label);
		return OUTCOME_ERROR;
	}
	/* Without an end of its own, it is held for as long as its process lives. */
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	return outcome == OUTCOME_ERROR ? failed(zk, err) : outcome;
}

enum outcome zk_hold_renew(struct zk_backend *zk, const struct request *request,
			   struct grant *grant, struct error *err)
{
	enum outcome outcome;
	int64_t limit_ms = zk->base.timeout_ms;

	if (!is_holder(zk))
		return renew_for_other(zk, request, grant, err);
	/* A server that hangs must leave time to ask another one. */
	limit_ms = clock_earlier(limit_ms, zk->conn.ttl_ms / 3);
	zk_conn_begin(&zk->conn, limit_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = prove(zk, request, grant, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err));
	return outcome;
}

/* ---- releasing ---- */

/* true: it was acquired more than once, and has one acquisition less now. */
static enum outcome count_down(struct zk_backend *zk, struct found *found, struct error *err)
{
	found->state.count--;
	return write_state(zk, found, err);
}

/* Takes the place away. *removing: it may have been before, and the answer was lost. */
static enum outcome remove_place(struct zk_backend *zk, const struct found *found,
				 bool *removing, struct error *err)
{
	const char *const paths[2] = { found->paths[0], found->paths[1] };
	struct zk_call *removed = zk->one_node
		? zk_delete(&zk->conn, paths[0], found->version)
		: zk_delete_two(&zk->conn, paths, -1);
	struct zk_call *names = zk_list(&zk->conn, found->directory, 0);
	int rc = zk_conn_wait(&zk->conn, err) ? ZOPERATIONTIMEOUT : removed->rc;
	bool before = *removing;

	*removing |= rc != ZOK && rc != ZNONODE;
	zk_call_free(removed);
	if (rc != ZOK && rc != ZNONODE) {
		zk_call_free(names);
	} else if (names->rc == ZOK && !names->count) {
		zk_tidy_directory(zk, found->directory, &names->stat);
		zk_call_free(names);
	} else {
		/* For as long as the supervisor waits for the end of this. */
		zk_hand_over(zk, found->directory, names,
			     clock_boot_ms() + 2 * zk->base.timeout_ms);
	}
	if (rc == ZOK || (rc == ZNONODE && before))
		return OUTCOME_HELD;
	if (rc == ZNONODE)
		return lost(zk, "its node was removed", err);
	if (err->kind == ERROR_NONE)
		zk_call_error(&zk->conn, rc, "remove", found->paths[0], err);
	return OUTCOME_ERROR;
}

void zk_hold_end(struct zk_backend *zk)
{
	struct error ignored = { 0 };
	struct found found;
	bool removing = false;

	memcpy(found.directory, zk->seat.directory, ZK_PATH_SIZE);
	memcpy(found.paths[0], zk->seat.place, ZK_PATH_SIZE);
	memcpy(found.paths[1], zk->seat.twin, ZK_PATH_SIZE);
	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	if (!zk_conn_open(&zk->conn, zk->conn.asked_ms, &ignored) && !zk->one_node)
		remove_place(zk, &found, &removing, &ignored);
	zk_conn_close(&zk->conn);
}

/* The holder's own way: it knows where its place is. */
static enum outcome release_own(struct zk_backend *zk, const struct request *request,
				enum release how, int64_t keep_ms, struct error *err)
{
	struct zk_seat *seat = &zk->seat;
	struct found found;
	enum outcome outcome;

	if (zk_conn_open(&zk->conn, request->ttl_ms, err))
		return failed(zk, err);
	found.waits = false;
	memcpy(found.directory, seat->directory, ZK_PATH_SIZE);
	memcpy(found.paths[0], seat->place, ZK_PATH_SIZE);
	memcpy(found.paths[1], seat->twin, ZK_PATH_SIZE);
	if (how == RELEASE_ONE || keep_ms > 0 || zk->one_node) {
		outcome = read_found(zk, &found, err);
		if (outcome == OUTCOME_LOST)
			return lost(zk, "its node was removed", err);
		if (outcome != OUTCOME_HELD)
			return outcome;
	}
	if (how == RELEASE_ONE && found.state.count > 1) {
		outcome = count_down(zk, &found, err);
		return outcome == OUTCOME_HELD ? OUTCOME_BUSY : outcome;
	}
	if (keep_ms > 0) {
		found.state.phase = ZK_KEPT;
		found.state.until_ms = clock_wall_ms() + keep_ms;
		outcome = write_state(zk, &found, err);
		if (outcome == OUTCOME_HELD && zk_keep(zk, keep_ms, err))
			return OUTCOME_ERROR;
		return outcome;
	}
	/* Not by its path: another one's may be there by now. This ends with the session. */
	if (zk->one_node)
		return OUTCOME_HELD;
	return remove_place(zk, &found, &seat->removing, err);
}

static enum outcome release_other(struct zk_backend *zk, const struct request *request,
				  enum release how, bool *removing, struct error *err)
{
	struct found found;
	enum outcome outcome = find(zk, request, &found, err);

	/* The place in line that a keeper left which was killed. */
	if (outcome == OUTCOME_LOST && found.waits && how == RELEASE_ALL) {
		outcome = remove_place(zk, &found, removing, err);
		return outcome == OUTCOME_ERROR ? outcome : OUTCOME_LOST;
	}
	if (outcome != OUTCOME_HELD)
		return outcome == OUTCOME_LOST && *removing ? OUTCOME_HELD : outcome;
	if (how == RELEASE_ONE && found.state.count > 1) {
		outcome = count_down(zk, &found, err);
		return outcome == OUTCOME_HELD ? OUTCOME_BUSY : outcome;
	}
	return remove_place(zk, &found, removing, err);
}

enum outcome zk_hold_release(struct zk_backend *zk, const struct request *request,
			     enum release how, int64_t keep_ms, struct error *err)
{
	const bool holder = is_holder(zk);
	enum outcome outcome = OUTCOME_LOST;
	bool removing = false;

	zk_conn_begin(&zk->conn, zk->base.timeout_ms);
	/* A place in line, or one that may be there, goes with the session. */
	if (!holder && (zk->seat.place[0] || zk->seat.maybe)) {
		*err = (struct error){ .kind = ERROR_NONE };
		zk_conn_open(&zk->conn, request->ttl_ms, err);
		zk_seat_leave(zk);
		return OUTCOME_LOST;
	}
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = holder ? release_own(zk, request, how, keep_ms, err)
				 : release_other(zk, request, how, &removing, err);
		if (outcome == OUTCOME_BUSY && how == RELEASE_ONE)
			return outcome;
	} while ((outcome == OUTCOME_ERROR && zk_conn_again(&zk->conn, err)) ||
		 outcome == OUTCOME_BUSY);
	if (outcome == OUTCOME_ERROR)
		return outcome;
	if (request->forget)
		zk_remove_directory(zk, zk->seat.directory);
	/* What is kept is another process's now. */
	if (outcome == OUTCOME_HELD && holder && keep_ms > 0)
		zk_conn_abandon(&zk->conn);
	zk_seat_leave(zk);
	return outcome;
}
