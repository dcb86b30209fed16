/* SPDX-License-Identifier: MIT */
/* Requests of the strategy lease: texts of sql/lease.sql, put together, sent, and answered. */
#include "lease_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"

/* How often statements that got in each other's way are tried again, and the pause before. */
#define ATTEMPTS 8
#define PAUSE_NS 2000000
/* How often to look for a waiter that is to be woken and is not asleep yet, and the pause. */
#define RINGS 4
#define RING_PAUSE_NS 4000000
#define LOCK_WAIT_TIMEOUT 1205
#define UNKNOWN_THREAD 1094
/* Seconds; servers take no more than the second one, a year. */
#define LEAST_IDLE 10
#define MOST_IDLE 31536000
/* How much a slice of a wait varies, so that waiters do not look all at once. */
#define JITTER_US 100000

int lease_mode(const struct request *request)
{
	switch (request->mode) {
	case HOLD_SHARED:
		return -1;
	case HOLD_SLOT:
		return request->slots;
	case HOLD_EXCLUSIVE:
	case HOLD_ANY:
		break;
	}
	return 0;
}

void lease_read_mode(int64_t number, enum hold_mode *mode, int *slots)
{
	*mode = number == 0 ? HOLD_EXCLUSIVE : number < 0 ? HOLD_SHARED : HOLD_SLOT;
	*slots = number > 0 ? (int)number : 0;
}

void lease_add_texts(struct lease_call *call, const char *const *texts)
{
	const char **place = call->texts;

	while (*place)
		place++;
	for (; *texts; texts++) {
		assert(place < call->texts + LEASE_TEXTS - 1);
		*place++ = *texts;
	}
}

/* Texts that use GET_LOCK, which some servers refuse, and those that replace them there. */
static const struct { const char *text; bool tickets; } ticket_texts[] = {
	{ sql_lease_ticket, true }, { sql_lease_drop, true }, { sql_lease_rest, true },
	{ sql_lease_target, true }, { sql_lease_sleep, true }, { sql_lease_untie, true },
	{ sql_lease_old, true }, { sql_lease_line_begin, true }, { sql_lease_line_end, true },
	{ sql_lease_overtake, true },
	{ sql_lease_no_target, false }, { sql_lease_seen_now, false },
};

static bool is_left_out(const char *text, const struct lease *lease)
{
	for (size_t i = 0; i < sizeof(ticket_texts) / sizeof(ticket_texts[0]); i++)
		if (text == ticket_texts[i].text && ticket_texts[i].tickets == lease->no_tickets)
			return true;
	return false;
}

/* The codes by which MariaDB on Galera, Percona's strict mode and proxies refuse GET_LOCK. */
static bool refuses_tickets(unsigned int code)
{
	return code == 1235 || code == 1105 || code == 1305 || code == 1289 || code == 1295;
}

static char *join(const struct lease_call *call, const struct lease *lease)
{
	size_t size = 1;
	char *joined, *end;

	for (const char *const *text = call->texts; *text; text++)
		size += strlen(*text);
	joined = end = memory_new(size, 1);
	for (const char *const *text = call->texts; *text; text++)
		if (!is_left_out(*text, lease))
			end = stpcpy(end, *text);
	return joined;
}

/*
 * Upper case, as HEX() in SQL, because some servers compare the names of locks byte by byte.
 * Returns it with its quotes.
 */
static const char *name_ticket(struct words *words)
{
	char *end = stpcpy(words->key, "'dlock-");

	for (int i = 0; i < 20; i++)
		end += sprintf(end, "%02X", words->digest[i]);
	strcpy(end, "'");
	return words->key;
}

/* For how long the server keeps a silent connection; a holder renews more often. */
static int64_t idle_seconds(const struct request *request)
{
	const int64_t ttl = request->ttl_ms / 1000;

	return ttl < LEAST_IDLE ? LEAST_IDLE : ttl > MOST_IDLE ? MOST_IDLE : ttl;
}

static void make_words(const struct lease *lease, const struct lease_call *call,
		       const struct request *request, struct words *words)
{
	const bool no_tickets = lease->no_tickets;

	words_begin(words, request, request->ttl_ms);
	words_add(words, (const struct sql_value[]){
		SQL_PART("ticket", name_ticket(words)),
		SQL_INT("mode", lease_mode(request)),
		SQL_INT("replaces", request->self.replaces),
		/* Nobody sends a waiter away that has not come, or came without the option. */
		SQL_INT("arrived", lease->arrived ? lease->arrived : INT64_MAX),
		SQL_INT("ttl", call->ttl_ms * 1000),
		SQL_INT("keep", call->keep_ms * 1000),
		SQL_INT("again", call->again),
		SQL_INT("first", call->first),
		SQL_INT("connection", lease->connection),
		SQL_INT("id", lease->place.id),
		SQL_INT("place", lease->place.number),
		SQL_INT("turn", lease->place.turn),
		SQL_INT("since", lease->place.since),
		SQL_INT("patience", call->patience),
		SQL_INT("idle", idle_seconds(request)),
		SQL_INT("slice", (no_tickets ? LEASE_SHORT_SLICE_US : LEASE_SLICE_US) -
			rand() % JITTER_US),
		SQL_BLOB("after", call->after, call->after_length),
		SQL_PART("into", call->into ? sql_lease_into : ""),
		SQL_PART("alive", no_tickets ? sql_lease_seen : sql_lease_alive),
		SQL_PART("link", no_tickets ? "NULL" : sql_lease_link),
		SQL_LAST
	});
}

static int send_once(struct lease *lease, const struct lease_call *call, enum mysql_how how,
		     MYSQL_RES **rows, struct error *err)
{
	static const struct request nobody = { .name = "", .token = "" };
	char *sql = join(call, lease);
	struct words words;
	int failed;

	make_words(lease, call, call->request ? call->request : &nobody, &words);
	failed = mysql_run(&lease->my, sql, words.values, how, rows, err);
	free(sql);
	return failed;
}

/* 0; -1: *err; 1: the statements still get in the way of others. */
static int persist(struct lease *lease, const struct lease_call *call, enum mysql_how how,
		   MYSQL_RES **rows, struct error *err)
{
	struct timespec pause = { 0 };
	bool contended = false;

	/* After a wait that ended with the lock, the rest of the answer is on its way. */
	if (lease->my.conn.pending && !lease->napping)
		mysql_drain(&lease->my, err);
	lease->my.only_looks = call->looks;
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (!send_once(lease, call, how, rows, err)) {
			/* The first statements of a request that failed may have been done. */
			lease->my.resent |= contended;
			return 0;
		}
		if (!lease->my.conn.mysql)
			return -1;
		if (call->looks && lease->my.conn.code == MYSQL_NO_SUCH_TABLE)
			return 0;
		if (!lease->no_tickets && refuses_tickets(lease->my.conn.code)) {
			lease->no_tickets = true;
			continue;
		}
		if (!mysql_code_is_contention(lease->my.conn.code))
			return -1;
		if (lease->my.conn.code == LOCK_WAIT_TIMEOUT)
			break;
		contended = true;
		pause.tv_nsec = (attempt + 1) * PAUSE_NS + rand() % PAUSE_NS;
		nanosleep(&pause, NULL);
	}
	/* Ends a transaction that was cut short, which would keep its rows locked. */
	mysql_conn_close(&lease->my.conn);
	return 1;
}

int lease_rows(struct lease *lease, const struct lease_call *call, enum mysql_how how,
	       MYSQL_RES **rows, struct error *err)
{
	return persist(lease, call, how, rows, err) ? -1 : 0;
}

/* Sends the call over the open connection, whose variables its statements build on. 0 or -1. */
static int send_here(struct lease *lease, const struct lease_call *call, MYSQL_RES **rows)
{
	struct error ignored = { 0 };

	if (lease->my.conn.pending)
		mysql_drain(&lease->my, &ignored);
	if (!lease->my.conn.mysql)
		return -1;
	lease->my.only_looks = true;
	return send_once(lease, call, MYSQL_ONCE, rows, &ignored);
}

bool lease_update(struct lease *lease, const struct lease_call *call, int64_t *rows, int64_t *id)
{
	if (send_here(lease, call, NULL))
		return false;
	*rows = (int64_t)mysql_affected_rows(lease->my.conn.mysql);
	*id = (int64_t)mysql_insert_id(lease->my.conn.mysql);
	return true;
}

bool lease_numbers(struct lease *lease, const struct lease_call *call, int64_t numbers[],
		   size_t count)
{
	MYSQL_RES *rows;

	return !send_here(lease, call, &rows) && mysql_numbers(rows, numbers, count) == count;
}

void lease_post(struct lease *lease, const struct lease_call *call)
{
	struct error ignored = { 0 };

	send_once(lease, call, MYSQL_POST, NULL, &ignored);
}

/* The columns of lease_state and lease_tell. */
#define STATE_COLUMNS 25
#define STATE_OWNER 6
#define STATE_NEWER 19

static void read_state(MYSQL_ROW row, const unsigned long *lengths, struct lease_state *state)
{
	int64_t version, *const places[STATE_COLUMNS] = {
		&version, &state->mine, &state->fence, &state->mode,
		&state->rest_us, &state->age_us, NULL, NULL, &state->open_us, &state->first,
		&state->place.id, &state->asleep, &state->ahead, &state->has_ticket, &state->done,
		&state->next, &state->dead, &state->old, &state->cluster, NULL,
		&state->arrived, &state->place.number, &state->place.turn, &state->place.since,
		&state->read_only,
	};

	for (int i = 0; i < STATE_COLUMNS; i++)
		if (places[i] && row[i])
			*places[i] = strtoll(row[i], NULL, 10);
	state->known = row[0] != NULL;
	mysql_read_holder(&state->owner, row[STATE_OWNER], lengths[STATE_OWNER]);
	state->replaced = row[STATE_NEWER] != NULL;
	mysql_read_holder(&state->newer, row[STATE_NEWER], lengths[STATE_NEWER]);
}

int lease_ask(struct lease *lease, const struct lease_call *call, enum mysql_how how,
	      struct lease_state *state, struct error *err)
{
	MYSQL_RES *rows = NULL;
	MYSQL_ROW row;
	int failed = persist(lease, call, how, &rows, err);

	*state = (struct lease_state){ .age_us = -1, .open_us = -1 };
	if (failed)
		return failed;
	/* There are no tables, which is no error for a call that only looks. */
	if (!rows && call->looks)
		return 0;
	if (!rows || mysql_num_fields(rows) != STATE_COLUMNS) {
		mysql_free_result(rows);
		return mysql_odd(&lease->my, err);
	}
	row = mysql_fetch_row(rows);
	if (row)
		read_state(row, mysql_fetch_lengths(rows), state);
	if (state->cluster)
		lease->no_tickets = true;
	mysql_free_result(rows);
	return 0;
}

void lease_ring(struct lease *lease, int64_t connection)
{
	static const struct timespec pause = { .tv_nsec = RING_PAUSE_NS };
	const struct sql_value values[] = { SQL_INT("connection", connection), SQL_LAST };
	struct error ignored = { 0 };

	if (connection <= 0)
		return;
	/* A waiter that looks at this moment may have looked too early, and is about to sleep. */
	for (int i = 0; i < RINGS; i++) {
		if (!mysql_run(&lease->my, sql_kill_query, values, MYSQL_ONCE, NULL, &ignored) ||
		    lease->my.conn.code != UNKNOWN_THREAD)
			break;
		nanosleep(&pause, NULL);
	}
}
