/* SPDX-License-Identifier: MIT */
/* The rules about holds, once for all backends: hold.h. */
#include "hold.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lease.h"

#define PAUSE_JITTER_MS 500
/* The least pause before another try when a lease is about to end. */
#define PAUSE_LEAST_MS 20
/* At random: a client that releases and acquires at a steady pace could hold at every try. */
#define FOREIGN_JITTER_MS 100

/* ---- acquiring and renewing ---- */

/* Call acquire() or renew(), and limit what it grants. */
static enum outcome call_bounded(backend_grant_fn *call, struct backend *backend,
				 const struct request *request, struct grant *grant,
				 struct error *err)
{
	enum outcome outcome;

	grant->sent_ms = clock_boot_ms();
	outcome = call(backend, request, grant, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	grant->ttl_ms = lease_bound(grant->ttl_ms, request->ttl_ms, backend->session);
	if (grant->fence < BACKEND_FENCE_END)
		return outcome;
	error_set(err, ERROR_REFUSED, 0, "the fence would be %" PRIu64 ", which no clock gives: "
		  "somebody has written the last fence; remove that when the lock is free, see "
		  "dlock-backends(7)", grant->fence);
	return OUTCOME_ERROR;
}

enum outcome hold_acquire(struct backend *backend, const struct request *request,
			  struct grant *grant, struct error *err)
{
	return call_bounded(backend->ops->acquire, backend, request, grant, err);
}

enum outcome hold_renew(struct backend *backend, const struct request *request,
			struct grant *grant, struct error *err)
{
	return call_bounded(backend->ops->renew, backend, request, grant, err);
}

/* ---- reading ---- */

/* Limit the times of a row. The process that a session's hold lives with may end it sooner. */
static void bound_times(struct row *row, bool holds)
{
	if (row->left_ms < 0 && holds && row->holder.until_ms) {
		row->left_ms = row->holder.until_ms - clock_wall_ms();
		if (row->left_ms < 0)
			row->left_ms = 0;
	}
	row->left_ms = lease_shown(row->left_ms);
	row->age_ms = lease_shown(row->age_ms);
}

int hold_show(struct backend *backend, const char *name, const char *token, struct rows *rows,
	      struct error *err)
{
	const struct request request = { .name = name, .token = token };

	*rows = (struct rows){ 0 };
	if (backend->ops->show(backend, &request, rows, err)) {
		rows_finish(rows);
		return -1;
	}
	for (size_t i = 0; i < rows->hold_count; i++)
		bound_times(&rows->holds[i], true);
	for (size_t i = 0; i < rows->waiter_count; i++)
		bound_times(&rows->waiters[i], false);
	return 0;
}

int hold_names(struct backend *backend, struct name_list *names, struct error *err)
{
	struct rows rows;

	if (hold_show(backend, NULL, "", &rows, err))
		return -1;
	name_list_sort(&rows.names);
	*names = rows.names;
	rows.names = (struct name_list){ 0 };
	rows_finish(&rows);
	return 0;
}

/*
 * The hold of the request's token in *hold: HELD, LOST or ERROR. A hold that is only retained is
 * LOST, and is in *hold nevertheless.
 */
static enum outcome find_hold(struct backend *backend, const struct request *request,
			      struct row *hold, struct error *err)
{
	char text[HOLDER_DESCRIPTION_SIZE];
	enum outcome outcome = OUTCOME_LOST;
	struct rows rows;

	if (hold_show(backend, request->name, request->token, &rows, err))
		return OUTCOME_ERROR;
	for (size_t i = 0; i < rows.hold_count; i++)
		if (rows.holds[i].mine) {
			*hold = rows.holds[i];
			outcome = hold->holder.kept_ms ? OUTCOME_LOST : OUTCOME_HELD;
		}
	if (outcome == OUTCOME_LOST)
		error_set(err, ERROR_REFUSED, 0, "this token does not hold the lock: %s",
			  !rows.hold_count ? "it is free"
			  : holder_describe(&rows.holds->holder, rows.holds->age_ms, text,
					    sizeof(text)));
	rows_finish(&rows);
	return outcome;
}

enum outcome hold_verify(struct backend *backend, const struct request *request, uint64_t *fence,
			 struct error *err)
{
	struct row hold;
	enum outcome outcome = find_hold(backend, request, &hold, err);

	if (outcome != OUTCOME_HELD)
		return outcome;
	*fence = hold.fence;
	return hold_mode_covers(hold.mode, hold.slots, request, err);
}

/* ---- of another process ---- */

/* A hold that lives with a process can be renewed and released by that one alone. */
static enum outcome refuse_other(const struct row *hold, struct error *err)
{
	char text[HOLDER_PROCESS_SIZE];

	error_set(err, ERROR_REFUSED, 0, "it is held for %s by a process that could not be asked: "
		  "use the --backend and the user of 'dlock acquire'",
		  holder_describe_process(&hold->holder, text));
	return OUTCOME_ERROR;
}

enum outcome hold_renew_other(struct backend *backend, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct request renewed = *request;
	char text[HOLDER_TEXT_SIZE];
	struct row hold;
	enum outcome outcome = find_hold(backend, request, &hold, err);

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (backend->session)
		return refuse_other(&hold, err);
	/* The record is that of the holder, and not of this process. */
	renewed.text = NULL;
	if (request->ttl_ms && request->ttl_ms != hold.holder.ttl_ms) {
		hold.holder.ttl_ms = request->ttl_ms;
		holder_encode(&hold.holder, text);
		renewed.text = text;
	} else if (!request->ttl_ms) {
		renewed.ttl_ms = hold.holder.ttl_ms ? hold.holder.ttl_ms : BACKEND_TTL_MS;
		renewed.ttl_ms = clock_earlier(renewed.ttl_ms, LEASE_MOST_MS);
		if (hold.left_ms > renewed.ttl_ms)
			renewed.ttl_ms = hold.left_ms;
	}
	outcome = hold_renew(backend, &renewed, grant, err);
	if (outcome == OUTCOME_HELD && !grant->fence)
		grant->fence = hold.fence;
	return outcome;
}

/* ---- releasing ---- */

/* Has an earlier try of this release, whose answer was lost, retained the lock? */
static enum outcome find_kept(struct backend *backend, const char *name, const struct holder *kept,
			      struct error *err)
{
	struct rows rows;
	enum outcome outcome = OUTCOME_LOST;

	if (hold_show(backend, name, "", &rows, err))
		return OUTCOME_ERROR;
	for (size_t i = 0; i < rows.hold_count; i++)
		if (rows.holds[i].holder.kept_ms == kept->kept_ms)
			outcome = OUTCOME_HELD;
	rows_finish(&rows);
	return outcome;
}

enum outcome hold_release(struct backend *backend, const struct request *request,
			  const struct holder *self, int64_t keep_ms, int64_t lease_end_ms,
			  struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	struct request released = *request;
	struct holder kept = *self;
	char text[HOLDER_TEXT_SIZE];
	enum outcome outcome;

	released.keep_ms = keep_ms;
	released.text = NULL;
	if (keep_ms > 0) {
		if (!kept.kept_ms)
			kept.kept_ms = clock_wall_ms() + keep_ms;
		holder_encode(&kept, text);
		released.text = text;
	}
	backend->resent = false;
	outcome = backend->ops->release(backend, &released, err);
	if (outcome == OUTCOME_LOST && keep_ms > 0)
		return find_kept(backend, request->name, &kept, err);
	/* The first of two requests, whose answer was lost, has ended the hold within the lease. */
	if (outcome == OUTCOME_LOST && backend->resent && sent_ms < lease_end_ms) {
		*err = (struct error){ 0 };
		return OUTCOME_HELD;
	}
	return outcome;
}

enum outcome hold_release_other(struct backend *backend, const struct request *request,
				struct error *err)
{
	struct row hold = { 0 };
	const int64_t read_ms = clock_boot_ms();
	int64_t keep_ms = 0, end_ms;
	enum outcome outcome = find_hold(backend, request, &hold, err);

	/* A second release does not end the minimum hold. */
	if (outcome == OUTCOME_ERROR || hold.holder.kept_ms)
		return outcome;
	/* Its command may still run, and a release is for dead commands only. */
	if (outcome == OUTCOME_HELD && backend->session)
		return refuse_other(&hold, err);
	/* Without a hold, a waiter's row may be left, of a keeper that was killed. */
	if (outcome == OUTCOME_HELD && hold.holder.min_ms && hold.age_ms >= 0)
		keep_ms = lease_keep(0, hold.holder.min_ms, hold.age_ms);
	end_ms = outcome == OUTCOME_HELD ? read_ms + hold.left_ms : 0;
	return hold_release(backend, request, &hold.holder, keep_ms, end_ms, err);
}

enum outcome hold_break(struct backend *backend, const char *name, const struct rows *rows,
			struct error *err)
{
	enum outcome result = OUTCOME_LOST, outcome;

	for (size_t i = 0; i < rows->hold_count; i++) {
		outcome = backend->ops->break_hold(backend, name, &rows->holds[i], err);
		if (outcome == OUTCOME_ERROR)
			return outcome;
		if (outcome == OUTCOME_HELD)
			result = outcome;
	}
	return result;
}

/* ---- for backends ---- */

uint64_t hold_next_fence(uint64_t last)
{
	const uint64_t clock = (uint64_t)clock_read_us(CLOCK_REALTIME);

	return clock > last ? clock : last + 1;
}

int64_t hold_retry_at(int64_t left_ms, int64_t ahead, bool foreign)
{
	const int64_t later_ms = ahead > 0 ? clock_earlier(ahead, 100) * HOLD_LATE_MS -
						     HOLD_WATCH_MS : 0;
	int64_t pause_ms = HOLD_RETRY_MS + rand() % PAUSE_JITTER_MS;

	if (ahead <= 0 && foreign)
		pause_ms = HOLD_FOREIGN_MS - rand() % FOREIGN_JITTER_MS;
	if (left_ms >= 0 && left_ms < pause_ms - later_ms)
		pause_ms = later_ms + (left_ms > PAUSE_LEAST_MS ? left_ms + 2 : PAUSE_LEAST_MS);
	return clock_boot_ms() + pause_ms;
}

int64_t hold_watch_late(struct hold_late *late, const char *id)
{
	const int64_t now = clock_boot_ms();

	if (strcmp(late->id, id) != 0) {
		snprintf(late->id, sizeof(late->id), "%s", id);
		late->since_ms = now;
	}
	if (!*id)
		return CLOCK_NEVER;
	return now - late->since_ms >= HOLD_LATE_MS ? 0 : late->since_ms + HOLD_LATE_MS;
}

static enum hold_mode mode_at(const enum hold_mode *modes, size_t size, ptrdiff_t i)
{
	return *(const enum hold_mode *)((const char *)modes + (size_t)i * size);
}

ptrdiff_t hold_blocker(const enum hold_mode *modes, size_t size, ptrdiff_t i, int slots)
{
	const enum hold_mode mode = mode_at(modes, size, i);
	ptrdiff_t j = i - 1;

	/* Shared holds are together, and so are slots as long as there are not too many. */
	while (mode != HOLD_EXCLUSIVE && j >= 0 && mode_at(modes, size, j) == mode)
		j--;
	return j < 0 && mode == HOLD_SLOT && i >= slots ? i - 1 : j;
}

/* ---- modes ---- */

const char *hold_mode_text(enum hold_mode mode, int slots, char buf[static TEXT_DIGITS_SIZE])
{
	if (mode == HOLD_SLOT)
		text_digits(buf, (uint64_t)slots);
	return mode == HOLD_SLOT ? buf : mode == HOLD_SHARED ? "s" : "x";
}

void hold_mode_read(const char *text, enum hold_mode *mode, int *slots)
{
	int64_t number;

	*slots = text_number(text, strlen(text), &number) && number <= INT_MAX ? (int)number : 0;
	*mode = *slots ? HOLD_SLOT : text[0] == 's' ? HOLD_SHARED : HOLD_EXCLUSIVE;
}

/* Room for "--slots 2147483647". */
#define MODE_TEXT_SIZE 24

/* Returns the option for the mode, or a name of the mode that has no option. */
static const char *describe_mode(enum hold_mode mode, int slots, char buf[static MODE_TEXT_SIZE])
{
	snprintf(buf, MODE_TEXT_SIZE, "--slots %d", slots);
	return mode == HOLD_SLOT ? buf : mode == HOLD_SHARED ? "--shared" : "an exclusive hold";
}

enum outcome hold_mode_covers(enum hold_mode held, int held_slots, const struct request *request,
			      struct error *err)
{
	char have[MODE_TEXT_SIZE], want[MODE_TEXT_SIZE];

	if (held == HOLD_EXCLUSIVE || request->mode == HOLD_ANY)
		return OUTCOME_HELD;
	if (held == request->mode && (held != HOLD_SLOT || held_slots == request->slots))
		return OUTCOME_HELD;
	error_set(err, ERROR_USAGE, 0, "the lock is already held with %s, which does not cover %s: "
		  "ask for the same", describe_mode(held, held_slots, have),
		  describe_mode(request->mode, request->slots, want));
	return OUTCOME_BUSY;
}

bool hold_mode_slots_agree(int held_slots, const struct request *request, struct error *err)
{
	if (request->mode != HOLD_SLOT || !held_slots || held_slots == request->slots)
		return true;
	error_set(err, ERROR_USAGE, 0, "--slots %d disagrees with the present holders, who have "
		  "--slots %d", request->slots, held_slots);
	return false;
}
