/* SPDX-License-Identifier: MIT */
/*
 * The dialect shedlock: a lock is a row with an end by the server's clock. The digest of the token
 * begins locked_by, the holder record follows, and locked_at is the fence. Nobody wakes a waiter
 * when the lock becomes free: waiters look, less and less often.
 */
#include "shedlock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/holder.h"
#include "lock/lease.h"
#include "lock/uri.h"
#include "lock/view.h"

/* Characters that the column locked_by has room for. */
#define LOCKED_BY_CHARACTERS 255
/* "dlock-" and 32 hex digits of the token's digest. */
#define BY_LENGTH 38
/* A waiter's first pause, which doubles each time, and the longest one. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS 5000
/* How long a request to take is repeated while others get in its way; a waiter comes again. */
#define TAKE_MS 200
/* How often to try at once again when the lock was released between two statements. */
#define ROUNDS 3

/* The columns of shedlock_state. All but the last one are NULL when nobody holds the lock. */
enum column {
	COLUMN_MINE, COLUMN_FENCE, COLUMN_AGE, COLUMN_LEFT, COLUMN_OWNER, COLUMN_READ_ONLY, COLUMNS
};

struct state {
	bool held, mine, read_only;
	uint64_t fence;
	int64_t age_ms, left_ms;
	char owner[3 * LOCKED_BY_CHARACTERS + 1];
};

static struct shedlock *shedlock_of(struct backend *backend)
{
	return (struct shedlock *)backend;
}

/* ---- locked_by ---- */

/* Write "dlock-DIGEST " and the holder record, cut to what the column has room for. */
static void encode_owner(const char *by, const char *text, char owner[static HOLDER_TEXT_SIZE])
{
	struct holder self = { 0 };
	char *const parts[] = { self.note, self.command, self.user, self.host };
	char record[HOLDER_TEXT_SIZE];
	size_t room;

	holder_decode(&self, text, strlen(text));
	/* Percent-encoded names in another script may be too long. */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (room = strlen(parts[i]); holder_encode(&self, record) + BY_LENGTH + 1 >
		     LOCKED_BY_CHARACTERS && room > 0; )
			parts[i][--room] = '\0';
	snprintf(owner, HOLDER_TEXT_SIZE, "%s %.*s", by, HOLDER_TEXT_SIZE - BY_LENGTH - 2, record);
}

/* The holder record in locked_by. Java's ShedLock writes the name of the host there. */
static void show_owner(const struct state *state, struct rows *rows)
{
	char host[3 * sizeof(state->owner) + 8] = "host=";
	const size_t length = strlen(state->owner);
	struct row *row;

	if (length > BY_LENGTH && !strncmp(state->owner, "dlock-", 6) &&
	    state->owner[BY_LENGTH] == ' ') {
		row = rows_add(rows, state->owner + BY_LENGTH + 1, length - BY_LENGTH - 1);
		snprintf(row->id, sizeof(row->id), "%.32s", state->owner + 6);
	} else {
		uri_encode(state->owner, length, host + 5, sizeof(host) - 5);
		row = rows_add(rows, host, strlen(host));
	}
	row->holds = true;
	row->mine = state->mine;
	row->fence = state->fence;
	row->age_ms = state->age_ms;
	row->left_ms = state->left_ms;
}

/* ---- requests ---- */

struct shedlock_params {
	struct params params;
	char by[BY_LENGTH + 1];
	char owner[HOLDER_TEXT_SIZE];
};

static void make_params(struct shedlock *shedlock, const struct request *request,
			struct shedlock_params *p)
{
	params_begin(&p->params, &shedlock->my, request);
	memcpy(p->by, "dlock-", 6);
	for (int i = 0; i < 16; i++)
		snprintf(p->by + 6 + 2 * i, 3, "%02x", p->params.digest[i]);
	encode_owner(p->by, request->text ? request->text : "", p->owner);
	params_add(&p->params, (const struct sql_value[]){
		SQL_TEXT("by", p->by),
		SQL_TEXT("owner", p->owner),
		SQL_INT("changes", request->text != NULL),
		SQL_INT("ttl", request->ttl_ms * 1000),
		SQL_INT("keep", request->keep_ms * 1000),
		SQL_PART("zone", shedlock->zone),
		SQL_LAST
	});
}

/* Frees rows. */
static void read_state(MYSQL_RES *rows, struct state *state)
{
	MYSQL_ROW row = mysql_fetch_row(rows);

	*state = (struct state){ .read_only = row[COLUMN_READ_ONLY] &&
				 row[COLUMN_READ_ONLY][0] != '0' };
	if (row[COLUMN_MINE] && row[COLUMN_FENCE] && row[COLUMN_AGE] && row[COLUMN_LEFT] &&
	    row[COLUMN_OWNER]) {
		state->held = true;
		state->mine = row[COLUMN_MINE][0] == '1';
		state->fence = strtoull(row[COLUMN_FENCE], NULL, 10);
		state->age_ms = strtoll(row[COLUMN_AGE], NULL, 10) / 1000;
		state->left_ms = strtoll(row[COLUMN_LEFT], NULL, 10) / 1000;
		snprintf(state->owner, sizeof(state->owner), "%s", row[COLUMN_OWNER]);
	}
	mysql_free_result(rows);
}

/* Run one of the texts that end with the state. 0 or -1. */
static int request_state(struct shedlock *shedlock, const char *sql, const struct request *request,
			 struct state *state, struct error *err)
{
	struct mysql_backend *my = &shedlock->my;
	struct shedlock_params p;
	MYSQL_RES *rows;

	make_params(shedlock, request, &p);
	if (mysql_persist(my, &my->conn, sql, p.params.values, TAKE_MS, COLUMNS, &rows, err))
		return -1;
	read_state(rows, state);
	return 0;
}

/* The same for a text that takes or extends: on a server that is read-only it has failed. */
static int change(struct shedlock *shedlock, const char *sql, const struct request *request,
		  struct state *state, struct error *err)
{
	if (request_state(shedlock, sql, request, state, err))
		return -1;
	return state->read_only && !state->mine
		? mysql_read_only(&shedlock->my, &shedlock->my.conn, err) : 0;
}

/* ---- taking ---- */

static int64_t next_try(struct shedlock *shedlock, const struct state *state)
{
	int64_t pause_ms = shedlock->pause_ms ? 2 * shedlock->pause_ms : PAUSE_FIRST_MS;

	pause_ms = clock_earlier(pause_ms, PAUSE_LAST_MS);
	shedlock->pause_ms = pause_ms;
	/* Waiters that came together are not to look together. */
	pause_ms -= rand() % (pause_ms / 4 + 1);
	if (state->held)
		pause_ms = clock_earlier(pause_ms, state->left_ms + 2);
	return clock_boot_ms() + pause_ms;
}

static enum outcome shedlock_acquire(struct backend *backend, const struct request *request,
				     struct grant *grant, struct error *err)
{
	struct shedlock *shedlock = shedlock_of(backend);
	struct state state = { .held = false };

	if (mysql_check_name(&shedlock->my, request->name, err))
		return OUTCOME_ERROR;
	/* Each of many waiters looks, before it locks the row to try. */
	if (shedlock->pause_ms && request_state(shedlock, sql_shedlock_look, request, &state, err))
		return OUTCOME_ERROR;
	for (int round = 0; round < ROUNDS && (!state.held || state.mine); round++) {
		grant->sent_ms = clock_boot_ms();
		grant->ttl_ms = request->ttl_ms;
		if (change(shedlock, sql_shedlock_take, request, &state, err)) {
			if (!mysql_contended(&shedlock->my.conn))
				return OUTCOME_ERROR;
			break;
		}
		if (!state.mine)
			continue;
		shedlock->pause_ms = 0;
		grant->fence = state.fence;
		return OUTCOME_HELD;
	}
	grant->retry_ms = next_try(shedlock, &state);
	return OUTCOME_BUSY;
}

/* Nothing comes on the connection but its end, after which the next request opens another one. */
static int64_t shedlock_event(struct backend *backend)
{
	mysql_conn_close(&mysql_from_backend(backend)->conn);
	return CLOCK_NEVER;
}

/* ---- holding ---- */

static enum outcome shedlock_renew(struct backend *backend, const struct request *request,
				   struct grant *grant, struct error *err)
{
	struct shedlock *shedlock = shedlock_of(backend);
	struct state state;

	grant->sent_ms = clock_boot_ms();
	grant->ttl_ms = request->ttl_ms;
	if (request_state(shedlock, sql_shedlock_renew, request, &state, err))
		return OUTCOME_ERROR;
	if (state.read_only) {
		mysql_read_only(&shedlock->my, &shedlock->my.conn, err);
		return OUTCOME_ERROR;
	}
	if (!state.mine) {
		error_set(err, ERROR_REFUSED, 0, state.held ? "%s: somebody else has it now"
							    : "%s: its row has expired or is gone",
			  shedlock->my.address.label);
		return OUTCOME_LOST;
	}
	grant->fence = state.fence;
	return OUTCOME_HELD;
}

/* Run a text that ends with how many rows it changed. */
static enum outcome change_rows(struct shedlock *shedlock, const char *sql,
				const struct shedlock_params *p, struct error *err)
{
	struct mysql_backend *my = &shedlock->my;
	MYSQL_RES *rows;
	int64_t count;
	int failed;

	my->only_looks = true;
	failed = mysql_persist(my, &my->conn, sql, p->params.values, my->base.timeout_ms, 1, &rows,
			       err);
	my->only_looks = false;
	if (failed && !(my->conn.mysql && my->conn.code == MYSQL_NO_SUCH_TABLE))
		return OUTCOME_ERROR;
	mysql_numbers(rows, &count, 1);
	if (count > 0)
		return OUTCOME_HELD;
	error_set(err, ERROR_REFUSED, 0, "%s: the lock's row does not have this token any more",
		  my->address.label);
	return OUTCOME_LOST;
}

static enum outcome shedlock_release(struct backend *backend, const struct request *request,
				     struct error *err)
{
	struct shedlock *shedlock = shedlock_of(backend);
	struct shedlock_params p;

	shedlock->pause_ms = 0;
	make_params(shedlock, request, &p);
	return change_rows(shedlock, sql_shedlock_release, &p, err);
}

/* ---- showing and breaking ---- */

static int show_names(struct shedlock *shedlock, const struct request *request, struct rows *rows,
		      struct error *err)
{
	struct mysql_backend *my = &shedlock->my;
	struct shedlock_params p;
	MYSQL_RES *from;
	MYSQL_ROW row;
	int failed;

	make_params(shedlock, request, &p);
	failed = mysql_run(my, &my->conn, sql_shedlock_list, p.params.values, &from, err);
	while (!failed && from && (row = mysql_fetch_row(from)))
		if (row[0])
			name_list_add(&rows->names, row[0], mysql_fetch_lengths(from)[0]);
	mysql_free_result(from);
	return failed;
}

static int shedlock_show(struct backend *backend, const struct request *request, struct rows *rows,
			 struct error *err)
{
	struct shedlock *shedlock = shedlock_of(backend);
	struct mysql_backend *my = &shedlock->my;
	struct state state = { .held = false };
	int failed;

	if (request->name && mysql_check_name(my, request->name, err))
		return -1;
	/* Without a table there are no locks. */
	my->only_looks = true;
	failed = request->name
		? request_state(shedlock, sql_shedlock_look, request, &state, err)
		: show_names(shedlock, request, rows, err);
	my->only_looks = false;
	if (failed && my->conn.mysql && my->conn.code == MYSQL_NO_SUCH_TABLE)
		failed = 0;
	if (!failed && state.held)
		show_owner(&state, rows);
	rows->fence = state.fence;
	return failed;
}

static enum outcome shedlock_break(struct backend *backend, const char *name,
				   const struct row *row, struct error *err)
{
	const struct request request = { .name = name };
	struct shedlock *shedlock = shedlock_of(backend);
	struct shedlock_params p;

	make_params(shedlock, &request, &p);
	params_add(&p.params, (const struct sql_value[]){
		SQL_INT("fence", (int64_t)row->fence), SQL_LAST });
	return change_rows(shedlock, sql_shedlock_break, &p, err);
}

/* ---- opening and checking ---- */

int shedlock_open(struct backend *backend, const struct uri *uri, struct error *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789+-:/_";
	struct shedlock *shedlock = shedlock_of(backend);
	const char *zone = uri_param(uri, "time-zone");

	if (!zone) {
		strcpy(shedlock->zone, "DEFAULT");
		return 0;
	}
	if (!zone[0] || strlen(zone) > 64 || strspn(zone, plain) != strlen(zone))
		return error_set(err, ERROR_USAGE, 0, "parameter 'time-zone' for %.32s must "
				 "be a time zone of MySQL, such as +02:00 or Europe/Berlin",
				 uri->scheme);
	snprintf(shedlock->zone, sizeof(shedlock->zone), "'%s'", zone);
	return 0;
}

int shedlock_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct shedlock *shedlock = shedlock_of(backend);
	const struct sql_value values[] = { SQL_PART("zone", shedlock->zone), SQL_LAST };
	int64_t offsets_s[2];	/* see shedlock_check */
	MYSQL_RES *rows;
	int failed = mysql_run(&shedlock->my, &shedlock->my.conn, sql_shedlock_check, values, &rows,
			       err);

	mysql_numbers(rows, offsets_s, 2);
	if (failed)
		return -1;
	if (offsets_s[0])
		findings_add(findings, FINDING_WARNING, "time-zone",
			     "have ShedLock use the database's time (usingDbTime), and no other "
			     "time zone in its sessions; or name theirs with ?time-zone=",
			     "sessions here are %+" PRId64 " min off UTC, in which ShedLock writes",
			     offsets_s[0] / 60);
	else
		findings_add(findings, FINDING_OK, "time-zone", NULL, "sessions here are in UTC");
	if (offsets_s[1])
		findings_add(findings, FINDING_WARNING, "daylight-saving",
			     "have all sessions use a fixed time zone, named with ?time-zone=",
			     "no lock can be taken or extended in the hour that the sessions' time "
			     "zone skips in spring");
	return 0;
}

const struct backend_ops shedlock_ops = {
	MYSQL_COMMON_SLOTS,
	.acquire = shedlock_acquire,
	.event = shedlock_event,
	.renew = shedlock_renew,
	.release = shedlock_release,
	.show = shedlock_show,
	.break_hold = shedlock_break,
};
