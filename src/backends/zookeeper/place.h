/* SPDX-License-Identifier: MIT */
/*
 * Places in the line for a lock: what the names of nodes say, in which order the places are, and
 * which place waits for which. No I/O.
 *
 *	_c_UUID-lock-N			exclusive: Curator's InterProcessMutex, and dlock
 *	_c_UUID-__READ__N		shared: Curator's read lock, and dlock
 *	_c_UUID-__WRIT__N		exclusive: Curator's write lock
 *	_c_UUID-slots-S-lock-N		dlock: one of S at once; others are excluded
 *	UUID__lock__N, UUID__rlock__N	kazoo: exclusive, shared
 *
 * Curator's mutex sorts by what follows the last "lock-" and ignores all other names; its
 * read/write lock sorts by what follows __READ__ or __WRIT__. Both kinds must see every place of
 * dlock. So each of these has a twin under a name for the other kind, made in the same
 * transaction and so next to it in the order. dlock itself ignores twins when it looks for the
 * order, and keeps the state of the place in their data (state.h):
 *
 *	_c_UUID-dlock-__WRIT__N		twin of an exclusive place or a slot
 *	_c_UUID-dlock-lock-N		twin of a shared place
 *
 * N is "%010d" of a 32-bit number that may go below 0, so numbers are compared as serial numbers.
 * A server that has reached the highest number may give it again and again: then the
 * transactions that made the nodes (czxid) are compared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/backend.h"
#include "path.h"

enum zk_maker { ZK_CURATOR, ZK_KAZOO, ZK_DLOCK };

struct zk_place {
	const char *name;	/* of the node */
	int32_t number;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT */
	bool twin;
	/* By the name alone; a name that both dlock and Curator write counts as Curator's */
	enum zk_maker maker;
	int64_t czxid;		/* 0: not asked for */
};

/* Reads the name of a node into *place, which keeps the pointer. false: no place. */
bool zk_place_parse(struct zk_place *place, const char *name);

/* The uuid in the name of a place or a twin, which goes on behind it; NULL: it has none. */
const char *zk_place_uuid(const struct zk_place *place);

/* Is that this uuid? */
bool zk_place_has_uuid(const struct zk_place *place, const char *uuid);

#define ZK_PREFIX_SIZE 80

/* Writes the name, without its number, of a place or its twin. */
void zk_place_name(enum hold_mode mode, int slots, const char *uuid, bool twin,
		   char name[static ZK_PREFIX_SIZE]);

/* Below 0 when a comes before b, in the serial arithmetic of RFC 1982. */
int32_t zk_number_compare(int32_t a, int32_t b);

/* Puts places, which are no twins, into their order. true: some have the same number. */
bool zk_places_sort(struct zk_place *places, size_t count);

/*
 * The place that keeps place i from holding, the nearest one of those; -1: none does.
 * Places are in their order.
 */
ptrdiff_t zk_places_blocker(const struct zk_place *places, ptrdiff_t i);

/*
 * A slot waits for any one of all slots before it to end, not for its predecessor alone: true
 * if that is so for place i, which has a blocker, and is the first or second waiter.
 */
bool zk_places_any(const struct zk_place *places, ptrdiff_t i);

/* How many of the places before place i do not hold. */
int64_t zk_places_ahead(const struct zk_place *places, ptrdiff_t i);

/* The number of slots of a slot before place i, if i is a slot with another number; else 0. */
int zk_places_disagree(const struct zk_place *places, ptrdiff_t i);
