/* SPDX-License-Identifier: MIT */
/*
 * Entries of the queue for a lock: the names of their nodes, their order, and which entry waits for
 * which. No I/O.
 *
 *	_c_UUID-lock-N			exclusive: Curator's InterProcessMutex, and dlock
 *	_c_UUID-__READ__N		shared: Curator's read lock, and dlock
 *	_c_UUID-__WRIT__N		exclusive: Curator's write lock
 *	_c_UUID-slots-S-lock-N		dlock: one of S at once; excludes all others
 *	UUID__lock__N, UUID__rlock__N	kazoo: exclusive, shared
 *
 * Curator's mutex sorts by what follows the last "lock-" and ignores all other names. Its
 * read/write lock sorts by what follows __READ__ or __WRIT__. Both must see each entry of dlock. So
 * the transaction that makes an entry also makes its shadow: a node with the next number, under
 * a name for the other recipe. dlock ignores shadows in the order:
 *
 *	_c_UUID-dlock-__WRIT__N		shadow of an exclusive entry or a slot
 *	_c_UUID-dlock-lock-N		shadow of a shared entry
 *
 * N is "%010d" of a 32-bit number that may go below 0, so numbers are compared as serial numbers.
 * A server that has reached the highest number may repeat it. Then the transactions that made the
 * nodes (czxid) are compared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/backend.h"
#include "path.h"

struct zk_call;

struct zk_entry {
	const char *name;	/* of the node */
	int32_t number;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT */
	bool shadow;
	int64_t czxid;		/* 0: not asked for */
	const struct zk_call *data;	/* of the node; NULL: not asked for */
};

/* Read the name of a node into *entry, which keeps the pointer. False: it is no entry. */
bool zk_entry_parse(struct zk_entry *entry, const char *name);

/* Find the uuid in the name of an entry or shadow. It is not terminated. NULL: there is none. */
const char *zk_entry_uuid(const struct zk_entry *entry);

/* Does the name have this uuid? */
bool zk_entry_has_uuid(const struct zk_entry *entry, const char *uuid);

/* Also has room for a number. */
#define ZK_PREFIX_SIZE 80

/* Write the name of an entry or its shadow, without its number. uuid may end later. */
void zk_entry_name(enum hold_mode mode, int slots, const char *uuid, bool shadow,
		   char name[static ZK_PREFIX_SIZE]);

/* Write the name of the shadow that dlock has made with this entry, which has a uuid. */
void zk_entry_shadow(const struct zk_entry *entry, char name[static ZK_PREFIX_SIZE]);

/* Below 0 when a comes before b, in the serial arithmetic of RFC 1982. */
int32_t zk_number_compare(int32_t a, int32_t b);

/* Sort entries, without shadows. True: some have the same number. */
bool zk_entries_sort(struct zk_entry *entries, size_t count);

/* Find the nearest entry before entry i that keeps it from holding, in sorted entries. -1: none. */
ptrdiff_t zk_entries_blocker(const struct zk_entry *entries, ptrdiff_t i);

/* Count the entries before the first one that is blocked. */
ptrdiff_t zk_entries_unblocked(const struct zk_entry *entries, ptrdiff_t count);
