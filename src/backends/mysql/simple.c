/* SPDX-License-Identifier: MIT */
/* Locks that are a row with an end; see simple.h. */
#include "simple.h"

#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/hold_mode.h"
#include "lock/lease.h"
#include "lock/view.h"
#include "waiters.h"

/* A waiter's pauses: the first one, doubled each time, and the longest (SPEC, 2.7). */
#define PAUSE_FIRST_MS 50
#define PAUSE_MS 5000
/* Statements got in each other's way: again after this. */
#define CONTENTION_MS 20
/* Least pause before the end of a lease. */
#define PAUSE_LEAST_MS 20
/* Somebody gave it back between two statements: at once again, so often. */
#define ROUNDS 3

int simple_open(struct mysql_backend *my, const struct simple_kind *kind, struct error *err)
{
	struct simple *simple = calloc(1, sizeof(*simple));

	if (!simple) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	simple->kind = kind;
	my->state = simple;
	return 0;
}

void simple_close(struct mysql_backend *my)
{
	free(my->state);
	my->state = NULL;
}

/* ---- requests ---- */

void simple_make_words(const struct mysql_backend *my, const struct request *request,
		       const struct simple_extra *extra, struct simple_words *words)
{
	const struct simple *simple = simple_of(my);
	const char *token = request->token ? request->token : "";
	struct request noted = *request;

	sha256(token, strlen(token), words->digest);
	memcpy(words->by, "dlock-", 6);
	for (int i = 0; i < 16; i++)
		snprintf(words->by + 6 + 2 * i, 3, "%02x", words->digest[i]);
	noted.self.ttl_ms = request->ttl_ms;
	simple->kind->encode(&noted, words->by, words->owner);
	waiters_mark(simple->kind->mark, request->name, words->mark);
	waiters_comment(words->mark, request, words->comment);
	memcpy(words->values, (struct sql_value[]){
		SQL_TEXT("name", request->name),
		SQL_BLOB("token", words->digest, sizeof(words->digest)),
		SQL_TEXT("by", words->by),
		SQL_TEXT("owner", words->owner),
		SQL_INT("ttl", request->ttl_ms * 1000),
		SQL_INT("usual", BACKEND_TTL_MS * 1000),
		SQL_INT("keep", request->min_hold_ms * 1000),
		SQL_INT("rest", extra->keep_ms * 1000),
		SQL_INT("one", extra->one),
		SQL_INT("step", extra->step),
		SQL_INT("holds", extra->holds),
		SQL_INT("pause", extra->pause_ms),
		SQL_PART("waiter", words->comment),
		SQL_PART("zone", simple->zone),
		SQL_LAST
	}, 15 * sizeof(struct sql_value));
}

const struct simple_extra simple_no_extra = { .one = false };

static int read_state(const struct simple *simple, MYSQL_RES *rows, struct simple_state *state)
{
	MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
	const unsigned long *lengths = row ? mysql_fetch_lengths(rows) : NULL;

	*state = (struct simple_state){ .held = row };
	if (!row)
		return 0;
	if (mysql_num_fields(rows) != 6)
		return -1;
	for (int i = 0; i < 6; i++)
		if (!row[i])
			return -1;
	state->mine = row[0][0] == '1';
	state->fence = strtoull(row[1], NULL, 10);
	state->age_us = strtoll(row[2], NULL, 10);
	state->rest_us = strtoll(row[3], NULL, 10);
	state->holds = strtoll(row[4], NULL, 10);
	simple->kind->decode(&state->holder, row[5], lengths[5]);
	return 0;
}

int simple_run(struct mysql_backend *my, const char *sql, const struct sql_value values[],
	       MYSQL_RES **rows, struct error *err)
{
	struct simple *simple = simple_of(my);
	unsigned long connection;
	int result;

	/* An old one is of no use to who waits no more. */
	if (my->conn.pending)
		mysql_conn_close(&my->conn);
	if (mysql_connect(my, err))
		return -1;
	connection = mysql_thread_id(my->conn.mysql);
	result = mysql_run(my, sql, values, MYSQL_REPEAT, rows, err);
	if (my->resent || !my->conn.mysql)
		simple->stale = connection;
	return result;
}

/* Ends what simple_run() may have left. */
static void end_stale(struct mysql_backend *my)
{
	struct simple *simple = simple_of(my);
	const struct sql_value values[] = {
		SQL_INT("connection", (int64_t)simple->stale), SQL_LAST
	};
	struct error ignored = { 0 };

	if (simple->stale)
		mysql_run(my, sql_kill_connection, values, MYSQL_ONCE, NULL, &ignored);
	simple->stale = 0;
}

int simple_ask(struct mysql_backend *my, const char *sql, const struct request *request,
	       struct simple_state *state, struct error *err)
{
	struct simple_words words;
	MYSQL_RES *rows;
	int failed;

	simple_make_words(my, request, &simple_no_extra, &words);
	if (simple_run(my, sql, words.values, &rows, err))
		return -1;
	failed = read_state(simple_of(my), rows, state);
	mysql_free_result(rows);
	if (failed)
		mysql_odd(my, err);
	return failed;
}

int simple_exists(struct mysql_backend *my, struct error *err)
{
	static const struct sql_value none[] = { SQL_LAST };
	int64_t count = 0;
	MYSQL_RES *rows;

	if (mysql_run(my, simple_of(my)->kind->exists, none, MYSQL_REPEAT, &rows, err))
		return -1;
	mysql_numbers(rows, &count, 1);
	mysql_free_result(rows);
	return count > 0;
}

bool simple_contended(const struct mysql_backend *my)
{
	return my->conn.mysql && mysql_code_is_contention(my->conn.code);
}

/* ---- taking ---- */

int simple_refuse(const struct simple *simple, const struct request *request,
		  struct error *err)
{
	if (request->mode == HOLD_SLOT)
		error_set(err, ERROR_USAGE, 0, "%s has no --slots; ?strategy=lease has",
			  simple->kind->name);
	else if (request->mode == HOLD_SHARED)
		error_set(err, ERROR_USAGE, 0, "%s has no shared holds; ?strategy=lease has",
			  simple->kind->name);
	else
		return simple->kind->admit(request->name, err);
	return -1;
}

/* Sleeps in a statement, so that others can see who waits. */
static int doze(struct mysql_backend *my, const struct request *request, int64_t pause_ms,
		struct error *err)
{
	const struct simple_extra extra = { .pause_ms = pause_ms };
	struct simple_words words;

	simple_make_words(my, request, &extra, &words);
	return mysql_start(my, sql_simple_doze, words.values, err);
}

static int64_t jitter(int64_t pause_ms)
{
	return pause_ms - rand() % (pause_ms / 4 + 1);
}

/* Somebody else has it: for how long is there no point in looking? */
static int64_t next_pause(struct simple *simple, const struct simple_state *state)
{
	const int64_t rest_ms = state->rest_us / 1000 + 1;

	simple->pause_ms = simple->pause_ms ? 2 * simple->pause_ms : PAUSE_FIRST_MS;
	if (simple->pause_ms > PAUSE_MS)
		simple->pause_ms = PAUSE_MS;
	if (rest_ms < simple->pause_ms)
		return rest_ms < PAUSE_LEAST_MS ? PAUSE_LEAST_MS : rest_ms;
	return jitter(simple->pause_ms);
}

static enum outcome busy(struct mysql_backend *my, const struct request *request,
			 const struct simple_state *state, struct grant *grant)
{
	struct simple *simple = simple_of(my);
	int64_t pause_ms = CONTENTION_MS;
	struct error ignored = { 0 };

	grant->holder = state->holder;
	grant->age_ms = state->held ? state->age_us / 1000 : -1;
	grant->ahead = -1;
	if (state->held)
		pause_ms = next_pause(simple, state);
	/* The statement's end wakes us; should the server hang, the clock does. */
	grant->retry_ms = clock_boot_ms() + pause_ms + (request->queue ? my->base.timeout_ms : 0);
	/* A connection that breaks only now is made anew when it is needed. */
	if (request->queue)
		simple->waiting = !doze(my, request, pause_ms, &ignored);
	return OUTCOME_BUSY;
}

enum outcome simple_acquire(struct mysql_backend *my, const struct request *request,
			    struct grant *grant, struct error *err)
{
	struct simple *simple = simple_of(my);
	struct simple_state state = { .held = false };

	if (simple_refuse(simple, request, err))
		return OUTCOME_ERROR;
	if (simple->waiting && my->conn.pending)
		mysql_poll(my);
	end_stale(my);
	/* Of those who wait, each looks before it locks the row to see. */
	if (simple->waiting && simple_ask(my, simple->kind->look, request, &state, err))
		return OUTCOME_ERROR;
	simple->waiting = false;
	for (int round = 0; round < ROUNDS && (!state.held || state.mine); round++) {
		grant->sent_ms = clock_boot_ms();
		grant->ttl_ms = request->ttl_ms;
		if (simple_ask(my, simple->kind->take, request, &state, err)) {
			if (!simple_contended(my))
				return OUTCOME_ERROR;
			state.held = false;
			break;
		}
		if (!state.mine)
			continue;
		simple->pause_ms = 0;
		simple->lease_end_ms = lease_end(grant->sent_ms, grant->ttl_ms);
		grant->fence = state.fence;
		return OUTCOME_HELD;
	}
	return busy(my, request, &state, grant);
}

int64_t simple_event(struct mysql_backend *my)
{
	if (my->conn.pending)
		return mysql_poll(my) ? 0 : CLOCK_NEVER;
	return mysql_is_gone(my) && simple_of(my)->waiting ? 0 : CLOCK_NEVER;
}

/* ---- holding ---- */

static void say_lost(const struct mysql_backend *my, const struct simple_state *state,
		     struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, state->held ? "%s: somebody else has it now"
						     : "%s: its row has expired or is gone",
		  my->address.label);
}

enum outcome simple_renew(struct mysql_backend *my, const struct request *request,
			  struct grant *grant, struct error *err)
{
	const int64_t sent_ms = clock_boot_ms();
	struct simple *simple = simple_of(my);
	struct simple_state state;

	if (simple_ask(my, simple->kind->renew, request, &state, err))
		return OUTCOME_ERROR;
	if (!state.mine) {
		say_lost(my, &state, err);
		return OUTCOME_LOST;
	}
	grant->sent_ms = sent_ms;
	/* By which TTL, the row says; where there is no room for that, how long it lasts. */
	grant->ttl_ms = state.holder.ttl_ms ? state.holder.ttl_ms : state.rest_us / 1000;
	simple->lease_end_ms = lease_end(sent_ms, grant->ttl_ms);
	return OUTCOME_HELD;
}

int simple_look(struct mysql_backend *my, const struct request *request,
		struct simple_state *state, struct error *err)
{
	int there = simple_exists(my, err);

	*state = (struct simple_state){ .held = false };
	if (there > 0)
		return simple_ask(my, simple_of(my)->kind->look, request, state, err);
	return there;
}

enum outcome simple_verify(struct mysql_backend *my, const struct request *request,
			   struct error *err)
{
	struct simple_state state;

	if (simple_look(my, request, &state, err))
		return OUTCOME_ERROR;
	if (!state.mine)
		return OUTCOME_LOST;
	return hold_mode_covers(HOLD_EXCLUSIVE, 0, request, err);
}

/* Neither may fail what has been done. */
static void tidy(struct mysql_backend *my, const struct request *request,
		 const struct simple_words *words)
{
	const struct simple_kind *kind = simple_of(my)->kind;
	struct error ignored = { 0 };

	if (request->forget)
		mysql_run(my, kind->forget, words->values, MYSQL_ONCE, NULL, &ignored);
	else if (kind->purge)
		mysql_run(my, kind->purge, words->values, MYSQL_ONCE, NULL, &ignored);
}

/* One acquisition less, but not the last one: see RELEASE_COUNTED. */
static enum outcome release_counted(struct mysql_backend *my, const struct request *request,
				    struct error *err)
{
	enum outcome outcome = simple_count_down(my, request, err);

	if (outcome == OUTCOME_HELD)
		return OUTCOME_BUSY;
	return outcome == OUTCOME_BUSY ? OUTCOME_HELD : outcome;
}

enum outcome simple_release(struct mysql_backend *my, const struct request *request,
			    enum release how, int64_t keep_ms, struct error *err)
{
	const struct simple_extra extra = { .keep_ms = keep_ms, .one = how == RELEASE_ONE };
	const int64_t sent_ms = clock_boot_ms();
	struct simple *simple = simple_of(my);
	enum outcome outcome = OUTCOME_LOST;
	int64_t answer = -1;
	struct simple_words words;
	MYSQL_RES *rows;
	int there = 1;
	bool again = false, released;

	if (how == RELEASE_COUNTED)
		return release_counted(my, request, err);
	if (simple->waiting) {
		simple->waiting = false;
		if (my->conn.mysql)
			waiters_leave(my);
	}
	end_stale(my);
	/* Who never held it makes no table for that. */
	if (!simple->lease_end_ms)
		there = simple_exists(my, err);
	if (there <= 0)
		return there ? OUTCOME_ERROR : OUTCOME_LOST;
	simple_make_words(my, request, &extra, &words);
	while (answer < 0 || answer == 2) {
		if (extra.one && simple->kind->count)
			outcome = simple_count_down(my, request, err);
		if (outcome == OUTCOME_HELD)
			return OUTCOME_BUSY;
		if (outcome == OUTCOME_ERROR)
			return outcome;
		if (mysql_run(my, simple->kind->release, words.values, MYSQL_REPEAT, &rows, err)) {
			again = true;
			if (simple_contended(my) && clock_boot_ms() < sent_ms + my->base.timeout_ms)
				continue;
			return OUTCOME_ERROR;
		}
		again |= my->resent;
		mysql_numbers(rows, &answer, 1);
		mysql_free_result(rows);
	}
	/* Sent twice within the lease: it was the first one that released. */
	released = answer == 1 || (again && sent_ms < simple->lease_end_ms);
	tidy(my, request, &words);
	if (released)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: it was not ours any more", my->address.label);
	return OUTCOME_LOST;
}
