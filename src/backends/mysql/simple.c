/* SPDX-License-Identifier: MIT */
#include "simple.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lock/view.h"
#include "waiters.h"

/* A waiter's first pause, which doubles each time, and the longest one. */
#define PAUSE_FIRST_MS 50
#define PAUSE_MS 5000
/* Pause after statements of several clients got in each other's way. */
#define CONTENTION_MS 20
/* Least pause before the end of a lease. */
#define PAUSE_LEAST_MS 20
/* How often to try at once again when the lock was given back between two statements. */
#define ROUNDS 3

/* The row that take, look and renew end with; see struct simple_kind. */
struct simple_state {
	bool held, mine, read_only;
	uint64_t fence;
	int64_t age_us, rest_us;
	struct holder holder;
};

static struct simple *simple_of(struct backend *backend)
{
	return (struct simple *)backend;
}

static const struct simple_kind *kind_of(const struct simple *simple)
{
	return simple->my.strategy->simple;
}

/* ---- requests ---- */

static void make_words(const struct simple *simple, const struct request *request,
		       struct words *words)
{
	words_begin(words, request, request->ttl_ms);
	memcpy(words->by, "dlock-", 6);
	for (int i = 0; i < 16; i++)
		snprintf(words->by + 6 + 2 * i, 3, "%02x", words->digest[i]);
	if (kind_of(simple)->encode)
		kind_of(simple)->encode(request, words);
	words_add_waiter(words, simple->my.strategy, request);
	words_add(words, (const struct sql_value[]){
		SQL_TEXT("by", words->by),
		SQL_TEXT("owner", words->owner),
		SQL_INT("ttl", request->ttl_ms * 1000),
		SQL_INT("keep", request->min_hold_ms * 1000),
		SQL_PART("zone", simple->zone),
		SQL_LAST
	});
}

static int read_state(const struct simple *simple, MYSQL_RES *rows, struct simple_state *state)
{
	MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;

	*state = (struct simple_state){ .held = false };
	if (!row || mysql_num_fields(rows) != 6)
		return -1;
	state->read_only = row[5] && row[5][0] != '0';
	if (!row[0])
		return 0;
	state->held = true;
	for (int i = 0; i < 5; i++)
		if (!row[i])
			return -1;
	state->mine = row[0][0] == '1';
	state->fence = strtoull(row[1], NULL, 10);
	state->age_us = strtoll(row[2], NULL, 10);
	state->rest_us = strtoll(row[3], NULL, 10);
	kind_of(simple)->decode(&state->holder, row[4], mysql_fetch_lengths(rows)[4]);
	return 0;
}

/*
 * mysql_run(), which also notes a connection that broke meanwhile: the server may still be at the
 * statement, waiting for a row, and would take the lock when nobody wants it any more.
 */
static int run(struct simple *simple, const char *sql, const struct words *words,
	       MYSQL_RES **rows, struct error *err)
{
	struct mysql_backend *my = &simple->my;
	unsigned long connection;
	int result;

	/* A connection that still sleeps is of no use to a client that has stopped waiting. */
	if (my->conn.pending)
		mysql_conn_close(&my->conn);
	if (mysql_connect(my, err))
		return -1;
	connection = mysql_thread_id(my->conn.mysql);
	result = mysql_run(my, sql, words->values, MYSQL_REPEAT, rows, err);
	if (my->resent || !my->conn.mysql)
		simple->stale = (int64_t)connection;
	return result;
}

/* Ends the connection that run() has noted, if it is still at that statement. */
static void end_stale(struct simple *simple, const struct request *request)
{
	struct error ignored = { 0 };
	struct words words;

	if (!simple->stale)
		return;
	make_words(simple, request, &words);
	words_add(&words, (const struct sql_value[]){
		SQL_INT("connection", simple->stale), SQL_LAST });
	mysql_run(&simple->my, sql_simple_kill, words.values, MYSQL_ONCE, NULL, &ignored);
	simple->stale = 0;
}

/* Runs one of the texts that end with the state. 0 or -1. */
static int ask(struct simple *simple, const char *sql, const struct request *request,
	       struct simple_state *state, struct error *err)
{
	struct words words;
	MYSQL_RES *rows;
	int failed;

	make_words(simple, request, &words);
	if (run(simple, sql, &words, &rows, err))
		return -1;
	failed = read_state(simple, rows, state);
	mysql_free_result(rows);
	return failed ? mysql_odd(&simple->my, err) : 0;
}

/* ask(), for a text that takes or extends: on a server that is read-only it has failed. */
static int change(struct simple *simple, const char *sql, const struct request *request,
		  struct simple_state *state, struct error *err)
{
	if (ask(simple, sql, request, state, err))
		return -1;
	return state->read_only ? mysql_read_only(&simple->my, err) : 0;
}

/* How the lock stands, without making a table for that. 0 or -1. */
static int look(struct simple *simple, const struct request *request, struct simple_state *state,
		struct error *err)
{
	int there = mysql_has_table(&simple->my, kind_of(simple)->table, err);

	*state = (struct simple_state){ .held = false };
	return there > 0 ? ask(simple, kind_of(simple)->look, request, state, err) : there;
}

/* ---- taking ---- */

/* For how many ms there is no point in looking at a lock that somebody else holds. */
static int64_t next_pause(struct simple *simple, const struct simple_state *state)
{
	const int64_t rest_ms = state->rest_us / 1000 + 1;

	simple->pause_ms = simple->pause_ms ? 2 * simple->pause_ms : PAUSE_FIRST_MS;
	if (simple->pause_ms > PAUSE_MS)
		simple->pause_ms = PAUSE_MS;
	if (rest_ms < simple->pause_ms)
		return rest_ms < PAUSE_LEAST_MS ? PAUSE_LEAST_MS : rest_ms;
	/* Waiters that came together are not to look together. */
	return simple->pause_ms - rand() % (simple->pause_ms / 4 + 1);
}

static enum outcome busy(struct simple *simple, const struct request *request,
			 const struct simple_state *state, struct grant *grant)
{
	int64_t pause_ms = state->held ? next_pause(simple, state) : CONTENTION_MS;
	struct error ignored = { 0 };
	struct words words;

	grant->holder = state->holder;
	grant->age_ms = state->held ? state->age_us / 1000 : -1;
	grant->ahead = -1;
	grant->retry_ms = clock_boot_ms() + pause_ms;
	if (!request->queue)
		return OUTCOME_BUSY;
	/* The statement's end wakes this client; should the server hang, the clock does. */
	grant->retry_ms += simple->my.base.timeout_ms;
	make_words(simple, request, &words);
	words_add(&words, (const struct sql_value[]){ SQL_INT("pause", pause_ms), SQL_LAST });
	/* A connection that breaks now is opened anew when it is needed. */
	simple->waiting = !mysql_start(&simple->my, sql_simple_doze, words.values, &ignored);
	return OUTCOME_BUSY;
}

static enum outcome simple_acquire(struct backend *backend, const struct request *request,
				   struct grant *grant, struct error *err)
{
	struct simple *simple = simple_of(backend);
	struct mysql_backend *my = &simple->my;
	struct simple_state state = { .held = false };

	if (mysql_check_name(my->strategy, request->name, err))
		return OUTCOME_ERROR;
	if (simple->waiting && my->conn.pending)
		mysql_poll(my);
	end_stale(simple, request);
	/* Each of many waiters looks, before it locks the row to try. */
	if (simple->waiting && ask(simple, kind_of(simple)->look, request, &state, err))
		return OUTCOME_ERROR;
	simple->waiting = false;
	for (int round = 0; round < ROUNDS && (!state.held || state.mine); round++) {
		grant->sent_ms = clock_boot_ms();
		grant->ttl_ms = request->ttl_ms;
		if (change(simple, kind_of(simple)->take, request, &state, err)) {
			if (!mysql_contended(my))
				return OUTCOME_ERROR;
			state.held = false;
			break;
		}
		if (!state.mine)
			continue;
		simple->pause_ms = 0;
		my->lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
		grant->fence = state.fence;
		return OUTCOME_HELD;
	}
	return busy(simple, request, &state, grant);
}

static int64_t simple_event(struct backend *backend)
{
	struct simple *simple = simple_of(backend);

	if (simple->my.conn.pending)
		return mysql_poll(&simple->my) ? 0 : CLOCK_NEVER;
	return mysql_is_gone(&simple->my) && simple->waiting ? 0 : CLOCK_NEVER;
}

/* ---- holding ---- */

static enum outcome simple_renew(struct backend *backend, const struct request *request,
				 struct grant *grant, struct error *err)
{
	struct simple *simple = simple_of(backend);
	const int64_t sent_ms = clock_boot_ms();
	struct simple_state state;

	if (change(simple, kind_of(simple)->renew, request, &state, err))
		return OUTCOME_ERROR;
	if (!state.mine) {
		error_set(err, ERROR_REFUSED, 0, state.held ? "%s: somebody else has it now"
							    : "%s: its row has expired or is gone",
			  simple->my.address.label);
		return OUTCOME_LOST;
	}
	grant->sent_ms = sent_ms;
	/* The row notes the TTL; where it has no room for that, it shows how long it lasts. */
	grant->ttl_ms = state.holder.ttl_ms ? state.holder.ttl_ms : state.rest_us / 1000;
	if (!grant->fence)
		grant->fence = state.fence;
	simple->my.lease_end_ms = lease_end(sent_ms, grant->ttl_ms);
	return OUTCOME_HELD;
}

static enum outcome simple_verify(struct backend *backend, const struct request *request,
				  struct error *err)
{
	struct simple_state state;

	if (look(simple_of(backend), request, &state, err))
		return OUTCOME_ERROR;
	return state.mine ? hold_mode_covers(HOLD_EXCLUSIVE, 0, request, err) : OUTCOME_LOST;
}

/* ---- giving back ---- */

/* Deletes what is of no use any more. A failure does not undo the release. */
static void tidy(struct simple *simple, const struct request *request, const struct words *words)
{
	const char *sql = request->forget ? kind_of(simple)->forget : kind_of(simple)->purge;
	struct error ignored = { 0 };

	if (sql)
		mysql_run(&simple->my, sql, words->values, MYSQL_ONCE, NULL, &ignored);
}

/* Ends a wait that may be under way. What the server still does for us ends with it. */
static void stop_waiting(struct simple *simple, const struct request *request)
{
	if (simple->waiting && simple->my.conn.mysql)
		waiters_leave(&simple->my, request);
	simple->waiting = false;
	end_stale(simple, request);
}

static enum outcome simple_release(struct backend *backend, const struct request *request,
				   int64_t keep_ms, struct error *err)
{
	struct simple *simple = simple_of(backend);
	const struct simple_kind *kind = kind_of(simple);
	struct mysql_backend *my = &simple->my;
	const int64_t sent_ms = clock_boot_ms();
	int64_t answer = -1;
	struct words words;
	bool again = false, released;
	int there = 1;

	stop_waiting(simple, request);
	/* A client that never held the lock makes no table to release it. */
	if (!my->lease_end_ms)
		there = mysql_has_table(my, kind->table, err);
	if (there <= 0)
		return there ? OUTCOME_ERROR : OUTCOME_LOST;
	make_words(simple, request, &words);
	words_add(&words, (const struct sql_value[]){
		SQL_INT("rest", keep_ms * 1000), SQL_LAST });
	while (answer < 0) {
		if (mysql_ask(my, kind->release, words.values, &answer, err)) {
			again = true;
			if (mysql_contended(my) && clock_boot_ms() < sent_ms + my->base.timeout_ms)
				continue;
			return OUTCOME_ERROR;
		}
		again |= my->resent;
	}
	released = answer == 1 || lease_ended_by_resent(again, sent_ms, my->lease_end_ms);
	tidy(simple, request, &words);
	if (released)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: the lock's row does not have this token any more",
		  my->address.label);
	return OUTCOME_LOST;
}

/* ---- showing and breaking ---- */

static int simple_inspect(struct backend *backend, const char *name, bool listen,
			  struct lock_view *view, struct error *err)
{
	const struct request request = { .name = name };
	struct simple *simple = simple_of(backend);
	struct hold_view *hold;
	struct simple_state state;

	if (mysql_check_name(simple->my.strategy, name, err) ||
	    look(simple, &request, &state, err) ||
	    waiters_view(&simple->my, name, view, err))
		return -1;
	view->held = state.held;
	if (!state.held)
		return 0;
	hold = lock_view_add_hold(view);
	hold->holder = state.holder;
	hold->fence = view->fence = state.fence;
	hold->age_ms = state.age_us / 1000;
	hold->expires_ms = state.rest_us / 1000;
	return listen ? waiters_watch(&simple->my, err) : 0;
}

static int simple_list(struct backend *backend, struct name_list *names, struct error *err)
{
	const struct request request = { .name = "" };
	struct simple *simple = simple_of(backend);
	struct words words;
	MYSQL_RES *rows;
	int there = mysql_has_table(&simple->my, kind_of(simple)->table, err);

	if (there <= 0)
		return there;
	make_words(simple, &request, &words);
	if (mysql_run(&simple->my, kind_of(simple)->list, words.values, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_add_names(rows, names);
	return 0;
}

static int simple_break(struct backend *backend, const char *name, struct lock_view *view,
			struct error *err)
{
	const struct request request = { .name = name };
	struct simple *simple = simple_of(backend);
	struct words words;

	if (simple_inspect(backend, name, false, view, err))
		return -1;
	if (!view->held)
		return 0;
	make_words(simple, &request, &words);
	return mysql_run(&simple->my, kind_of(simple)->break_hold, words.values, MYSQL_REPEAT, NULL,
			 err);
}

const struct backend_ops simple_ops = {
	MYSQL_COMMON_SLOTS,
	.acquire = simple_acquire,
	.event = simple_event,
	.renew = simple_renew,
	.verify = simple_verify,
	.release = simple_release,
	.inspect = simple_inspect,
	.list = simple_list,
	.break_hold = simple_break,
};
