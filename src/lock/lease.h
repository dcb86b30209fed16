/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of leases. All times are in ms. Points in time are on CLOCK_BOOTTIME, and are
 * passed in. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lease_span {
	int64_t end_ms;		/* its end for the holder; CLOCK_NEVER: there is no lease */
	int64_t ttl_ms;		/* as granted; 0: there is no lease */
};

/*
 * The end, for its holder, of a lease of ttl_ms that was asked for at sent_ms. The server cannot
 * have started to count before the request was sent. Because the server's clock may run faster, 1 %
 * and 2 ms are subtracted, as the Redlock algorithm does (redis.io, "Distributed locks with
 * Redis").
 */
int64_t lease_end(int64_t sent_ms, int64_t ttl_ms);

/* A hold's own TTL, of which only the server knows, is taken for a year at most. */
#define LEASE_MOST_MS (INT64_C(365) * 24 * 3600 * 1000)
/* The session timeout that a server grants to somebody who has asked for less. */
#define LEASE_SESSION_MS (INT64_C(3600) * 1000)
/* A longer time in a list of locks is taken for this one, so that it can be added to a date. */
#define LEASE_SHOWN_MS (100 * LEASE_MOST_MS)

/*
 * The lease that counts when a server reports that it has granted granted_ms: at most asked_ms, or
 * LEASE_MOST_MS where that is 0, which asks for the hold's own TTL. A session may have more, see
 * LEASE_SESSION_MS. An implausible granted_ms counts as asked_ms. So does 0, unless the hold is a
 * session, which has no lease.
 */
int64_t lease_bound(int64_t granted_ms, int64_t asked_ms, bool session);

/* A time that a server reports: -1, which is not known, or 0 to LEASE_SHOWN_MS. */
int64_t lease_shown(int64_t ms);

/* When to renew a lease that was asked for at sent_ms: after a third of it. */
int64_t lease_renew_at(int64_t sent_ms, int64_t ttl_ms);

/* The pause before a renewal that failed is tried again. */
int64_t lease_retry_ms(int64_t ttl_ms);

/* The kill-after time that applies: at most a third of the TTL, unless that is 0. */
int64_t lease_kill_after(int64_t ttl_ms, int64_t kill_after_ms);

/* Returns how many ms of the minimum hold, which began at held_ms, are left at now_ms. */
int64_t lease_keep(int64_t held_ms, int64_t min_hold_ms, int64_t now_ms);

struct lease_stop {
	int64_t term_ms;	/* TERM: kill-after before the lease's end */
	int64_t kill_ms;	/* KILL: early enough for the whole tree to be dead at the end */
	int64_t force_ms;	/* the second process takes over the killing */
};

/* When to stop a command whose lease is not renewed. */
struct lease_stop lease_stop(struct lease_span lease, int64_t kill_after_ms);
