/* SPDX-License-Identifier: MIT */
#include "token.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "directory.h"
#include "lock.h"
#include "path.h"

enum outcome zk_lost(const struct zk_backend *zk, const char *what, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", zk->conn.label, what);
	return OUTCOME_LOST;
}

enum outcome zk_find_again(struct zk_backend *zk, struct zk_found *found, struct error *err)
{
	struct zk_call *place = zk_exists(&zk->conn, found->at.place, 0);
	struct zk_call *twin = zk_get(&zk->conn, found->at.twin, 0);
	enum outcome outcome = OUTCOME_LOST;
	int rc = zk_call_wait(place);

	if (rc == ZOK)
		rc = twin->rc;
	if (rc == ZOK) {
		zk_call_state(twin, &found->state);
		snprintf(found->text, sizeof(found->text), "%s", twin->text);
		found->owner = twin->stat.ephemeralOwner;
		found->version = twin->stat.version;
		found->fence = (uint64_t)place->stat.czxid;
		found->waits |= found->state.phase == ZK_WAITING;
		if (!found->waits && found->state.phase <= ZK_HELD)
			outcome = OUTCOME_HELD;
	} else if (rc != ZNONODE) {
		zk_call_error(&zk->conn, rc, "read", found->at.twin, err);
		outcome = OUTCOME_ERROR;
	}
	zk_call_free(place);
	zk_call_free(twin);
	return outcome;
}

static enum outcome find_node(struct zk_backend *zk, const char *uuid, struct zk_found *found,
			      struct error *err)
{
	enum outcome outcome;

	memcpy(found->at.place, found->directory, ZK_PATH_SIZE);
	memcpy(found->at.twin, found->directory, ZK_PATH_SIZE);
	found->mode = HOLD_EXCLUSIVE;
	found->slots = 0;
	outcome = zk_find_again(zk, found, err);
	if (outcome == OUTCOME_ERROR || (found->owner && zk_node_is(found->text, uuid)))
		return outcome;
	found->owner = 0;
	found->waits = false;
	return OUTCOME_LOST;
}

static enum outcome find_place(struct zk_backend *zk, const char *uuid, struct zk_found *found,
			       struct error *err)
{
	enum outcome outcome = OUTCOME_LOST;
	struct zk_line line;
	ptrdiff_t i;

	if (zk_line_get(&zk->conn, found->directory, 0, &line, err))
		return OUTCOME_ERROR;
	i = zk_line_find_uuid(&line, uuid);
	if (i >= 0 && zk_line_pair(&line, i, found->directory, &found->at)) {
		found->waits = zk_places_blocker(line.places, i) >= 0;
		found->mode = line.places[i].mode;
		found->slots = line.places[i].slots;
		outcome = zk_find_again(zk, found, err);
	}
	zk_line_finish(&line);
	return outcome;
}

enum outcome zk_find_uuid(struct zk_backend *zk, const char *uuid, struct zk_found *found,
			  struct error *err)
{
	/* Answered before what is sent after it: the server hears of all that the leader knows. */
	struct zk_call *sync = zk_sync(&zk->conn, zk->root);
	enum outcome outcome;

	found->owner = 0;
	found->waits = false;
	outcome = zk->one_node ? find_node(zk, uuid, found, err)
			       : find_place(zk, uuid, found, err);
	if (outcome != OUTCOME_ERROR && sync->rc != ZOK) {
		zk_call_error(&zk->conn, sync->rc, "sync", zk->root, err);
		outcome = OUTCOME_ERROR;
	}
	zk_call_free(sync);
	return outcome;
}

enum outcome zk_find(struct zk_backend *zk, const struct request *request,
		     struct zk_found *found, struct error *err)
{
	char uuid[ZK_UUID_SIZE];

	if (zk_conn_open(&zk->conn, ZK_ASKING_MS, err))
		return OUTCOME_ERROR;
	zk_uuid(request->token, uuid);
	zk_directory(zk, request->name, found->directory);
	return zk_find_uuid(zk, uuid, found, err);
}

enum outcome zk_write_state(struct zk_backend *zk, const struct zk_found *found,
			    struct error *err)
{
	char text[ZK_NODE_SIZE];
	int rc;

	if (zk->one_node)
		zk_node_rewrite(found->text, &found->state, text);
	else
		zk_state_write(&found->state, text);
	rc = zk_call_end(zk_set(&zk->conn, found->at.twin, text, found->version));
	if (rc == ZOK)
		return OUTCOME_HELD;
	if (rc == ZBADVERSION)
		return OUTCOME_BUSY;
	if (rc == ZNONODE)
		return OUTCOME_LOST;
	zk_call_error(&zk->conn, rc, "write", found->at.twin, err);
	return OUTCOME_ERROR;
}
