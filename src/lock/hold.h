/* SPDX-License-Identifier: MIT */
/*
 * The rules about holds, once for all backends. The first part calls a backend: commands and engine
 * use it instead of the functions in struct backend_ops. The second part is arithmetic for
 * backends.
 */
#pragma once

#include "base/text.h"
#include "backend.h"
#include "holder.h"

/* ---- calls ---- */

/*
 * Call acquire(). Limits the granted lease to the requested one, and refuses (ERROR) a fence that
 * is not below BACKEND_FENCE_END, because no later fence would be larger.
 */
enum outcome hold_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err);

/* Call renew(), with the limits of hold_acquire(). */
enum outcome hold_renew(struct backend *backend, const struct request *request,
			struct grant *grant, struct error *err);

/*
 * Renew a hold that another process has acquired. Reads its record first. ttl_ms 0 extends the
 * lease by the TTL of the record, or else by BACKEND_TTL_MS, and never to less than is left. Any
 * other ttl_ms becomes the TTL of the record.
 */
enum outcome hold_renew_other(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err);

/*
 * Does the token hold the lock now, in a mode that covers request (hold_mode_covers())? HELD: yes,
 * with this fence. LOST: it does not hold, and *err names the holder. BUSY: it holds in another
 * mode, which *err names.
 */
enum outcome hold_verify(struct backend *backend, const struct request *request, uint64_t *fence,
			 struct error *err);

/*
 * Call release(). self: the record of the holder. With keep_ms > 0 the lock is retained for this
 * time, with a record of that, until self->kept_ms if that is not 0. lease_end_ms: CLOCK_BOOTTIME;
 * 0: not known. HELD: the lock was held until this call, or is retained. LOST: it was not. If the
 * first answer was lost and the repeated release finds no hold within the lease, the first one
 * ended it: HELD.
 */
enum outcome hold_release(struct backend *backend, const struct request *request,
			  const struct holder *self, int64_t keep_ms, int64_t lease_end_ms,
			  struct error *err);

/* Release a hold that another process has acquired. Its record has the minimum hold. */
enum outcome hold_release_other(struct backend *backend, const struct request *request,
				struct error *err);

/*
 * Call show(). Sets *rows, and limits its times to sane values (lease.h). After 0 the caller calls
 * rows_finish().
 */
int hold_show(struct backend *backend, const char *name, const char *token, struct rows *rows,
	      struct error *err);

/* List the names of all locks with holders or waiters, sorted. */
int hold_names(struct backend *backend, struct name_list *names, struct error *err);

/*
 * Take the lock away from exactly the holders in *rows. HELD: one of them had it. LOST: none of
 * them has it any more.
 */
enum outcome hold_break(struct backend *backend, const char *name, const struct rows *rows,
			struct error *err);

/* ---- for backends ---- */

/*
 * Returns the fence of a new hold: last + 1, or the microseconds since 1970 if they are more. So
 * fences grow even after the last one was lost, unless the clock was set back.
 */
uint64_t hold_next_fence(uint64_t last);

/*
 * Returns when a waiter tries without being woken, in ms of CLOCK_BOOTTIME: usually after 5 s and
 * some jitter. The first tries when the present lease ends, in left_ms (-1: no end is known), the
 * second one 0.1 s later, to watch it, and each one behind it LATE after the one before, which may
 * be dead. ahead: the waiters before this one, whether the lock is held or not. The first tries
 * every 0.2 to 0.3 s while the holder is foreign: its release wakes nobody.
 */
#define HOLD_RETRY_MS 5000
#define HOLD_FOREIGN_MS 300
#define HOLD_WATCH_MS (HOLD_LATE_MS - 100)
int64_t hold_retry_at(int64_t left_ms, int64_t ahead, bool foreign);

/* Behind so many waiters, one on SQL only notes that it is alive: to read more would cost more. */
#define HOLD_FAR 100

/*
 * The lifetimes of a waiter. A waiter that could take the lock and has not done so within LATE is
 * passed by the next one, so a waiter that is dead or stopped delays the others by about 1 s. After
 * each of its requests a waiter counts as alive for ALIVE, or, if it sleeps at a door, for
 * ASLEEP, which is three sleeps. After QUEUE without a request all are dead, and the queue is gone.
 * On ZooKeeper the end of its session decides.
 */
#define HOLD_LATE_MS 900
#define HOLD_ALIVE_MS 20000
#define HOLD_ASLEEP_MS (INT64_C(3) * HOLD_RETRY_MS)
#define HOLD_QUEUE_MS 60000
struct hold_late {
	char id[ROW_ID_SIZE];	/* the waiter that is being watched; "": none */
	int64_t since_ms;	/* CLOCK_BOOTTIME */
};
/*
 * Watch the waiter id before ours that could take the lock; "": there is none. Returns when to
 * check it, in ms of CLOCK_BOOTTIME; 0: it is late; CLOCK_NEVER: there is none.
 */
int64_t hold_watch_late(struct hold_late *late, const char *id);

/*
 * For a queue whose entries hold by their order and modes alone. modes is the mode of the first of
 * the entries, which are size bytes apart; slots is the number that entry i asks for. Returns the
 * nearest entry before entry i that keeps it from holding; -1: it holds.
 */
ptrdiff_t hold_blocker(const enum hold_mode *modes, size_t size, ptrdiff_t i, int slots);

/* ---- modes ---- */

/*
 * A mode as backends store it: "x" (exclusive), "s" (shared) or the number of slots. The first
 * function returns a constant or buf; the second one reads every other text as "x".
 */
const char *hold_mode_text(enum hold_mode mode, int slots, char buf[static TEXT_DIGITS_SIZE]);
void hold_mode_read(const char *text, enum hold_mode *mode, int *slots);

/*
 * Does a hold cover a request? All backends use this one rule, for a run or an acquisition inside a
 * hold, and for a verification.
 *
 *	held \ asked	exclusive	shared		M slots		any
 *	exclusive	yes		yes		yes		yes
 *	shared		no		yes		no		yes
 *	N slots		no		no		if N is M	yes
 *
 * An exclusive hold keeps everybody else out, so it covers all other modes. A hold of N slots does
 * not cover a request of M slots, even if N is less, because that request is for a lock with M
 * slots.
 *
 * HELD: a hold of this mode, with HOLD_SLOT of held_slots, covers request. BUSY: it does not, and
 * *err (ERROR_USAGE) has the reason. Only the mode and the slots of request are read.
 */
enum outcome hold_mode_covers(enum hold_mode held, int held_slots, const struct request *request,
			      struct error *err);

/*
 * Does request agree with the holders on the number of slots? True also if request is for no slot,
 * or they hold none (0). If not, sets *err (ERROR_USAGE).
 */
bool hold_mode_slots_agree(int held_slots, const struct request *request, struct error *err);
