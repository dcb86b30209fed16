/* SPDX-License-Identifier: MIT */
/* What is done with a token, by whichever process has it: see backend.c. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock.h"

enum outcome zk_lost(const struct zk_backend *zk, const char *what, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", zk->conn.label, what);
	return OUTCOME_LOST;
}

/* ---- a token's place, whoever made it ---- */

enum outcome zk_find_again(struct zk_backend *zk, struct zk_found *found, struct error *err)
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
static enum outcome find_node(struct zk_backend *zk, const char *uuid, struct zk_found *found,
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
	found->slots = 0;
	memcpy(found->paths[0], found->directory, ZK_PATH_SIZE);
	memcpy(found->paths[1], found->directory, ZK_PATH_SIZE);
	return zk_find_again(zk, found, err);
}

enum outcome zk_find(struct zk_backend *zk, const struct request *request,
		     struct zk_found *found, struct error *err)
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
		if (sync->rc != ZOK)
			zk_call_error(&zk->conn, sync->rc, "sync", zk->root, err);
		else
			outcome = OUTCOME_LOST;
		if (sync->rc == ZOK)
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
		found->slots = line.places[i].slots;
		outcome = zk_find_again(zk, found, err);
	}
	zk_line_finish(&line);
	return outcome;
}

static enum outcome find_within(struct zk_backend *zk, const struct request *request,
				struct zk_found *found, struct error *err)
{
	enum outcome outcome;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = zk_find(zk, request, found, err);
	} while (outcome == OUTCOME_ERROR && zk_conn_ask_again(&zk->conn, err));
	return outcome;
}

enum outcome zk_hold_verify(struct zk_backend *zk, const struct request *request,
			    struct error *err)
{
	struct zk_found found;
	struct grant ignored;
	enum outcome outcome;

	/* Who holds it asks as for a renewal. */
	if (zk_is_holder(zk))
		return zk_hold_renew(zk, request, &ignored, err);
	outcome = find_within(zk, request, &found, err);
	return outcome == OUTCOME_HELD ? hold_mode_covers(found.mode, found.slots, request, err)
				       : outcome;
}

enum outcome zk_write_state(struct zk_backend *zk, const struct zk_found *found,
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

enum outcome zk_count(struct zk_backend *zk, const struct request *request, int by,
		      struct zk_found *found, struct error *err)
{
	enum outcome outcome;
	int64_t wanted = 0;
	int32_t version = 0;

	found->counted = false;
	do {
		*err = (struct error){ .kind = ERROR_NONE };
		outcome = zk_find(zk, request, found, err);
		if (outcome == OUTCOME_HELD)
			outcome = hold_mode_covers(found->mode, found->slots, request, err);
		if (outcome == OUTCOME_LOST || outcome == OUTCOME_BUSY)
			return outcome;
		if (outcome == OUTCOME_ERROR)
			continue;
		/* Written already, only the answer was lost. */
		found->counted = wanted && found->state.count == wanted &&
				 found->version == version;
		if (found->counted || found->state.count + by < 1)
			return OUTCOME_HELD;
		wanted = found->state.count += by;
		version = found->version + 1;
		found->state.phase = ZK_HELD;
		outcome = zk_write_state(zk, found, err);
	} while (outcome == OUTCOME_BUSY ||
		 (outcome == OUTCOME_ERROR && zk_conn_ask_again(&zk->conn, err)));
	found->counted = outcome == OUTCOME_HELD;
	return outcome;
}

enum outcome zk_hold_again(struct zk_backend *zk, const struct request *request,
			   struct grant *grant, struct error *err)
{
	enum outcome outcome;
	struct zk_found found;

	zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms);
	outcome = zk_count(zk, request, 1, &found, err);
	grant->fence = found.fence;
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	return outcome;
}

/* Only the process with the session can extend it. */
enum outcome zk_renew_other(struct zk_backend *zk, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct zk_found found;
	enum outcome outcome = find_within(zk, request, &found, err);

	if (outcome == OUTCOME_HELD && found.state.until_ms) {
		error_set(err, ERROR_REFUSED, 0, "%s: only the keeper that 'dlock acquire' left "
			  "behind can renew it, and here it does not answer", zk->conn.label);
		return OUTCOME_ERROR;
	}
	/* Without an end of its own, it is held for as long as its process lives. */
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = 0;
	return outcome;
}
