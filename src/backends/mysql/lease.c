/* SPDX-License-Identifier: MIT */
/*
 * The queue of a lock, and the functions for the engine. A lock is an entry with an end in the
 * table dlock_entries (sql/entries.sql), which needs no connection unless there is a door behind it
 * (door.h). In a queue, waiters sleep in a statement. A release wakes the first waiter, which takes
 * the lock. The second one watches: if the first does not react, it takes the lock itself.
 *
 * tests/model/line.pml is the model of this queue. Its try() and take() are take_lock(), which also
 * removes a late waiter (leave()), its nap is fall_asleep(), and its release() is release_entry(),
 * whose KILL QUERY is send(). A second one is not told when the first has come. A waiter far back
 * does not try between two naps (stays_far()).
 */
#include <errno.h>
#include <inttypes.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold.h"
#include "door.h"

/* How long a request to take is repeated under contention; a waiter tries later. */
#define TAKE_MS 200
/* How often to wake at most. */
#define WAKE_MOST 20
/* The first pause before asking whether a waiter has looked, which doubles up to the last. */
#define WAKE_PAUSE_US 4000
#define WAKE_LAST_US 16000
/* After so many sleeps that ended at once, a waiter does not sleep in the server any more. */
#define CUTS_MOST 2
/* How long a break waits for the end of the holder's connection, and how often it looks. */
#define END_MS 1000
#define END_AGAIN_MS 5

/* ---- waking ---- */

/* The answer of a request that changes holds, or removes a dead waiter: see entries_waiters. */
enum change {
	CHANGED,		/* how many rows */
	CONNECTION,		/* of the hold that was removed */
	FIRST, SECOND,		/* positions of the first two waiters; 0: there is none */
	CHANGE_COLUMNS
};

static int request_change(const struct call *call, const char *sql, int64_t limit_ms,
			  int64_t change[static CHANGE_COLUMNS], struct error *err)
{
	MYSQL_RES *rows;
	int failed = mysql_persist(call->conn, sql, call->values, limit_ms, CHANGE_COLUMNS, &rows,
				   err);

	mysql_numbers(rows, change, CHANGE_COLUMNS);
	return failed;
}

/* Has the waiter at {place} looked at the queue soon after it was woken? */
static bool has_looked(const struct call *call)
{
	struct error ignored = { 0 };
	int64_t looked = 0;
	MYSQL_RES *rows;

	for (useconds_t us = WAKE_PAUSE_US; !looked && us <= WAKE_LAST_US; us *= 2) {
		usleep(us);
		if (mysql_run(call->conn, sql_entries_looked, call->values, &rows, &ignored))
			break;
		mysql_numbers(rows, &looked, 1);
	}
	return looked;
}

/*
 * Wake the first waiter that a request has listed, to take the lock. If it does not look at the
 * queue, wake the second one, to watch whether the first one does, and others instead of dead ones.
 * The server notices a client's death in its sleep only after a wake-up.
 */
static void wake_listed(struct call *call, int64_t list[static CHANGE_COLUMNS])
{
	int64_t place = list[FIRST], numbers[2];	/* see entries_wake */
	struct error ignored = { 0 };
	MYSQL_RES *rows;

	for (int i = 0; place && i < WAKE_MOST; i++) {
		sql_set(call->values, SQL_INT("place", place));
		mysql_run(call->conn, sql_entries_wake, call->values, &rows, &ignored);
		if (mysql_numbers(rows, numbers, 2) < 2 || numbers[0])
			continue;
		if (numbers[1] && (list[FIRST] == list[SECOND] || has_looked(call)))
			break;
		request_change(call, sql_entries_remove_dead, TAKE_MS, list, &ignored);
		place = list[CHANGED] ? list[FIRST] : place < list[SECOND] ? list[SECOND] : 0;
	}
}

/* Wake the first waiter. */
static void wake_waiters(struct call *call)
{
	struct error ignored = { 0 };
	int64_t list[CHANGE_COLUMNS];

	request_change(call, sql_entries_waiters, TAKE_MS, list, &ignored);
	wake_listed(call, list);
}

/* ---- changing a hold ---- */

/* Run a statement that changes holds, for at most limit_ms. HELD: it has changed one. */
static enum outcome change_hold(const struct call *call, const char *sql, int64_t limit_ms,
				int64_t change[static CHANGE_COLUMNS], struct error *err)
{
	if (request_change(call, sql, limit_ms, change, err))
		return mysql_is_missing(call->conn) ? OUTCOME_LOST : OUTCOME_ERROR;
	if (change[CHANGED] > 0)
		return OUTCOME_HELD;
	return sql_lost(call->my->address.hosts.label, err);
}

/* Extend the lease, or with keep_ms end it after that, and leave a hold without a token. */
static enum outcome renew_entry(struct mysql_backend *my, struct mysql_conn *conn,
				const struct request *request, struct error *err)
{
	int64_t change[CHANGE_COLUMNS];
	enum outcome outcome;
	struct call call;

	call_begin(&call, my, conn, request);
	/* Of an entry with a door: the connection that has passed it; 0: it waits there. */
	if (my->strategy->door)
		sql_set(call.values, SQL_INT("conn", my->conn.session ? my->conn.number : 0));
	outcome = change_hold(&call, my->strategy->statements->renew_sql,
			      request->keep_ms ? my->base.timeout_ms : TAKE_MS, change, err);
	/* With another record, the lease may end before the time that waiters know. */
	if (outcome == OUTCOME_HELD && request->text)
		wake_waiters(&call);
	return outcome;
}

static enum outcome release_entry(struct mysql_backend *my, struct mysql_conn *conn,
				  const struct request *request, struct error *err)
{
	const struct sql_statements *statements = my->strategy->statements;
	int64_t change[CHANGE_COLUMNS];
	struct error ignored = { 0 };
	enum outcome outcome;
	struct call call;
	bool resent;

	my->base.resent = false;
	if (request->keep_ms && statements->leave_sql)
		return renew_entry(my, conn, request, err);
	call_begin(&call, my, conn, request);
	outcome = change_hold(&call, statements->release_sql, my->base.timeout_ms, change, err);
	resent = my->base.resent;
	if (outcome == OUTCOME_LOST && statements->leave_sql)
		request_change(&call, statements->leave_sql, my->base.timeout_ms, change, &ignored);
	if (change[FIRST] > 0)
		wake_listed(&call, change);
	my->base.resent = resent;
	/* Of shedlock, which wakes nobody. */
	if (outcome == OUTCOME_HELD && change[FIRST] < 0)
		sql_warn_taken(my->address.hosts.label, -change[FIRST], err);
	return outcome;
}

/* ---- reading entries ---- */

static int show_entries(struct mysql_backend *my, struct mysql_conn *conn,
			const struct request *request, struct rows *rows, struct error *err)
{
	const char *sql = request->name ? my->strategy->statements->show_sql
					 : my->strategy->statements->list_sql;
	struct call call;
	MYSQL_RES *from;
	MYSQL_ROW row;

	call_begin(&call, my, conn, request);
	sql_set(call.values, SQL_PART("there", my->strategy->door ? sql_entries_there : "1"));
	if (mysql_persist(conn, sql, call.values, TAKE_MS, request->name ? SHOWN : 1, &from, err))
		/* Without tables there are no locks. */
		return mysql_is_missing(conn) ? 0 : -1;
	while ((row = mysql_fetch_row(from)))
		if (request->name)
			sql_show_row(my->strategy, (const char *const *)row, rows);
		else if (row[0])
			name_list_add(&rows->names, row[0], mysql_fetch_lengths(from)[0]);
	mysql_free_result(from);
	return 0;
}

/* ---- taking the lock ---- */

/* The columns of entries_try and entries_take. */
enum state {
	TAKEN,
	NUMBER,			/* the fence, if it is taken */
	EXCLUDED,		/* by holders; known if the queue was not empty */
	POSITION,		/* of our entry */
	BEFORE,			/* entries before it, */
	WAITING,		/* those of them that wait */
	LEFT_MS,		/* of the holder's lease, if there is no queue; else -1 */
	FOREIGN,		/* entries of another home, whose release wakes nobody here */
	OTHER_SLOTS,		/* of holders that do not agree with ours; 0: there are none */
	LATE,			/* position of a waiter before it that may hold; 0: none */
	STATE_COLUMNS
};

/* Run a statement that tries to take the lock, and make missing tables. */
static enum outcome request_lock(const struct call *call, const char *sql,
				 int64_t state[static STATE_COLUMNS], struct error *err)
{
	struct mysql_conn *conn = call->conn;
	/* A waiter has time. */
	const int64_t limit_ms = call->request->queue ? call->my->base.timeout_ms : TAKE_MS;
	MYSQL_RES *rows;
	int slots, failed = mysql_persist(conn, sql, call->values, limit_ms, STATE_COLUMNS, &rows,
					  err);

	memset(state, 0, STATE_COLUMNS * sizeof(state[0]));
	state[LEFT_MS] = -1;
	if (failed && mysql_is_missing(conn) && !mysql_make_tables(conn, err))
		failed = mysql_persist(conn, sql, call->values, limit_ms, STATE_COLUMNS, &rows,
				       err);
	if (failed)
		return OUTCOME_ERROR;
	if (!mysql_numbers(rows, state, STATE_COLUMNS)) {
		mysql_unexpected(conn, err);
		return OUTCOME_ERROR;
	}
	if (state[TAKEN])
		return OUTCOME_HELD;
	slots = (int)state[OTHER_SLOTS];
	return slots && !hold_mode_slots_agree(slots, call->request, err) ? OUTCOME_ERROR
									  : OUTCOME_BUSY;
}

/* Take the lock with an entry, which is made if it is not there. */
static enum outcome take_queued(struct call *call, int64_t late,
				int64_t state[static STATE_COLUMNS], struct error *err)
{
	const struct request *request = call->request;
	enum outcome outcome;

	sql_set(call->values, SQL_INT("late", late));
	sql_set(call->values, SQL_PART("all", "@all"));
	outcome = request_lock(call, call->my->strategy->statements->take_sql, state, err);
	/* Waiters behind a shared hold may hold, too, and behind a slot if one is free. */
	if (outcome == OUTCOME_HELD && (request->mode == HOLD_SHARED ||
					state[BEFORE] + 1 < request->slots))
		wake_waiters(call);
	return outcome;
}

/* ---- waiting ---- */

/* Returns when to check without a wake-up; 0: at once, because a waiter before us is late. */
static int64_t choose_check(struct mysql_backend *my, const struct request *request,
			    const int64_t state[static STATE_COLUMNS])
{
	int64_t late_ms, check_ms = hold_retry_at(-1, 0, false);
	char late[ROW_ID_SIZE] = "";

	/*
	 * A check takes two requests, so it is half as frequent, but not much rarer than a lease
	 * lasts: a waiter before us may take the lock and die, which wakes nobody.
	 */
	if (request->ttl_ms >= INT64_C(2) * HOLD_RETRY_MS)
		check_ms += HOLD_RETRY_MS;
	my->poll_ms = state[FOREIGN] || my->cuts >= CUTS_MOST ? HOLD_FOREIGN_MS * state[BEFORE] : 0;
	if (my->poll_ms)
		check_ms = clock_earlier(check_ms, clock_boot_ms() + my->poll_ms);
	if (state[LATE])
		snprintf(late, sizeof(late), "%" PRId64, state[LATE]);
	late_ms = hold_watch_late(&my->late, late);
	if (!state[LATE] || !late_ms)
		return late_ms ? check_ms : 0;
	/* The next one removes it. The others check later, one after the other. */
	return clock_earlier(check_ms, late_ms + (state[WAITING] - 1) * HOLD_LATE_MS);
}

/*
 * Is the lock taken, although the request failed? An error is no holder: tables may be locked by a
 * backup. But the request may have waited behind those of others: then the server lists entries.
 */
static bool is_taken(struct mysql_backend *my, const struct request *request, bool answered,
		     const struct error *err)
{
	struct error ignored = { 0 };
	struct rows rows = { 0 };
	bool taken;

	if (err->kind != ERROR_UNAVAILABLE || (answered && request->queue))
		return err->kind == ERROR_UNAVAILABLE;
	/* A request without an answer may still take the lock. */
	if (!my->conn.sent || (!mysql_contended(&my->conn) && err->errnum != ETIMEDOUT) ||
	    (err->errnum == ETIMEDOUT &&
	     release_entry(my, &my->conn, request, &ignored) == OUTCOME_ERROR))
		return false;
	taken = !show_entries(my, &my->conn, request, &rows, &ignored) &&
		rows.hold_count + rows.waiter_count > 0;
	rows_finish(&rows);
	return taken;
}

static enum outcome take_lock(struct mysql_backend *my, const struct request *request,
			      int64_t state[static STATE_COLUMNS], struct error *err)
{
	const char *try_sql = my->strategy->statements->try_sql;
	const bool enters = !my->position;
	bool fresh = enters, answered = false;
	enum outcome outcome = OUTCOME_BUSY;
	int64_t late = 0;
	struct call call;

	call_begin(&call, my, &my->conn, request);
	if (enters && try_sql) {
		outcome = request_lock(&call, try_sql, state, err);
		answered = outcome == OUTCOME_BUSY;
		/* Without a wait, write nothing. Only the other statement compares slots. */
		if (answered && !request->queue && state[EXCLUDED] && request->mode != HOLD_SLOT)
			return outcome;
	}
	while (outcome == OUTCOME_BUSY) {
		outcome = take_queued(&call, late, state, err);
		if (outcome != OUTCOME_BUSY)
			break;
		my->check_ms = choose_check(my, request, state);
		my->far = state[WAITING] >= HOLD_FAR;
		/* A newcomer cannot know for how long the first waiter has been late. */
		if (!state[LATE] || (!fresh && (my->check_ms || !request->queue)))
			return outcome;
		late = my->check_ms ? 0 : state[LATE];
		fresh = false;
		answered = true;
		/* Wake the first waiter, or remove it if it is dead. */
		wake_waiters(&call);
	}
	if (outcome == OUTCOME_ERROR && (enters || mysql_contended(&my->conn)) &&
	    is_taken(my, request, answered, err))
		return OUTCOME_BUSY;
	return outcome;
}

/* Sleep in the server until this statement ends. If the server hangs, retry_ms ends the wait. */
static void fall_asleep(struct mysql_backend *my, const struct request *request,
			struct grant *grant)
{
	const char *sql = my->far ? sql_entries_sleep_far : sql_entries_sleep;
	const int64_t sleep_ms = my->check_ms - clock_boot_ms();
	struct error ignored = { 0 };
	struct call call;

	my->checked = false;
	grant->retry_ms = my->cuts >= CUTS_MOST ? my->check_ms : 0;
	grant->poll_ms = my->poll_ms;
	if (sleep_ms <= 0 || !my->conn.mysql || grant->retry_ms)
		return;
	my->asleep_ms = clock_boot_ms();
	call_begin(&call, my, &my->conn, request);
	sql_set(call.values, SQL_INT("sleep", sleep_ms));
	sql_set(call.values, SQL_INT("patience", HOLD_LATE_MS));
	sql_set(call.values, SQL_INT("watch", HOLD_WATCH_MS));
	if (!mysql_start(call.conn, sql, call.values, &ignored))
		grant->retry_ms = my->check_ms + my->base.timeout_ms;
}

/*
 * After the sleep: wait until nobody can interrupt another request instead of it. Returns 0, or -1
 * and closes the connection, which cannot be interrupted then.
 */
static int await_interrupts(struct mysql_backend *my, const struct request *request,
			    struct error *err)
{
	struct call call;
	MYSQL_RES *rows;
	int failed;

	if (strstr(mysql_get_server_info(my->conn.mysql), "MariaDB"))
		return 0;
	call_begin(&call, my, &my->conn, request);
	failed = mysql_persist(call.conn, sql_entries_awake, call.values, my->base.timeout_ms, 1,
			       &rows, err);
	mysql_free_result(rows);
	if (failed)
		mysql_conn_close(call.conn);
	return failed;
}

/* Receive the end of the statement in which we slept. A broken connection is no error. */
static int wake_up(struct mysql_backend *my, const struct request *request, struct error *err)
{
	struct mysql_conn *conn = &my->conn;
	int64_t slept[2], lasted_ms;	/* see entries_sleep */
	MYSQL_RES *rows;
	int failed;

	if (!conn->pending)
		return 0;
	failed = mysql_conn_receive(conn, &rows, err);
	mysql_numbers(rows, slept, 2);
	lasted_ms = clock_boot_ms() - my->asleep_ms;
	if (lasted_ms >= HOLD_FOREIGN_MS || (failed ? mysql_contended(conn) :
					slept[0] || lasted_ms >= slept[1] / 2))
		my->cuts = 0;
	else
		my->cuts++;
	if (conn->mysql)
		failed = await_interrupts(my, request, err);
	/* The server hangs, or the wait was cancelled. */
	return failed && (err->errnum == ETIMEDOUT || err->kind == ERROR_CANCELLED) ? -1 : 0;
}

/* Is our entry still far back in the queue? Then this has noted that its client is alive. */
static bool stays_far(struct mysql_backend *my, const struct request *request)
{
	struct error ignored = { 0 };
	MYSQL_RES *rows = NULL;
	int64_t far = 0;
	struct call call;

	/* One that polls has to find its turn itself. */
	if (!my->position || !my->far || my->poll_ms || my->cuts >= CUTS_MOST)
		return false;
	call_begin(&call, my, &my->conn, request);
	mysql_run(call.conn, sql_entries_stay, call.values, &rows, &ignored);
	mysql_numbers(rows, &far, 1);
	return far;
}

static enum outcome take_entry(struct mysql_backend *my, const struct request *request,
			       struct grant *grant, struct error *err)
{
	const bool polls = !my->strategy->statements->leave_sql, enters = !my->position;
	int64_t state[STATE_COLUMNS];
	enum outcome outcome;

	if (wake_up(my, request, err))
		return OUTCOME_ERROR;
	/* Sleep only now, because the caller used the connection to show the holder. */
	if (my->checked) {
		fall_asleep(my, request, grant);
		return OUTCOME_BUSY;
	}
	if (stays_far(my, request)) {
		my->check_ms = choose_check(my, request, (int64_t[STATE_COLUMNS]){ 0 });
		fall_asleep(my, request, grant);
		return OUTCOME_BUSY;
	}
	grant->sent_ms = clock_boot_ms();
	outcome = take_lock(my, request, state, err);
	my->position = outcome == OUTCOME_BUSY && request->queue ? state[POSITION] : 0;
	my->fence = grant->fence = (uint64_t)state[NUMBER];
	grant->ttl_ms = request->ttl_ms;
	if (outcome != OUTCOME_BUSY)
		return outcome;
	grant->retry_ms = polls ? hold_retry_at(state[LEFT_MS], 0, true) : 0;
	my->checked = my->position && enters;
	if (my->position && !enters)
		fall_asleep(my, request, grant);
	grant->poll_ms = my->poll_ms;
	return OUTCOME_BUSY;
}

/* ---- the door ---- */

/* Extend the lease of our entry, over conn. BUSY: try later, with a new entry if it is gone. */
static enum outcome extend_entry(struct mysql_backend *my, struct mysql_conn *conn,
				 const struct request *request, int64_t ttl_ms, struct error *err)
{
	struct request entry = *request;
	enum outcome outcome;

	entry.ttl_ms = ttl_ms;
	entry.text = NULL;
	outcome = renew_entry(my, conn, &entry, err);
	return outcome == OUTCOME_LOST || mysql_contended(conn) ? OUTCOME_BUSY : outcome;
}

/* Wait at a door that another program has. Our entry lasts longer than the sleep. */
static enum outcome sleep_at_door(struct mysql_backend *my, const struct request *request,
				  struct grant *grant, struct error *err)
{
	enum outcome outcome = extend_entry(my, &my->conn, request, HOLD_ASLEEP_MS, err);

	if (outcome != OUTCOME_HELD)
		return outcome;
	if (door_wait(my, request, err))
		return OUTCOME_ERROR;
	grant->retry_ms = clock_boot_ms() + HOLD_RETRY_MS + my->base.timeout_ms;
	return OUTCOME_BUSY;
}

/* Pass the door after our entry has become first, or after a sleep at the door. */
static enum outcome pass_door(struct mysql_backend *my, const struct request *request,
			      struct grant *grant, struct error *err)
{
	const int64_t connection = my->at_door ? 0 : my->conn.number;	/* that our entry has */
	struct error ignored = { 0 };
	enum outcome outcome = my->at_door ? door_wake(my, request, err)
					   : door_try(my, request, err);

	if (outcome == OUTCOME_BUSY && request->queue)
		outcome = sleep_at_door(my, request, grant, err);
	else if (outcome == OUTCOME_BUSY)
		release_entry(my, &my->conn, request, &ignored);
	else if (outcome == OUTCOME_HELD && my->conn.number != connection)
		outcome = extend_entry(my, &my->side, request, request->ttl_ms, err);
	grant->ttl_ms = request->ttl_ms;
	grant->fence = my->fence;
	if (outcome == OUTCOME_HELD)
		grant->hold_fd = mysql_conn_fd(&my->conn);
	else if (!my->at_door)
		door_drop(my);
	return outcome;
}

/* ---- renewing and releasing ---- */

enum outcome lease_renew(struct backend *backend, const struct request *request,
			 struct grant *grant, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	struct request entry = *request;
	enum outcome outcome;

	grant->fence = my->fence;
	grant->ttl_ms = request->ttl_ms;
	if (!my->strategy->door)
		return renew_entry(my, &my->conn, request, err);
	/* The server ends an idle connection after the TTL of the acquisition. */
	grant->ttl_ms = entry.ttl_ms = my->idle_s * 1000;
	outcome = my->conn.session ? door_prove(my, request, err) : OUTCOME_LOST;
	return outcome == OUTCOME_HELD ? renew_entry(my, &my->side, &entry, err) : outcome;
}

enum outcome lease_release(struct backend *backend, const struct request *request,
			   struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	struct error lost = { 0 };
	enum outcome door = OUTCOME_LOST, outcome;
	bool asleep;

	if (my->conn.session)
		door = door_open(my, request, &lost);
	else if (my->at_door)
		door_drop(my);
	my->position = 0;
	my->checked = false;
	/* Leave the queue first, because the end of a sleep can take 2 s. */
	asleep = my->conn.pending;
	outcome = release_entry(my, asleep ? &my->side : &my->conn, request, err);
	if (asleep) {
		/* If nobody can interrupt it, it ends within 5 s at this, but not at COM_QUIT. */
		shutdown(mysql_conn_fd(&my->conn), SHUT_RDWR);
		mysql_conn_close(&my->conn);
		mysql_end_stale(&my->side);
	}
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

	if (sql_check_name(my->strategy, request->name, err))
		return OUTCOME_ERROR;
	if (my->conn.session) {
		outcome = lease_renew(backend, request, grant, err);
		if (outcome != OUTCOME_LOST)
			return outcome;
		door_drop(my);
		return OUTCOME_ERROR;
	}
	if (door)
		entry.ttl_ms = door_ttl_ms(request);
	outcome = my->at_door ? OUTCOME_HELD : take_entry(my, &entry, grant, err);
	return outcome == OUTCOME_HELD && door ? pass_door(my, &entry, grant, err) : outcome;
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

/* ---- showing and breaking a lock ---- */

int lease_show(struct backend *backend, const struct request *request, struct rows *rows,
	       struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const bool busy = my->conn.pending || my->conn.session;
	bool taken = false;
	int64_t number;
	int failed = request->name ? sql_check_name(my->strategy, request->name, err) : 0;

	if (!failed)
		failed = show_entries(my, busy ? &my->side : &my->conn, request, rows, err);
	if (!failed && my->strategy->door && request->name && !rows->hold_count)
		failed = door_probe(my, request->name, &taken, &number, err);
	if (taken)
		rows_add(rows, true, "", 0);
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

	while (!mysql_run(&my->side, sql_kill_connection, values, NULL, err)) {
		if (clock_boot_ms() >= until_ms)
			return OUTCOME_HELD;
		poll(NULL, 0, END_AGAIN_MS);
	}
	return my->side.code == ER_NO_SUCH_THREAD ? OUTCOME_HELD : OUTCOME_ERROR;
}

/* *connection: of the hold that was removed, if this account may end it; else 0. */
static enum outcome break_entry(struct mysql_backend *my, const char *name, const struct row *row,
				int64_t *connection, struct error *err)
{
	const struct request request = { .name = name };
	int64_t change[CHANGE_COLUMNS];
	enum outcome outcome;
	struct call call;

	call_begin(&call, my, &my->side, &request);
	sql_set(call.values, SQL_TEXT("row", row->id));
	sql_set(call.values, SQL_INT("fence", (int64_t)row->fence));
	outcome = change_hold(&call, my->strategy->statements->break_sql, my->base.timeout_ms,
			      change, err);
	*connection = change[CONNECTION];
	wake_listed(&call, change);
	return outcome;
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
			  "cannot see; find it and KILL it as an administrator",
			  my->address.hosts.label);
		return OUTCOME_ERROR;
	}
	if (!stranger)
		outcome = break_entry(my, name, row, &number, err);
	return outcome == OUTCOME_HELD && taken && number ? end_connection(my, number, err)
							  : outcome;
}
