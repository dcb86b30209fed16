/* SPDX-License-Identifier: MIT */
/*
 * A lock is an entry with an end (entries.h), for which no connection has to stay, unless there is
 * a door behind it (door.h). Waiters sleep in a statement that the release interrupts, where there
 * is a queue.
 */

#include <errno.h>
#include <inttypes.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "door.h"
#include "entries.h"

/* A look takes two requests, so they come half as often as those of one request. */
#define LOOK_FACTOR 2
/* Waiters behind entries of another home, each by its place in the queue. */
#define FOREIGN_MS 300
/* A waiter's first pause where nobody wakes it, which doubles each time, and the longest one. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS 5000
/* The lease of an entry whose client sleeps at the door, for HOLD_LOOK_MS at a time. */
#define AT_DOOR_MS 15000

/* Can the strategy lock a name of this length? 0, or -1 with *err. */
static int check_name(const struct mysql_backend *my, const char *name, struct error *err)
{
	const struct mysql_strategy *strategy = my->strategy;
	const size_t most = strategy->name_characters;

	if (most && text_characters(name) > most)
		return error_set(err, ERROR_USAGE, 0, "%s at most %zu characters, this one has "
				 "%zu; ?strategy=lease takes longer ones", strategy->names, most,
				 text_characters(name));
	return 0;
}

/* ---- waiting ---- */

/* When to look again, if nothing wakes us; 0: at once, because a waiter before us is late. */
static int64_t next_look(struct mysql_backend *my, const struct entries_state *state)
{
	const int64_t now_ms = clock_boot_ms();
	int64_t look_ms = now_ms + LOOK_FACTOR * (hold_look_at(-1, false, false) - now_ms), late_ms;
	char late[ROW_ID_SIZE] = "";

	if (!state->waiting && state->left_ms >= 0)
		look_ms = clock_earlier(look_ms, now_ms + state->left_ms + 2);
	if (state->foreign)
		look_ms = clock_earlier(look_ms, now_ms + FOREIGN_MS * state->before);
	if (state->late)
		snprintf(late, sizeof(late), "%" PRId64, state->late);
	late_ms = hold_watch_late(&my->late, late);
	if (!state->late || !late_ms)
		return late_ms ? look_ms : 0;
	/* The next one removes it. Those behind look later, one after the other. */
	return clock_earlier(look_ms, late_ms + (state->waiting - 1) * HOLD_LATE_MS);
}

/* When a waiter that nobody wakes looks again. Waiters that came together do not look together. */
static int64_t next_poll(struct mysql_backend *my, int64_t left_ms)
{
	const int64_t pause_ms = my->pause_ms ? clock_earlier(2 * my->pause_ms, PAUSE_LAST_MS)
					      : PAUSE_FIRST_MS;
	const int64_t vary_ms = rand() % (pause_ms / 4);

	my->pause_ms = pause_ms;
	return clock_boot_ms() + clock_earlier(pause_ms - vary_ms,
					       left_ms < 0 ? pause_ms : left_ms + 2);
}

/* Sleep in the server. The end of the statement wakes us, or the clock if the server hangs. */
static void fall_asleep(struct mysql_backend *my, const struct request *request,
			struct grant *grant)
{
	const int64_t sleep_ms = my->look_ms - clock_boot_ms();
	struct error ignored = { 0 };

	my->looked = false;
	grant->retry_ms = 0;
	if (sleep_ms > 0 &&
	    !entries_sleep(my, &my->conn, request, my->place, sleep_ms, &ignored))
		grant->retry_ms = my->look_ms + my->base.timeout_ms;
}

/* Has the statement in which we slept ended? A connection that broke is opened again. */
static int wake_up(struct mysql_backend *my, struct error *err)
{
	struct mysql_conn *conn = &my->conn;
	MYSQL_RES *rows;
	int failed;

	if (!conn->pending)
		return 0;
	failed = mysql_conn_receive(conn, &rows, err);
	mysql_free_result(rows);
	/* The server hangs, or the wait was cancelled. */
	return failed && (err->errnum == ETIMEDOUT || err->kind == ERROR_CANCELLED) ? -1 : 0;
}

static enum outcome take_entry(struct mysql_backend *my, const struct request *request,
			       struct grant *grant, struct error *err)
{
	const bool polls = !my->strategy->texts->try_sql, enters = !my->place;
	struct entries_how how = { .fresh = enters && !polls, .queue = request->queue };
	struct entries_state state;
	enum outcome outcome;

	if (wake_up(my, err))
		return OUTCOME_ERROR;
	/* The caller has used the connection since, to show who holds. */
	if (my->looked) {
		fall_asleep(my, request, grant);
		return OUTCOME_BUSY;
	}
	for (;;) {
		grant->sent_ms = clock_boot_ms();
		outcome = entries_take(my, &my->conn, request, &how, &state, err);
		if (outcome != OUTCOME_BUSY)
			break;
		my->look_ms = next_look(my, &state);
		/* A newcomer cannot know for how long the first waiter has been late. */
		if (!state.late || (my->look_ms && !how.fresh))
			break;
		how.late = my->look_ms || !request->queue ? 0 : state.late;
		how.fresh = false;
		how.wake = true;
	}
	my->place = outcome == OUTCOME_BUSY && request->queue ? state.place : 0;
	my->fence = (uint64_t)state.number;
	grant->fence = my->fence;
	grant->newer = state.newer;
	if (outcome != OUTCOME_BUSY) {
		my->ttl_ms = grant->ttl_ms = request->ttl_ms;
		my->pause_ms = 0;
		return outcome;
	}
	grant->retry_ms = polls ? next_poll(my, state.left_ms) : 0;
	my->looked = my->place && enters;
	if (my->place && !enters)
		fall_asleep(my, request, grant);
	return OUTCOME_BUSY;
}

/* ---- the door ---- */

/* Extend the lease of our entry by ttl_ms, over a connection. A lost entry is made again. */
static enum outcome extend_entry(struct mysql_backend *my, struct mysql_conn *conn,
				 const struct request *request, int64_t ttl_ms, int64_t connection,
				 struct error *err)
{
	const struct entries_how how = { .queue = true, .connection = connection };
	struct request entry = *request;
	struct entries_state state;
	enum outcome outcome;

	entry.ttl_ms = ttl_ms;
	outcome = entries_take(my, conn, &entry, &how, &state, err);
	if (outcome == OUTCOME_HELD)
		my->fence = (uint64_t)state.number;
	return outcome;
}

/* Another program has the door. Our entry stays for longer than we sleep. */
static enum outcome sleep_at_door(struct mysql_backend *my, const struct request *request,
				  struct grant *grant, struct error *err)
{
	enum outcome outcome = extend_entry(my, &my->conn, request, AT_DOOR_MS, ENTRIES_AT_DOOR,
					    err);

	grant->retry_ms = 0;
	if (outcome != OUTCOME_HELD)
		return outcome;
	if (door_wait(my, request, err))
		return OUTCOME_ERROR;
	grant->retry_ms = clock_boot_ms() + HOLD_LOOK_MS + my->base.timeout_ms;
	return OUTCOME_BUSY;
}

/* The entry is ours: pass the door. */
static enum outcome pass_door(struct mysql_backend *my, const struct request *request,
			      struct grant *grant, struct error *err)
{
	struct error ignored = { 0 };
	enum outcome outcome = door_try(my, request, err);

	if (outcome == OUTCOME_BUSY && request->queue)
		outcome = sleep_at_door(my, request, grant, err);
	else if (outcome == OUTCOME_BUSY)
		entries_release(my, &my->conn, request, &ignored);
	return outcome;
}

/* We have slept at the door. */
static enum outcome wake_at_door(struct mysql_backend *my, const struct request *request,
				 struct grant *grant, struct error *err)
{
	enum outcome outcome;

	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = request->ttl_ms;
	outcome = door_wake(my, request, err);
	if (outcome == OUTCOME_BUSY)
		return sleep_at_door(my, request, grant, err);
	if (outcome == OUTCOME_HELD)
		outcome = extend_entry(my, &my->side, request, request->ttl_ms,
				       my->door.number, err);
	grant->fence = my->fence;
	/* Go to the queue again, where the entry has kept its place if its lease has not ended. */
	if (outcome != OUTCOME_HELD)
		door_drop(my);
	grant->retry_ms = 0;
	return outcome;
}

/* ---- holding ---- */

enum outcome lease_renew(struct backend *backend, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool door = my->strategy->door;
	/* Waiters sleep until the end that they know. */
	const bool sooner = request->text || request->ttl_ms < my->ttl_ms;
	struct request entry = *request;
	enum outcome outcome = my->door.state == DOOR_PASSED ? OUTCOME_HELD : OUTCOME_LOST;

	/* The server ends the connection after the time that the lock was acquired with. */
	if (door)
		entry.ttl_ms = my->door.idle_s * 1000;
	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = my->ttl_ms = entry.ttl_ms;
	grant->fence = my->fence;
	if (door && outcome == OUTCOME_HELD)
		outcome = door_prove(my, request, err);
	if (door && outcome != OUTCOME_HELD)
		return outcome;
	return entries_renew(my, door ? &my->side : &my->conn, &entry, sooner, err);
}

enum outcome lease_release(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool passed = my->door.state == DOOR_PASSED;
	struct error lost = { 0 };
	enum outcome door = OUTCOME_LOST, outcome;

	if (passed)
		door = door_open(my, request, &lost);
	else if (my->door.state == DOOR_WAITING)
		door_drop(my);
	my->place = my->pause_ms = 0;
	my->looked = false;
	outcome = entries_release(my, &my->conn, request, err);
	if (outcome != OUTCOME_HELD || !my->strategy->door || door == OUTCOME_HELD)
		return outcome;
	*err = lost;
	return OUTCOME_LOST;
}

/* ---- acquiring ---- */

enum outcome lease_acquire(struct backend *backend, const struct request *request,
			   struct grant *grant, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool door = my->strategy->door;
	struct request entry = *request;
	enum outcome outcome;

	if (check_name(my, request->name, err))
		return OUTCOME_ERROR;
	if (my->door.state == DOOR_PASSED)
		return lease_renew(backend, request, grant, err);
	if (door)
		entry.ttl_ms = door_ttl_ms(request);
	if (my->door.state == DOOR_WAITING) {
		outcome = wake_at_door(my, &entry, grant, err);
	} else {
		outcome = take_entry(my, &entry, grant, err);
		if (outcome == OUTCOME_HELD && door)
			outcome = pass_door(my, &entry, grant, err);
	}
	if (outcome == OUTCOME_ERROR && door)
		door_drop(my);
	if (outcome == OUTCOME_HELD && door)
		grant->hold_fd = mysql_conn_fd(&my->conn);
	return outcome;
}

/* Something came, which acquire() receives, or the connection is gone. */
int64_t lease_event(struct backend *backend)
{
	struct mysql_conn *conn = &mysql_from_backend(backend)->conn;
	struct pollfd input = { .fd = mysql_conn_fd(conn), .events = POLLIN };

	if (conn->mysql && poll(&input, 1, 0) <= 0)
		return CLOCK_NEVER;
	if (conn->pending || conn->session)
		return 0;
	mysql_conn_close(conn);
	return CLOCK_NEVER;
}

/* ---- showing and breaking ---- */

int lease_show(struct backend *backend, const struct request *request, struct rows *rows,
	       struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool busy = my->conn.pending || my->conn.session;
	bool taken = false;
	int64_t number;
	int failed = request->name ? check_name(my, request->name, err) : 0;

	if (!failed)
		failed = entries_show(my, busy ? &my->side : &my->conn, request, rows, err);
	if (!failed && my->strategy->door && request->name && !(rows->count && rows->rows->holds))
		failed = door_probe(my, request->name, &taken, &number, err);
	if (taken)
		rows_add(rows, "", 0)->holds = true;
	if (my->conn.pending)
		mysql_conn_close(&my->side);
	return failed;
}

/* End the connection that has passed the door; its command counts as dead on the user's word. */
static enum outcome end_connection(struct mysql_backend *my, int64_t number, struct error *err)
{
	const struct sql_value values[] = { SQL_INT("connection", number), SQL_LAST };

	if (mysql_run(my, &my->side, sql_kill_connection, values, NULL, err) &&
	    my->side.code != ER_NO_SUCH_THREAD)
		return OUTCOME_ERROR;
	return OUTCOME_HELD;
}

enum outcome lease_break(struct backend *backend, const char *name, const struct row *row,
			 struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool door = my->strategy->door, stranger = door && !row->id[0];
	enum outcome outcome = OUTCOME_HELD;
	int64_t number = 0;
	bool taken = true;

	if (!stranger)
		outcome = entries_break(my, &my->side, name, row, &number, err);
	else if (door_probe(my, name, &taken, &number, err))
		return OUTCOME_ERROR;
	if (!taken)
		return OUTCOME_LOST;
	if (stranger && !number) {
		error_set(err, ERROR_REFUSED, 0, "%s: held by a connection that this account "
			  "cannot see; find it and KILL it as an administrator", my->address.label);
		return OUTCOME_ERROR;
	}
	return outcome == OUTCOME_HELD && door && number ? end_connection(my, number, err)
							 : outcome;
}
