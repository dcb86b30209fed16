/* SPDX-License-Identifier: MIT */
/*
 * Finds the hold of a token, whichever process has made the hold. verify and release use it when
 * their own object does not hold the lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/backend.h"
#include "call.h"
#include "state.h"

struct zk_backend;

struct zk_found {
	char directory[ZK_PATH_SIZE];
	struct zk_pair at;
	int64_t owner;			/* session that made the twin; 0: there is none */
	bool waits;			/* the place is in line and does not hold */
	enum hold_mode mode;
	int slots;			/* HOLD_SLOT */
	struct zk_state state;
	int32_t version;		/* of the twin */
	uint64_t fence;
	char text[ZK_NODE_SIZE];	/* of the twin */
};

/* HELD with *found; LOST, perhaps with found->waits; ERROR. Asks the leader. */
enum outcome zk_find(struct zk_backend *zk, const struct request *request,
		     struct zk_found *found, struct error *err);
/* The same in the session that is open, by uuid and found->directory. */
enum outcome zk_find_uuid(struct zk_backend *zk, const char *uuid, struct zk_found *found,
			  struct error *err);
/* The same by found->at, of any server. */
enum outcome zk_find_again(struct zk_backend *zk, struct zk_found *found, struct error *err);

/* Writes found->state, unless somebody else has meanwhile. HELD; LOST; BUSY: find it again. */
enum outcome zk_write_state(struct zk_backend *zk, const struct zk_found *found,
			    struct error *err);

/* Fills *err with what is there instead of the hold. */
enum outcome zk_lost(const struct zk_backend *zk, const char *what, struct error *err);
