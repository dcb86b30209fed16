/* SPDX-License-Identifier: MIT */
/* Requests of the strategy lease: texts from sql/, put together, sent, answered. */
#include "api.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "lease.h"

/* So often statements that got in each other's way are tried again at once. */
#define ATTEMPTS 8
#define PAUSE_NS 2000000
/* So often is a waiter looked for who is not asleep. */
#define RINGS 4
#define RING_PAUSE_NS 4000000
#define LOCK_WAIT_TIMEOUT 1205
#define UNKNOWN_THREAD 1094
#define UNKNOWN_STATEMENT 1243
/* Seconds; the second one is what servers take at most. */
#define LEAST_IDLE 10
#define MOST_IDLE 31536000
/* How much a slice of a wait varies, so that waiters do not look all at once. */
#define JITTER_US 100000

/* The columns of sql/lease_state.sql and lease_tell.sql. */
enum state {
	STATE_VERSION, STATE_MINE, STATE_FENCE, STATE_HOLDS, STATE_MODE, STATE_REST, STATE_AGE,
	STATE_OWNER, STATE_HOLDER, STATE_OPEN, STATE_FIRST, STATE_IN_LINE, STATE_ASLEEP,
	STATE_AHEAD, STATE_TICKET, STATE_DONE, STATE_NEXT, STATE_DEAD, STATE_OLD, STATE_CLUSTER,
	STATES
};

/* What is prepared, by names of ours. */
static const struct { const char *name, *text; } statements[LEASE_STATEMENTS] = {
	[LEASE_TURN] = { "dlock_turn", sql_lease_turn },
	[LEASE_LET_GO] = { "dlock_let_go", sql_lease_let_go },
};

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

void lease_add_now(struct lease_call *call, const char *more, const char *yet_more)
{
	lease_add(call, sql_lease_now);
	if (more)
		lease_add(call, more);
	if (yet_more)
		lease_add(call, yet_more);
	lease_add(call, ";\n");
}

void lease_add(struct lease_call *call, const char *text)
{
	const char **place = call->texts;

	while (*place)
		place++;
	assert(place < call->texts + LEASE_TEXTS - 1);
	*place = text;
}

void lease_add_prepare(struct lease_call *call, enum lease_statement statement)
{
	call->statement = statement;
	lease_add(call, sql_lease_prepare);
}

bool lease_is_prepared(const struct mysql_backend *my, enum lease_statement statement)
{
	return my->conn.mysql && lease_of(my)->prepared[statement] == my->conn.generation;
}

static bool has_text(const struct lease_call *call, const char *text)
{
	for (const char *const *t = call->texts; *t; t++)
		if (*t == text)
			return true;
	return false;
}

/* Texts that use GET_LOCK or PREPARE, which some servers refuse, and those for there. */
static bool is_left_out(const char *text, const struct lease *lease)
{
	const char *const with[] = { sql_lease_ticket, sql_lease_drop, sql_lease_rest,
				     sql_lease_target, sql_lease_sleep, sql_lease_untie,
				     sql_lease_old, sql_lease_prepare,
				     sql_lease_line_begin, sql_lease_line_end };
	const char *const without[] = { sql_lease_no_target, sql_lease_seen_now };
	const bool no_tickets = lease->no_tickets;

	if (lease->unprepared && text == sql_lease_prepare)
		return true;
	for (size_t i = 0; no_tickets && i < sizeof(with) / sizeof(with[0]); i++)
		if (text == with[i])
			return true;
	for (size_t i = 0; !no_tickets && i < sizeof(without) / sizeof(without[0]); i++)
		if (text == without[i])
			return true;
	return false;
}

/* How the refusal may be put: by MariaDB on Galera, Percona's strict mode, proxies. */
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
	joined = end = malloc(size);
	if (!joined)
		return NULL;
	*end = '\0';
	for (const char *const *text = call->texts; *text; text++)
		if (!is_left_out(*text, lease))
			end = stpcpy(end, *text);
	return joined;
}

/* Upper case, as HEX() in SQL: names are compared byte by byte by some servers. */
static void name_ticket(const unsigned char digest[SHA256_SIZE],
			char ticket[TICKET_SIZE + 2])
{
	char *end = stpcpy(ticket, "'dlock-");

	for (int i = 0; i < 20; i++)
		end += sprintf(end, "%02X", digest[i]);
	strcpy(end, "'");
}

/* For how long the server keeps a connection that says nothing; who holds, renews. */
static int64_t idle_seconds(const struct request *request)
{
	const int64_t ttl = request->ttl_ms / 1000;

	return ttl < LEAST_IDLE ? LEAST_IDLE : ttl > MOST_IDLE ? MOST_IDLE : ttl;
}

typedef int (*runner)(struct mysql_backend *, const char *, const struct sql_value[],
		      enum mysql_repeat, MYSQL_RES **, struct error *);

static int send_once(struct mysql_backend *my, const struct lease_call *call, runner how,
		     MYSQL_RES **rows, struct error *err)
{
	static const struct request nobody = { .name = "", .token = "" };
	const struct request *request = call->request ? call->request : &nobody;
	const bool no_tickets = lease_of(my)->no_tickets;
	unsigned char digest[SHA256_SIZE];
	char ticket[TICKET_SIZE + 2], owner[HOLDER_TEXT_SIZE];
	struct holder self = request->self;
	const bool prepares = has_text(call, sql_lease_prepare);
	char *sql = join(call, lease_of(my)), *statement = NULL;
	int failed;

	if (!sql) {
		error_set(err, ERROR_INTERNAL, 0, "out of memory");
		return -1;
	}
	sha256(request->token, strlen(request->token), digest);
	name_ticket(digest, ticket);
	self.ttl_ms = request->ttl_ms;
	holder_encode(&self, owner);
	{
		struct sql_value values[] = {
			SQL_TEXT("statement", ""),
			SQL_PART("prepared", statements[call->statement].name),
			SQL_TEXT("name", request->name),
			SQL_BLOB("token", digest, sizeof(digest)),
			SQL_PART("ticket", ticket),
			SQL_PART("tickets", no_tickets ? "0" : "1"),
			SQL_TEXT("owner", owner),
			SQL_INT("mode", lease_mode(request)),
			SQL_INT("ttl", call->ttl_ms * 1000),
			SQL_INT("usual", BACKEND_TTL_MS * 1000),
			SQL_INT("keep", call->keep_ms * 1000),
			SQL_INT("all", call->all),
			SQL_INT("again", call->again),
			SQL_INT("holds", call->holds),
			SQL_INT("step", call->step),
			SQL_INT("first", call->first),
			SQL_INT("connection", lease_of(my)->connection),
			SQL_INT("patience", call->patience),
			SQL_INT("idle", idle_seconds(request)),
			SQL_INT("slice", (no_tickets ? LEASE_SHORT_SLICE_US : LEASE_SLICE_US) -
				rand() % JITTER_US),
			SQL_BLOB("after", call->after, call->after_length),
			SQL_PART("into", call->into ? sql_lease_into : ""),
			SQL_PART("alive", no_tickets ? sql_lease_seen : sql_lease_alive),
			SQL_PART("link", no_tickets ? "NULL" : sql_lease_link),
			SQL_LAST
		};

		if (prepares)
			statement = sql_format(statements[call->statement].text, values);
		if (statement) {
			values[0].bytes = statement;
			values[0].length = strlen(statement);
		}
		failed = how(my, sql, values, MYSQL_REPEAT, rows, err);
	}
	if (prepares && !failed)
		lease_of(my)->prepared[call->statement] = my->conn.generation;
	free(statement);
	free(sql);
	return failed;
}

/* 0; -1: *err; 1: in the way of others, still. */
static int persist(struct mysql_backend *my, const struct lease_call *call, runner how,
		   MYSQL_RES **rows, struct error *err)
{
	struct lease *lease = lease_of(my);
	struct timespec pause = { 0 };
	bool contended = false;

	/* Of a wait that ended with the lock, the rest of the answer is on its way. */
	if (my->conn.pending && !lease->napping)
		mysql_drain(my, err);
	my->only_looks = call->looks;
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (!send_once(my, call, how, rows, err)) {
			/* Of a request that failed, the first statements may have been done. */
			my->resent |= contended;
			return 0;
		}
		if (!my->conn.mysql)
			return -1;
		if (call->looks && my->conn.code == MYSQL_NO_SUCH_TABLE)
			return 0;
		/* Of what is prepared there may be too much, or no such thing. */
		if (!lease->unprepared && has_text(call, sql_lease_prepare) &&
		    !mysql_code_is_contention(my->conn.code)) {
			lease->unprepared = true;
			continue;
		}
		if (!lease->no_tickets && refuses_tickets(my->conn.code)) {
			lease->no_tickets = true;
			continue;
		}
		if (!mysql_code_is_contention(my->conn.code))
			return -1;
		if (my->conn.code == LOCK_WAIT_TIMEOUT)
			break;
		contended = true;
		pause.tv_nsec = (attempt + 1) * PAUSE_NS + rand() % PAUSE_NS;
		nanosleep(&pause, NULL);
	}
	/* A transaction that was cut short must not keep its rows meanwhile. */
	mysql_conn_close(&my->conn);
	return 1;
}

int lease_rows(struct mysql_backend *my, const struct lease_call *call,
	       MYSQL_RES **rows, struct error *err)
{
	return persist(my, call, mysql_run, rows, err) ? -1 : 0;
}

int lease_begin_rows(struct mysql_backend *my, const struct lease_call *call,
		     MYSQL_RES **rows, struct error *err)
{
	return persist(my, call, mysql_begin, rows, err) ? -1 : 0;
}

/* A second try would be on another connection, which remembers nothing. */
static int run_once(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		    enum mysql_repeat repeat, MYSQL_RES **rows, struct error *err)
{
	(void)repeat;
	return mysql_run(my, sql, values, MYSQL_ONCE, rows, err);
}

bool lease_update(struct mysql_backend *my, const struct lease_call *call,
		  enum lease_statement statement, int64_t *rows, int64_t *id)
{
	bool prepared = lease_is_prepared(my, statement), failed;
	struct error ignored = { 0 };

	if (my->conn.pending)
		mysql_drain(my, &ignored);
	/* A new connection would know nothing of what this is about. */
	if (!my->conn.mysql)
		return false;
	my->only_looks = true;
	for (;;) {
		struct lease_call whole = *call;

		whole.statement = statement;
		lease_add(&whole, prepared ? sql_lease_execute : statements[statement].text);
		failed = send_once(my, &whole, run_once, NULL, &ignored);
		if (!failed || !prepared || !my->conn.mysql ||
		    my->conn.code != UNKNOWN_STATEMENT)
			break;
		prepared = false;
	}
	if (failed)
		return false;
	*rows = (int64_t)mysql_affected_rows(my->conn.mysql);
	*id = (int64_t)mysql_insert_id(my->conn.mysql);
	return true;
}

static int post(struct mysql_backend *my, const char *sql, const struct sql_value values[],
		enum mysql_repeat repeat, MYSQL_RES **rows, struct error *err)
{
	(void)repeat;
	(void)rows;
	(void)err;
	mysql_post(my, sql, values);
	return 0;
}

void lease_post(struct mysql_backend *my, const struct lease_call *call)
{
	struct error ignored = { 0 };

	send_once(my, call, post, NULL, &ignored);
}

static int64_t number(MYSQL_ROW row, enum state column, int64_t otherwise)
{
	return row[column] ? strtoll(row[column], NULL, 10) : otherwise;
}

static void read_state(MYSQL_ROW row, unsigned long owner_length, struct lease_state *state)
{
	state->known = row[STATE_VERSION] != NULL;
	state->mine = number(row, STATE_MINE, 0) > 0;
	state->fence = row[STATE_FENCE] ? strtoull(row[STATE_FENCE], NULL, 10) : 0;
	state->holds = number(row, STATE_HOLDS, 0);
	state->mode = (int)number(row, STATE_MODE, 0);
	state->rest_us = number(row, STATE_REST, 0);
	state->age_us = number(row, STATE_AGE, -1);
	if (!row[STATE_OWNER] || holder_decode(&state->owner, row[STATE_OWNER], owner_length))
		state->owner = (struct holder){ 0 };
	state->in_line = number(row, STATE_IN_LINE, 0) > 0;
	state->asleep = number(row, STATE_ASLEEP, 0) > 0;
	state->first = number(row, STATE_FIRST, 0);
	state->open_us = number(row, STATE_OPEN, -1);
	state->ahead = number(row, STATE_AHEAD, 0);
	state->has_ticket = number(row, STATE_TICKET, 0) > 0;
	state->done = number(row, STATE_DONE, 0) > 0;
	state->next = number(row, STATE_NEXT, 0);
	state->dead = number(row, STATE_DEAD, 0) > 0;
	state->old = number(row, STATE_OLD, 0);
	state->cluster = number(row, STATE_CLUSTER, 0) > 0;
}

int lease_ask(struct mysql_backend *my, const struct lease_call *call, bool begin,
	      struct lease_state *state, struct error *err)
{
	MYSQL_RES *rows = NULL;
	MYSQL_ROW row;
	int failed = persist(my, call, begin ? mysql_begin : mysql_run, &rows, err);

	*state = (struct lease_state){ .known = false };
	if (failed)
		return failed;
	/* A lock without a row; or, for who only looks, without tables. */
	if (!rows && call->looks)
		return 0;
	if (!rows || mysql_num_fields(rows) != STATES) {
		mysql_free_result(rows);
		mysql_odd(my, err);
		return -1;
	}
	row = mysql_fetch_row(rows);
	if (row)
		read_state(row, mysql_fetch_lengths(rows)[STATE_OWNER], state);
	lease_of(my)->no_tickets |= state->cluster;
	mysql_free_result(rows);
	return 0;
}

/* The number is the server's own. false: no such one; else what comes of it shows how it went. */
static bool kill_one(struct mysql_backend *my, const char *sql, int64_t connection)
{
	const struct sql_value values[] = { SQL_INT("connection", connection), SQL_LAST };
	struct error ignored = { 0 };

	return !mysql_run(my, sql, values, MYSQL_ONCE, NULL, &ignored) ||
		my->conn.code != UNKNOWN_THREAD;
}

void lease_ring(struct mysql_backend *my, int64_t connection)
{
	static const struct timespec pause = { .tv_nsec = RING_PAUSE_NS };

	if (connection <= 0)
		return;
	/* Who looks at this moment may have looked too early, and is about to sleep. */
	for (int i = 0; i < RINGS && !kill_one(my, sql_kill_query, connection); i++)
		nanosleep(&pause, NULL);
}

void lease_end_connection(struct mysql_backend *my, int64_t connection)
{
	if (connection > 0)
		kill_one(my, sql_kill_connection, connection);
}
