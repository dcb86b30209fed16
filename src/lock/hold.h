/* SPDX-License-Identifier: MIT */
/*
 * The rules about holds, once for all backends. The first part calls a backend; commands and engine
 * use it instead of the slots of struct backend_ops. The second part is arithmetic for backends.
 */
#pragma once

#include "backend.h"
#include "holder.h"

struct lock_view;

/* ---- calls ---- */

/*
 * Call acquire(). Bounds the granted lease by what was asked for, and refuses (ERROR) a fence that
 * is not below BACKEND_FENCE_END: no later fence would be larger.
 */
enum outcome hold_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err);

/* Call renew(). Bounds as hold_acquire(). */
enum outcome hold_renew(struct backend *backend, const struct request *request,
			struct grant *grant, struct error *err);

/*
 * Renew a hold that another process has acquired: reads its record first. ttl_ms 0 extends the
 * lease by the hold's own TTL, as the record says, or by BACKEND_TTL_MS where it says none, and
 * never to less than is left. Any other ttl_ms is the hold's own TTL from then on.
 */
enum outcome hold_renew_other(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err);

/*
 * Does the token hold the lock at this moment, in a way that covers the mode and slots of request
 * (hold_mode_covers())? HELD: yes. LOST: it does not hold, and *err says who does. BUSY: it holds
 * in another mode, and *err says in which. Changes nothing.
 */
enum outcome hold_verify(struct backend *backend, const struct request *request,
			 struct error *err);

/*
 * Call release(). self: the record of the holder; with keep_ms > 0 the lock stays taken for so
 * long, by a record that says so. lease_end_ms: CLOCK_BOOTTIME; 0: not known. A release that was
 * sent twice and finds nothing has ended the hold itself, if it was sent within the lease. HELD:
 * the lock was held until this call. LOST: it was not.
 */
enum outcome hold_release(struct backend *backend, const struct request *request,
			  const struct holder *self, int64_t keep_ms, int64_t lease_end_ms,
			  struct error *err);

/* The same for a hold that another process has acquired: its record has the minimum hold. */
enum outcome hold_release_other(struct backend *backend, const struct request *request,
				struct error *err);

/* Show who holds name and who waits for it. The caller calls lock_view_finish(). */
int hold_view(struct backend *backend, const char *name, const char *token,
	      struct lock_view *view, struct error *err);

/* The names of all locks that are held or waited for, sorted. */
int hold_names(struct backend *backend, struct name_list *names, struct error *err);

/*
 * Take the lock away from exactly those holders that view shows. Those that have gone by themselves
 * are no error.
 */
int hold_break(struct backend *backend, const char *name, const struct lock_view *view,
	       struct error *err);

/* ---- for backends ---- */

/*
 * Returns the fence of a new hold: last + 1, or the microseconds since 1970 if they are more. So
 * fences grow even where the last one was forgotten, unless the clock was set back.
 */
uint64_t hold_next_fence(uint64_t last);

/*
 * When a waiter tries again that nothing has woken, in ms of CLOCK_BOOTTIME. Usually after 5 s and
 * some jitter. A waiter that is first in the queue tries when the lease before it ends, which has
 * left_ms (-1: no end is known), and each 0.2 to 0.3 s while another program holds the lock, whose
 * release wakes nobody.
 */
#define HOLD_LOOK_MS 5000
int64_t hold_look_at(int64_t left_ms, bool first, bool foreign);

/*
 * A waiter that could take the lock and has not taken it within this time loses its place in the
 * queue to the next one. So a waiter that is dead or stopped delays the others by about 1 s.
 */
#define HOLD_LATE_MS 900
struct hold_late {
	char id[ROW_ID_SIZE];	/* the waiter that is being watched; "": none */
	int64_t since_ms;	/* CLOCK_BOOTTIME */
};
/*
 * The waiter id, which could take the lock, is seen before ours; "": there is none. Returns when to
 * look again, in ms of CLOCK_BOOTTIME; 0: it is late now. CLOCK_NEVER: there is none.
 */
int64_t hold_watch_late(struct hold_late *late, const char *id);
