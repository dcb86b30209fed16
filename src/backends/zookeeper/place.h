/* SPDX-License-Identifier: MIT */
/*
 * Places in the line for a lock: what the names of nodes say, in which order they are, and
 * who waits for whom. No I/O.
 *
 *	_c_UUID-lock-N			exclusive: Curator's InterProcessMutex, and dlock
 *	_c_UUID-__READ__N		shared: Curator's read lock, and dlock
 *	_c_UUID-__WRIT__N		exclusive: Curator's write lock
 *	_c_UUID-slots-S-lock-N		dlock: one of S at once; others are excluded
 *	UUID__lock__N, UUID__rlock__N	kazoo: exclusive, shared
 *
 * Curator's mutex sorts by what follows the last "lock-" and passes over the rest, its
 * read/write lock by what follows __READ__ or __WRIT__. So that both kinds see all of
 * dlock, each place of dlock has a twin, made with it in one transaction and so next to it
 * in the order, under a name for the other kind; dlock itself passes over twins, and keeps
 * the state of the place in their data (state.h):
 *
 *	_c_UUID-dlock-__WRIT__N		twin of an exclusive place or a slot
 *	_c_UUID-dlock-lock-N		twin of a shared place
 *
 * N is "%010d" of a 32-bit number that may go below 0, so that numbers are compared as
 * serial numbers. A server whose number has reached the highest may give it again and
 * again: then the transactions that made the nodes are compared.
 */
#ifndef DLOCK_ZOOKEEPER_PLACE_H
#define DLOCK_ZOOKEEPER_PLACE_H

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
	/* By the name alone: what dlock and Curator both write is Curator's */
	enum zk_maker maker;
	int64_t czxid;		/* 0: not asked for */
};

/* Reads the name of a node into *place, which keeps the pointer. false: no place. */
bool zk_place_parse(struct zk_place *place, const char *name);

/* Is it one, or a twin, with this uuid? */
bool zk_place_has_uuid(const struct zk_place *place, const char *uuid);

#define ZK_PREFIX_SIZE 80

/* Writes the name, without its number, of a place or its twin. */
void zk_place_name(enum hold_mode mode, int slots, const char *uuid, bool twin,
		   char name[static ZK_PREFIX_SIZE]);

/* Below 0 when a comes before b, in the serial arithmetic of RFC 1982. */
int32_t zk_number_compare(int32_t a, int32_t b);

/* Puts places, without twins, into their order. true: some have the same number. */
bool zk_places_sort(struct zk_place *places, size_t count);

/*
 * The place that keeps place i from holding, the nearest one of those; -1: none does.
 * Places are in their order.
 */
ptrdiff_t zk_places_blocker(const struct zk_place *places, ptrdiff_t i);

/*
 * A slot waits for any one of all slots before it, not for its predecessor alone: true if
 * it is so for place i, which has a blocker, and is first or second in line.
 */
bool zk_places_any(const struct zk_place *places, ptrdiff_t i);

/* How many before place i do not hold. */
int64_t zk_places_ahead(const struct zk_place *places, ptrdiff_t i);

/* The number of slots that a slot before i, or any if i is no slot, disagrees by; or 0. */
int zk_places_disagree(const struct zk_place *places, ptrdiff_t i);

#endif
