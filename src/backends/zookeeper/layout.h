/* SPDX-License-Identifier: MIT */
/*
 * What is stored: the names of directories and of the entries in them, the order of the entries,
 * and the data of nodes. No I/O.
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
#include "lock/holder.h"

/* ---- names of locks, and the uuid of a token ---- */

/* The longest name with every byte percent-encoded, and the NUL. */
#define ZK_COMPONENT_SIZE (3 * 200 + 1)

/*
 * Write name as one component of a path. These are written as %XX: '/', '%', the dots of "." and
 * "..", and characters that ZooKeeper refuses (beyond U+FFFF, private use, U+FFF0 to U+FFFF).
 */
void zk_path_encode(const char *name, char component[static ZK_COMPONENT_SIZE]);

/* Write the name of a component. False: zk_path_encode() never writes this component. */
bool zk_path_decode(const char *component, char *name, size_t size);

#define ZK_UUID_SIZE 37

/*
 * Write the uuid of a token's nodes, 8-4-4-4-12 hex digits. It is made of the token's SHA-256: a
 * process that has the token finds the node, and the node does not reveal the token.
 */
void zk_uuid(const char *token, char uuid[static ZK_UUID_SIZE]);

/* ---- entries ---- */

struct zk_call;

struct zk_entry {
	const char *name;	/* of the node */
	const char *uuid;	/* in the name, not terminated; NULL: there is none */
	int32_t number;
	enum hold_mode mode;
	int slots;		/* HOLD_SLOT */
	bool shadow;
	int64_t czxid;		/* 0: not asked for */
	const struct zk_call *data;	/* of the node; NULL: not asked for */
};

/* Read the name of a node into *entry, which keeps the pointer. False: it is no entry. */
bool zk_entry_parse(struct zk_entry *entry, const char *name);

/* Does the name have this uuid? */
bool zk_entry_has_uuid(const struct zk_entry *entry, const char *uuid);

/* Also has room for a number. */
#define ZK_PREFIX_SIZE 80

/* Write the name of an entry or its shadow, without its number. uuid may end later. */
void zk_entry_name(enum hold_mode mode, int slots, const char *uuid, bool shadow,
		   char name[static ZK_PREFIX_SIZE]);

/* Write the name of the shadow that dlock has made with this entry, which has a uuid. */
void zk_entry_shadow(const struct zk_entry *entry, char name[static ZK_PREFIX_SIZE]);

/* Sort entries, without shadows. True: some have the same number. */
bool zk_entries_sort(struct zk_entry *entries, size_t count);

/*
 * Find the nearest entry before entry i that keeps it from holding, in sorted entries. -1: none. It
 * holds if this entry has ended, or, for a slot behind slots only, if any of the last ones has, as
 * many as there are slots.
 */
ptrdiff_t zk_entries_blocker(const struct zk_entry *entries, ptrdiff_t i);

/* Find the first one of the entries up to its blocker, whose ends entry i has to watch. */
ptrdiff_t zk_entries_watched(const struct zk_entry *entries, ptrdiff_t i, ptrdiff_t blocker);

/* ---- data ---- */

/*
 * The data that dlock stores in an entry of the queue, or in the node of strategy node:
 * "taken=…&uuid=…&" and the holder record. Only strategy node writes uuid, because its node's name
 * has none. taken is when a waiter last claimed the lock, in ms since the epoch by its host's
 * clock; 0: never, so a holder holds since the node was made.
 */
struct zk_record {
	bool foreign;		/* not written by dlock */
	int64_t taken_ms;
	bool mine;		/* it has the uuid that zk_record_read() was given */
};

#define ZK_RECORD_SIZE (ZK_UUID_SIZE + 64 + HOLDER_TEXT_SIZE)

/* uuid: NULL in the queue. text: as holder_encode() writes it. */
void zk_record_write(char data[static ZK_RECORD_SIZE], const char *uuid, int64_t taken_ms,
		     const char *text);

/* Read data, which is not trusted. NULL counts as empty. */
void zk_record_read(struct zk_record *record, const char *data, const char *uuid);
