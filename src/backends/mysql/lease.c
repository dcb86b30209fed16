/* SPDX-License-Identifier: MIT */
/*
 * The strategies lease and insert: a lock is an entry with an end, for which no connection has to
 * stay. Waiters sleep in a statement that the release interrupts. See entries.h.
 */
#include "lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "lock/view.h"
#include "entries.h"

/* A look takes two requests, so they come half as often as those of one request. */
#define LOOK_FACTOR 2
/* Waiters behind entries of another home, each by its place in the queue. */
#define FOREIGN_MS 300

static struct lease *lease_of(struct backend *backend)
{
	return (struct lease *)backend;
}

/* ---- waiting ---- */

/* When to look again, if nothing wakes us; 0: at once, because a waiter before us is late. */
static int64_t next_look(struct lease *lease, const struct entries_state *state)
{
	const int64_t now_ms = clock_boot_ms();
	int64_t look_ms = hold_look_at(state->left_ms, !state->waiting, false), late_ms;
	char late[ROW_ID_SIZE] = "";

	if (look_ms >= now_ms + HOLD_LOOK_MS)
		look_ms = now_ms + LOOK_FACTOR * (look_ms - now_ms);
	if (state->foreign)
		look_ms = clock_earlier(look_ms, now_ms + FOREIGN_MS * state->before);
	if (state->late)
		snprintf(late, sizeof(late), "%" PRId64, state->late);
	late_ms = hold_watch_late(&lease->late, late);
	return late_ms ? clock_earlier(look_ms, late_ms) : 0;
}

/* Sleep in the server. The end of the statement wakes us, or the clock if the server hangs. */
static void fall_asleep(struct lease *lease, const struct request *request, struct grant *grant)
{
	struct mysql_backend *my = &lease->my;
	const int64_t sleep_ms = lease->look_ms - clock_boot_ms();
	struct error ignored = { 0 };

	lease->looked = false;
	grant->retry_ms = 0;
	if (sleep_ms > 0 &&
	    !entries_sleep(my, &my->conn, request, lease->place, sleep_ms, &ignored))
		grant->retry_ms = lease->look_ms + my->base.timeout_ms;
}

/* Has the statement in which we slept ended? A connection that broke is opened again. */
static int wake_up(struct lease *lease, struct error *err)
{
	struct mysql_conn *conn = &lease->my.conn;
	MYSQL_RES *rows;
	int failed;

	if (!conn->pending)
		return 0;
	failed = mysql_conn_receive(conn, &lease->my.address, &lease->my.base, &rows, err);
	mysql_free_result(rows);
	/* The server hangs, or the wait was cancelled. */
	return failed && (err->errnum == ETIMEDOUT || err->kind == ERROR_CANCELLED) ? -1 : 0;
}

static enum outcome lease_acquire(struct backend *backend, const struct request *request,
				  struct grant *grant, struct error *err)
{
	struct lease *lease = lease_of(backend);
	struct mysql_backend *my = &lease->my;
	struct entries_how how = { .fresh = !lease->tried, .enters = !lease->place,
				   .queue = request->queue };
	struct entries_state state;
	enum outcome outcome;

	if (wake_up(lease, err))
		return OUTCOME_ERROR;
	/* The caller has used the connection since, to show who holds. */
	if (lease->looked) {
		fall_asleep(lease, request, grant);
		return OUTCOME_BUSY;
	}
	for (;;) {
		grant->sent_ms = clock_boot_ms();
		outcome = entries_take(my, &my->conn, request, &how, &state, err);
		lease->look_ms = outcome == OUTCOME_BUSY ? next_look(lease, &state) : 1;
		/* A newcomer cannot know for how long the first waiter has been late. */
		if (outcome != OUTCOME_BUSY || !state.late || (lease->look_ms && !how.fresh))
			break;
		how.late = lease->look_ms || !request->queue ? 0 : state.late;
		how.fresh = false;
		how.wake = true;
	}
	lease->tried = true;
	grant->ttl_ms = request->ttl_ms;
	grant->fence = (uint64_t)state.number;
	grant->newer = state.newer;
	if (outcome != OUTCOME_BUSY) {
		lease->ttl_ms = request->ttl_ms;
		lease->place = 0;
		lease->tried = outcome == OUTCOME_ERROR;
		return outcome;
	}
	grant->retry_ms = 0;
	lease->looked = state.place && !lease->place;
	lease->place = state.place;
	if (state.place && !lease->looked && request->queue)
		fall_asleep(lease, request, grant);
	return OUTCOME_BUSY;
}

/* Something came, which acquire() receives, or the connection is gone. */
static int64_t lease_event(struct backend *backend)
{
	struct mysql_conn *conn = &mysql_from_backend(backend)->conn;

	if (!mysql_has_input(conn))
		return CLOCK_NEVER;
	if (conn->pending)
		return 0;
	mysql_conn_close(conn);
	return CLOCK_NEVER;
}

/* ---- holding ---- */

static enum outcome lease_renew(struct backend *backend, const struct request *request,
				struct grant *grant, struct error *err)
{
	struct lease *lease = lease_of(backend);
	struct mysql_backend *my = &lease->my;
	/* Waiters sleep until the end that they know. */
	const bool sooner = request->text || request->ttl_ms < lease->ttl_ms;

	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = lease->ttl_ms = request->ttl_ms;
	return entries_renew(my, &my->conn, request, sooner, err);
}

static enum outcome lease_release(struct backend *backend, const struct request *request,
				  struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	lease_of(backend)->place = 0;
	lease_of(backend)->looked = lease_of(backend)->tried = false;
	return entries_release(my, &my->conn, request, err);
}

static int lease_show(struct backend *backend, const struct request *request, struct rows *rows,
		      struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	int failed;

	if (!my->conn.pending)
		return entries_show(my, &my->conn, request, rows, err);
	failed = entries_show(my, &my->side, request, rows, err);
	mysql_conn_close(&my->side);
	return failed;
}

static enum outcome lease_break(struct backend *backend, const char *name, const struct row *row,
				struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	int64_t ignored;

	return entries_break(my, &my->conn, name, row, &ignored, err);
}

int lease_check(struct backend *backend, struct findings *findings, struct error *err)
{
	(void)backend;
	(void)err;
	findings_add(findings, FINDING_OK, "waiting", NULL,
		     "a release wakes waiters of the same account and node; others look each 0.3 s "
		     "times their place");
	return 0;
}

const struct backend_ops lease_ops = {
	MYSQL_COMMON_SLOTS,
	.acquire = lease_acquire,
	.event = lease_event,
	.renew = lease_renew,
	.release = lease_release,
	.show = lease_show,
	.break_hold = lease_break,
};
