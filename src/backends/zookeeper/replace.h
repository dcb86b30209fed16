/* SPDX-License-Identifier: MIT */
/*
 * --replace-waiters. The order of the line is that of the server's numbers, which Curator and kazoo
 * use, too, so it cannot change. But a waiter can be sent away: its nodes are removed if its twin
 * has not changed since the twin said that the waiter waits. A waiter whose turn has come writes
 * its twin before it holds, so no holder is ever sent away.
 *
 * The data of the lock's directory names the last waiter that came with the option, and the czxid
 * of its place. A waiter compares this czxid with that of the first place that it had itself, when
 * it begins to wait, and before it gets in line again for any reason. Data of another program is
 * never overwritten.
 */
#pragma once

#include "lock/backend.h"

struct zk_backend;

/*
 * This waiter has a place with this czxid; 0: not known. That of its first place counts, unless a
 * smaller one says that the server has lost its data and counts anew.
 */
void zk_replace_arrived(struct zk_backend *zk, uint64_t czxid);

/*
 * For a waiter that has had a place: has a newer one sent it away? LOST, with *grant; HELD: no;
 * ERROR. The session is open.
 */
enum outcome zk_replace_check(struct zk_backend *zk, const struct request *request,
			      struct grant *grant, struct error *err);

/*
 * For a waiter whose twin says that it waits: notes that it came, and sends away those before it.
 * LOST, with *grant: a newer one was there already; HELD: done; ERROR: call it again.
 */
enum outcome zk_replace_waiters(struct zk_backend *zk, const struct request *request,
				struct grant *grant, struct error *err);
