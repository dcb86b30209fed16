/* SPDX-License-Identifier: MIT */
/*
 * Acquiring, renewing and releasing. A lock is an entry with an end (entries.h), which needs no
 * connection unless there is a door behind it (door.h). In a queue, waiters sleep in a statement
 * that the release interrupts.
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

/* A check takes two requests, so it is half as frequent. */
#define CHECK_FACTOR 2
/* The pause behind entries of another home, times the position in the queue. */
#define FOREIGN_MS 300
/* Without a queue: a waiter's first pause, which doubles each time, and the longest one. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS 5000
/* The lease of an entry whose client sleeps at the door, for HOLD_RETRY_MS at a time. */
#define AT_DOOR_MS 15000
/* How long a break waits for the end of the holder's connection, and how often it looks. */
#define END_MS 1000
#define END_AGAIN_MS 5

/* Can the strategy lock a name of this length? Returns 0, or -1 and sets *err. */
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

/* Returns when to check without a wake-up; 0: at once, because a waiter before us is late. */
static int64_t choose_check(struct mysql_backend *my, const struct entries_state *state)
{
	const int64_t now_ms = clock_boot_ms();
	int64_t late_ms;
	int64_t check_ms = now_ms + CHECK_FACTOR * (hold_retry_at(-1, false, false) - now_ms);
	char late[ROW_ID_SIZE] = "";

	if (!state->waiting && state->left_ms >= 0)
		check_ms = clock_earlier(check_ms, now_ms + state->left_ms + 2);
	my->poll_ms = state->foreign ? FOREIGN_MS * state->before : 0;
	if (my->poll_ms)
		check_ms = clock_earlier(check_ms, now_ms + my->poll_ms);
	if (state->late)
		snprintf(late, sizeof(late), "%" PRId64, state->late);
	late_ms = hold_watch_late(&my->late, late);
	if (!state->late || !late_ms)
		return late_ms ? check_ms : 0;
	/* The next one removes it. The others check later, one after the other. */
	return clock_earlier(check_ms, late_ms + (state->waiting - 1) * HOLD_LATE_MS);
}

/* Returns when to poll without a queue, with jitter for waiters that began together. */
static int64_t choose_poll(struct mysql_backend *my, int64_t left_ms)
{
	const int64_t pause_ms = my->pause_ms ? clock_earlier(2 * my->pause_ms, PAUSE_LAST_MS)
					      : PAUSE_FIRST_MS;
	const int64_t jitter_ms = rand() % (pause_ms / 4);

	my->pause_ms = pause_ms;
	return clock_boot_ms() + clock_earlier(pause_ms - jitter_ms,
					       left_ms < 0 ? pause_ms : left_ms + 2);
}

/* Sleep in the server until the statement ends. If the server hangs, retry_ms ends the wait. */
static void fall_asleep(struct mysql_backend *my, const struct request *request,
			struct grant *grant)
{
	const int64_t sleep_ms = my->check_ms - clock_boot_ms();
	struct error ignored = { 0 };

	my->checked = false;
	grant->retry_ms = 0;
	grant->poll_ms = my->poll_ms;
	if (sleep_ms > 0 &&
	    !entries_sleep(my, &my->conn, request, my->position, sleep_ms, &ignored))
		grant->retry_ms = my->check_ms + my->base.timeout_ms;
}

/* Receive the end of the statement in which we slept. A broken connection is no error. */
static int wake_up(struct mysql_backend *my, const struct request *request, struct error *err)
{
	struct mysql_conn *conn = &my->conn;
	MYSQL_RES *rows;
	int failed;

	if (!conn->pending)
		return 0;
	failed = mysql_conn_receive(conn, &rows, err);
	mysql_free_result(rows);
	if (conn->mysql)
		failed = entries_awake(my, conn, request, my->position, err);
	/* The server hangs, or the wait was cancelled. */
	return failed && (err->errnum == ETIMEDOUT || err->kind == ERROR_CANCELLED) ? -1 : 0;
}

static enum outcome take_entry(struct mysql_backend *my, const struct request *request,
			       struct grant *grant, struct error *err)
{
	const bool polls = !my->strategy->statements->try_sql, enters = !my->position;
	struct entries_how how = { .fresh = enters && !polls };
	struct entries_state state;
	enum outcome outcome;

	if (wake_up(my, request, err))
		return OUTCOME_ERROR;
	/* Sleep only now, because the caller used the connection to show the holder. */
	if (my->checked) {
		fall_asleep(my, request, grant);
		return OUTCOME_BUSY;
	}
	for (;;) {
		grant->sent_ms = clock_boot_ms();
		outcome = entries_take(my, &my->conn, request, &how, &state, err);
		if (outcome != OUTCOME_BUSY)
			break;
		my->check_ms = choose_check(my, &state);
		/* A newcomer cannot know for how long the first waiter has been late. */
		if (!state.late || (!how.fresh && (my->check_ms || !request->queue)))
			break;
		how.late = my->check_ms ? 0 : state.late;
		how.fresh = false;
		how.wake = true;
	}
	my->position = outcome == OUTCOME_BUSY && request->queue ? state.position : 0;
	my->fence = (uint64_t)state.number;
	grant->fence = my->fence;
	grant->newer = state.newer;
	if (outcome != OUTCOME_BUSY) {
		grant->ttl_ms = request->ttl_ms;
		my->pause_ms = 0;
		return outcome;
	}
	grant->retry_ms = polls ? choose_poll(my, state.left_ms) : 0;
	my->checked = my->position && enters;
	if (my->position && !enters)
		fall_asleep(my, request, grant);
	grant->poll_ms = my->poll_ms;
	return OUTCOME_BUSY;
}

/* ---- the door ---- */

/* Extend the lease of our entry by ttl_ms, over conn. Makes a lost entry. */
static enum outcome extend_entry(struct mysql_backend *my, struct mysql_conn *conn,
				 const struct request *request, int64_t ttl_ms, int64_t connection,
				 struct error *err)
{
	const struct entries_how how = { .connection = connection };
	struct request entry = *request;
	struct entries_state state;
	enum outcome outcome;

	entry.ttl_ms = ttl_ms;
	entry.queue = true;
	outcome = entries_take(my, conn, &entry, &how, &state, err);
	if (outcome == OUTCOME_HELD)
		my->fence = (uint64_t)state.number;
	return outcome;
}

/* Wait at a door that another program has. Our entry lasts longer than the sleep. */
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
	grant->retry_ms = clock_boot_ms() + HOLD_RETRY_MS + my->base.timeout_ms;
	return OUTCOME_BUSY;
}

/* Pass the door after our entry has become first. */
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

/* Receive the end of a sleep at the door. */
static enum outcome wake_at_door(struct mysql_backend *my, const struct request *request,
				 struct grant *grant, struct error *err)
{
	enum outcome outcome;

	grant->ttl_ms = request->ttl_ms;
	outcome = door_wake(my, request, err);
	if (outcome == OUTCOME_BUSY)
		return sleep_at_door(my, request, grant, err);
	if (outcome == OUTCOME_HELD)
		outcome = extend_entry(my, &my->side, request, request->ttl_ms,
				       my->conn.number, err);
	grant->fence = my->fence;
	/* Return to the queue, where the entry has its position unless its lease has ended. */
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
	struct request entry = *request;
	enum outcome outcome;

	grant->fence = my->fence;
	grant->ttl_ms = request->ttl_ms;
	if (!my->strategy->door)
		return entries_renew(my, &my->conn, request, err);
	/* The server ends an idle connection after the TTL of the acquisition. */
	grant->ttl_ms = entry.ttl_ms = my->idle_s * 1000;
	outcome = my->conn.session ? door_prove(my, request, err) : OUTCOME_LOST;
	return outcome == OUTCOME_HELD ? entries_renew(my, &my->side, &entry, err) : outcome;
}

enum outcome lease_release(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	struct error lost = { 0 };
	enum outcome door = OUTCOME_LOST, outcome;

	if (my->conn.session)
		door = door_open(my, request, &lost);
	else if (my->at_door)
		door_drop(my);
	my->position = my->pause_ms = 0;
	my->checked = false;
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
	if (my->conn.session)
		return lease_renew(backend, request, grant, err);
	if (door)
		entry.ttl_ms = door_ttl_ms(request);
	if (my->at_door) {
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

/*
 * End the connection that has passed the door. The user has confirmed that its command is dead.
 * KILL returns before the server has ended the connection and opened the door, so repeat it until
 * the server knows no such connection.
 */
static enum outcome end_connection(struct mysql_backend *my, int64_t number, struct error *err)
{
	const struct sql_value values[] = { SQL_INT("connection", number), SQL_LAST };
	const int64_t until_ms = clock_boot_ms() + END_MS;

	while (!mysql_run(my, &my->side, sql_kill_connection, values, NULL, err)) {
		if (clock_boot_ms() >= until_ms)
			return OUTCOME_HELD;
		poll(NULL, 0, END_AGAIN_MS);
	}
	return my->side.code == ER_NO_SUCH_THREAD ? OUTCOME_HELD : OUTCOME_ERROR;
}

enum outcome lease_break(struct backend *backend, const char *name, const struct row *row,
			 struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool door = my->strategy->door, stranger = door && !row->id[0];
	enum outcome outcome = OUTCOME_HELD;
	int64_t number = 0;
	bool taken = false;

	/* After a restart of the server, another client may have a lost connection's number. */
	if (door && door_probe(my, name, &taken, &number, err))
		return OUTCOME_ERROR;
	if (stranger && !taken)
		return OUTCOME_LOST;
	if (stranger && !number) {
		error_set(err, ERROR_REFUSED, 0, "%s: held by a connection that this account "
			  "cannot see; find it and KILL it as an administrator", my->address.label);
		return OUTCOME_ERROR;
	}
	if (!stranger)
		outcome = entries_break(my, &my->side, name, row, &number, err);
	return outcome == OUTCOME_HELD && taken && number ? end_connection(my, number, err)
							  : outcome;
}
