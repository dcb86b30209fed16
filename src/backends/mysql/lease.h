/* SPDX-License-Identifier: MIT */
#pragma once

#include "lock/hold.h"
#include "door.h"
#include "run.h"

/* One wish to hold. */
struct lease {
	struct mysql_backend my;
	bool tried;		/* whether the queue is empty */
	int64_t place;		/* of our entry that waits; 0: there is none */
	bool looked;		/* and no sleep was begun since */
	int64_t look_ms;	/* when to look again */
	int64_t ttl_ms;		/* of the last lease; 0: not known */
	uint64_t fence;		/* of the entry that holds */
	int64_t pause_ms;	/* the last one of a waiter that nobody wakes */
	struct hold_late late;
	struct door door;	/* of the strategies that have one */
};

backend_grant_fn lease_acquire, lease_renew;
backend_release_fn lease_release;
backend_show_fn lease_show;
backend_break_fn lease_break;
int64_t lease_event(struct backend *backend);
