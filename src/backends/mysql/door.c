/* SPDX-License-Identifier: MIT */
/* The strategies row, advisory and table: see door.h. */
#include "door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/view.h"
#include "entries.h"

/* MySQL takes no more for wait_timeout: a year. */
#define YEAR_S 31536000
/* A waiter that hangs keeps the door that it was given for so long. */
#define HUNG_S 4
/* How often a waiter checks that the server is alive, which a sleeping connection cannot see. */
#define LOOK_MS 15000
/* Pause behind the entry of an earlier holder; it doubles each time. */
#define PAUSE_FIRST_MS 2
#define PAUSE_LAST_MS 100
/* How often to try when the row has to be made first. */
#define ATTEMPTS 3
/* A value of wait_timeout that nobody else sets. */
#define ODD_IDLE_S 7654
/* The name of the lock of `dlock check`, which no table has. */
#define PROBE_NAME "dlock-check"

const struct door_kind door_row = {
	.try_sql = sql_row_try,
	.ready_sql = sql_row_ready,
	.wait_sql = sql_row_wait,
	.prove_sql = sql_door_prove,
	.open_sql = sql_row_open,
	.make_sql = sql_row_make,
	.probe_sql = sql_row_probe,
	.exclusive = "FOR UPDATE",
	.shared = "LOCK IN SHARE MODE",
	.transaction = true,
	.nowait = true,
};

const struct door_kind door_advisory = {
	.try_sql = sql_advisory_try,
	.ready_sql = sql_door_ready,
	.wait_sql = sql_advisory_wait,
	.prove_sql = sql_advisory_prove,
	.open_sql = sql_advisory_open,
	.probe_sql = sql_advisory_probe,
	.exclusive = "",
};

const struct door_kind door_table = {
	.try_sql = sql_table_try,
	.ready_sql = sql_door_ready,
	.wait_sql = sql_table_wait,
	.prove_sql = sql_door_prove,
	.open_sql = sql_table_open,
	.probe_sql = sql_table_probe,
	.exclusive = "WRITE",
	.shared = "READ",
};

static struct door *door_of(struct backend *backend)
{
	return (struct door *)backend;
}

static const struct door_kind *kind_of(const struct door *door)
{
	return door->my.strategy->door;
}

/* ---- values ---- */

struct door_params {
	struct params params;
	char key[65];			/* a name in the server */
	char waiter[640];		/* the comment by which others find one who waits */
};

static const char *nowait_clause(const struct door *door, MYSQL *mysql, bool shared)
{
	if (!mysql)
		return "";
	if (strstr(mysql_get_server_info(mysql), "MariaDB"))
		return "NOWAIT";
	/* Servers without it wait for a second, which the text "session" sets. */
	return kind_of(door)->nowait && !shared && mysql_get_server_version(mysql) >= 80001
		? "NOWAIT" : "";
}

static int64_t idle_of(const struct request *request)
{
	const int64_t idle_s = request->ttl_ms / 1000;

	return idle_s < 1 ? 1 : idle_s > YEAR_S ? YEAR_S : idle_s;
}

/*
 * The name of a lock of the server. Names there have at most 64 characters, and the server may
 * not tell capital from small letters, or characters with and without accents. A name that is free
 * of all that is used as it is, any other one by its digest.
 */
static void make_key(const char *name, char key[static 65])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.:/+=@,#";
	unsigned char digest[SHA256_SIZE];
	const size_t length = strlen(name);

	if (length < 65 && strspn(name, plain) == length) {
		memcpy(key, name, length + 1);
		return;
	}
	sha256(name, length, digest);
	memcpy(key, "dlock:", 6);
	for (int i = 0; i < 24; i++)
		snprintf(key + 6 + 2 * i, 3, "%02x", digest[i]);
}

/* Write "dlock STRATEGY:NAME TOKEN" in a comment, with the last two in hexadecimal digits. */
static void make_waiter(const struct door *door, const char *name, struct door_params *p)
{
	size_t used = (size_t)snprintf(p->waiter, sizeof(p->waiter), "/* dlock %s:",
				       door->my.strategy->name);

	for (; *name && used < sizeof(p->waiter) - 80; name++)
		used += (size_t)snprintf(p->waiter + used, 3, "%02x", (unsigned char)*name);
	p->waiter[used++] = ' ';
	for (int i = 0; i < SHA256_SIZE; i++)
		used += (size_t)snprintf(p->waiter + used, 3, "%02x", p->params.digest[i]);
	snprintf(p->waiter + used, sizeof(p->waiter) - used, " */");
}

static void make_params(struct door *door, MYSQL *mysql, const struct request *request,
			struct door_params *p)
{
	const struct door_kind *kind = kind_of(door);
	const bool shared = request->mode == HOLD_SHARED && kind->shared;
	const int64_t idle_s = idle_of(request);
	const char *name = request->name;

	params_begin(&p->params, &door->my, request);
	make_key(name, p->key);
	make_waiter(door, name, p);
	params_add(&p->params, (const struct sql_value[]){
		SQL_NAME("table", strcmp(name, PROBE_NAME) ? name : "dlock_probe"),
		SQL_TEXT("key", p->key),
		SQL_PART("waiter", p->waiter),
		SQL_PART("clause", shared ? kind->shared : kind->exclusive),
		SQL_PART("nowait", nowait_clause(door, mysql, shared)),
		SQL_INT("idle", idle_s),
		SQL_INT("hung", idle_s < HUNG_S ? idle_s : HUNG_S),
		SQL_INT("limit", YEAR_S),
		SQL_LAST
	});
}

/* ---- requests over the connection that passes the door ---- */

/* The row of each text; see door_facts. */
struct door_answer {
	bool there;		/* a row came */
	bool yes, in_transaction, read_only;
	int64_t number, idle_s;
};

/* Frees rows. */
static void read_answer(const struct door *door, MYSQL_RES *rows, struct door_answer *answer)
{
	MYSQL *mysql = door->my.conn.mysql;
	int64_t numbers[4];

	*answer = (struct door_answer){
		.there = mysql_numbers(rows, numbers, 4) == 4,
		.in_transaction = mysql && mysql->server_status & SERVER_STATUS_IN_TRANS,
	};
	answer->yes = numbers[0];
	answer->number = numbers[1];
	answer->idle_s = numbers[2];
	answer->read_only = numbers[3];
}

static int request_door(struct door *door, const char *sql, const struct request *request,
			struct door_answer *answer, struct error *err)
{
	struct mysql_backend *my = &door->my;
	struct door_params p;
	MYSQL_RES *rows;
	int failed;

	make_params(door, my->conn.mysql, request, &p);
	failed = mysql_run(my, &my->conn, sql, p.params.values, &rows, err);
	read_answer(door, rows, answer);
	return failed;
}

static void drop(struct door *door)
{
	mysql_drop(&door->my, &door->my.conn);
	mysql_conn_close(&door->my.side);
	door->state = OUTSIDE;
	door->pause_ms = 0;
}

static enum outcome lose(const struct door *door, const char *how, struct error *err)
{
	error_set(err, ERROR_REFUSED, 0, "%s: %s", door->my.address.label, how);
	return OUTCOME_LOST;
}

/* Is my.conn still the one that has passed? */
static bool is_connected(const struct door *door)
{
	return door->my.conn.mysql && door->my.conn.number == door->number;
}

/* What a proof says. */
static enum outcome judge(const struct door *door, const struct door_answer *answer,
			  struct error *err)
{
	if (answer->number != door->number || answer->idle_s != door->idle_s)
		return lose(door, "the session is another one now", err);
	if (!answer->yes || (kind_of(door)->transaction && !answer->in_transaction))
		return lose(door, "the session no longer has the lock", err);
	if (answer->read_only)
		return lose(door, "the server is read-only now, another one may be the primary",
			    err);
	return OUTCOME_HELD;
}

/* Show the server that this session is alive, and see that it has the door; first run sql. */
static enum outcome prove(struct door *door, const char *sql, const struct request *request,
			  struct error *err)
{
	struct door_answer answer;
	char *text;
	int failed;

	if (!is_connected(door))
		return lose(door, "the server closed the connection", err);
	text = memory_format("%s%s", sql, kind_of(door)->prove_sql);
	failed = request_door(door, text, request, &answer, err);
	free(text);
	if (!failed)
		return judge(door, &answer, err);
	return door->my.conn.mysql ? OUTCOME_ERROR : OUTCOME_LOST;
}

/* ---- passing the door ---- */

/* The server has given the door to this session, which must be fit for that. */
static enum outcome admit(struct door *door, const struct request *request,
			  const struct door_answer *answer, struct error *err)
{
	door->number = door->my.conn.number;
	door->idle_s = idle_of(request);
	door->state = PASSED;
	if (answer->read_only)
		error_set(err, ERROR_REFUSED, 0, "%s: the server is read-only: name the primary",
			  door->my.address.label);
	else if (answer->number != door->number || answer->idle_s != idle_of(request))
		error_set(err, ERROR_REFUSED, 0, "%s: wait_timeout does not stay as it was set; "
			  "?strategy=lease needs no session of its own", door->my.address.label);
	else
		return OUTCOME_HELD;
	return OUTCOME_ERROR;
}

/* One statement that passes or does not. The row may have to be made first. */
static enum outcome try_door(struct door *door, const struct request *request, struct error *err)
{
	const struct door_kind *kind = kind_of(door);
	struct mysql_conn *conn = &door->my.conn;
	struct door_answer answer;

	/* What the texts say depends on the server. */
	if (mysql_conn_open(conn, &door->my.address, &door->my.base, err))
		return OUTCOME_ERROR;
	for (int i = 0; i < ATTEMPTS; i++) {
		if (request_door(door, kind->try_sql, request, &answer, err)) {
			if (mysql_contended(conn))
				return OUTCOME_BUSY;
			if (conn->mysql && conn->code == MYSQL_NO_SUCH_TABLE && !kind->make_sql)
				error_set(err, ERROR_REFUSED, 0, "%s: there is no table of this "
					  "name to lock; ?strategy=lease needs none",
					  door->my.address.label);
			return OUTCOME_ERROR;
		}
		if (answer.yes)
			return admit(door, request, &answer, err);
		if (answer.there || !kind->make_sql)
			return OUTCOME_BUSY;
		if (request_door(door, kind->make_sql, request, &answer, err) &&
		    !mysql_contended(conn))
			return OUTCOME_ERROR;
	}
	return OUTCOME_BUSY;
}

/* Sleep in the statement that passes the door. */
static enum outcome wait_at_door(struct door *door, const struct request *request,
				 struct grant *grant, struct error *err)
{
	struct mysql_backend *my = &door->my;
	struct door_answer answer;
	struct door_params p;

	if (request_door(door, kind_of(door)->ready_sql, request, &answer, err))
		return OUTCOME_ERROR;
	make_params(door, my->conn.mysql, request, &p);
	if (mysql_start(my, &my->conn, kind_of(door)->wait_sql, p.params.values, err))
		return OUTCOME_ERROR;
	door->state = WAITING;
	grant->retry_ms = door->look_ms = clock_boot_ms() + LOOK_MS;
	return OUTCOME_BUSY;
}

/* Nothing has come. Is the server alive? */
static enum outcome look_at_server(struct door *door, struct grant *grant, struct error *err)
{
	struct mysql_backend *my = &door->my;
	int failed = 0;

	if (clock_boot_ms() >= door->look_ms) {
		failed = mysql_run(my, &my->side, "DO 0", NULL, NULL, err) &&
			 err->errnum == ETIMEDOUT;
		mysql_conn_close(&my->side);
		door->look_ms = clock_boot_ms() + LOOK_MS;
	}
	grant->retry_ms = door->look_ms;
	return failed ? OUTCOME_ERROR : OUTCOME_BUSY;
}

/* The statement in which we slept has ended: with the door, if it says so. */
static enum outcome wake_at_door(struct door *door, struct grant *grant, struct error *err)
{
	struct mysql_backend *my = &door->my;
	struct door_answer answer;
	MYSQL_RES *rows;
	int failed;

	if (!mysql_has_input(&my->conn))
		return look_at_server(door, grant, err);
	failed = mysql_conn_receive(&my->conn, &my->address, &my->base, &rows, err);
	read_answer(door, rows, &answer);
	door->state = OUTSIDE;
	grant->retry_ms = 0;
	if (failed)
		return mysql_contended(&my->conn) ? OUTCOME_BUSY : OUTCOME_ERROR;
	/* LOCK TABLES gives no row. */
	if (!answer.yes && (answer.there || kind_of(door)->make_sql))
		return OUTCOME_BUSY;
	door->number = my->conn.number;
	door->state = PASSED;
	return OUTCOME_HELD;
}

/* Pass the door: HELD. BUSY: grant->retry_ms is set if request->queue. */
static enum outcome pass(struct door *door, const struct request *request, struct grant *grant,
			 struct error *err)
{
	enum outcome outcome = OUTCOME_HELD;
	bool tried = door->state == OUTSIDE;

	if (tried)
		outcome = try_door(door, request, err);
	else if (door->state == WAITING)
		outcome = wake_at_door(door, grant, err);
	grant->sent_ms = tried ? grant->sent_ms : clock_boot_ms();
	door->idle_s = tried ? door->idle_s : idle_of(request);
	if (outcome == OUTCOME_HELD && !tried &&
	    prove(door, sql_door_confirm, request, err) != OUTCOME_HELD) {
		/* It was lost again, and nothing depended on it. */
		err->kind = ERROR_UNAVAILABLE;
		return OUTCOME_ERROR;
	}
	if (outcome == OUTCOME_BUSY && tried && request->queue)
		return wait_at_door(door, request, grant, err);
	return outcome;
}

/* ---- holding ---- */

/* The door is ours: take the entry. An earlier holder whose connection broke may have it yet. */
static enum outcome enter(struct door *door, const struct request *request, struct grant *grant,
			  struct error *err)
{
	const struct entries_how how = { .fresh = true, .connection = door->number };
	struct mysql_backend *my = &door->my;
	struct request entry = *request;
	struct entries_state state;
	enum outcome outcome;

	entry.ttl_ms = idle_of(request) * 1000;
	outcome = entries_take(my, &my->side, &entry, &how, &state, err);
	if (outcome == OUTCOME_BUSY) {
		door->pause_ms = door->pause_ms ? clock_earlier(2 * door->pause_ms, PAUSE_LAST_MS)
						: PAUSE_FIRST_MS;
		grant->retry_ms = clock_boot_ms() + door->pause_ms;
	}
	if (outcome != OUTCOME_HELD)
		return outcome;
	door->state = HOLDING;
	door->pause_ms = 0;
	grant->hold_fd = mysql_conn_fd(&my->conn);
	grant->ttl_ms = entry.ttl_ms;
	grant->fence = door->fence = (uint64_t)state.number;
	return OUTCOME_HELD;
}

static enum outcome door_renew(struct backend *backend, const struct request *request,
			       struct grant *grant, struct error *err)
{
	struct door *door = door_of(backend);
	struct request entry = *request;
	enum outcome outcome;

	if (door->state != HOLDING)
		return OUTCOME_LOST;
	/* The server ends the connection after the time that the lock was acquired with. */
	entry.ttl_ms = door->idle_s * 1000;
	grant->ttl_ms = entry.ttl_ms;
	grant->sent_ms = clock_boot_ms();
	grant->fence = door->fence;
	outcome = prove(door, "", request, err);
	if (outcome != OUTCOME_HELD)
		return outcome;
	return entries_renew(&door->my, &door->my.side, &entry, false, err);
}

static enum outcome door_acquire(struct backend *backend, const struct request *request,
				 struct grant *grant, struct error *err)
{
	struct door *door = door_of(backend);
	enum outcome outcome;

	if (mysql_check_name(&door->my, request->name, err))
		return OUTCOME_ERROR;
	if (door->state == HOLDING)
		return door_renew(backend, request, grant, err);
	grant->sent_ms = clock_boot_ms();
	outcome = pass(door, request, grant, err);
	if (outcome == OUTCOME_HELD)
		outcome = enter(door, request, grant, err);
	if (outcome == OUTCOME_ERROR || (outcome == OUTCOME_BUSY && !request->queue))
		drop(door);
	return outcome;
}

/* The server has sent something, or has ended the connection: the next call receives it. */
static int64_t door_event(struct backend *backend)
{
	struct door *door = door_of(backend);

	if (!mysql_has_input(&door->my.conn))
		return CLOCK_NEVER;
	if (door->state == OUTSIDE)
		mysql_conn_close(&door->my.conn);
	return 0;
}

static enum outcome door_release(struct backend *backend, const struct request *request,
				 struct error *err)
{
	struct door *door = door_of(backend);
	const bool held = door->state == HOLDING;
	struct door_answer answer = { .yes = false };
	enum outcome outcome;

	if (!held)
		drop(door);
	outcome = entries_release(&door->my, &door->my.side, request, err);
	if (held && !is_connected(door))
		outcome = lose(door, "the server closed the connection", err);
	else if (held && (request_door(door, kind_of(door)->open_sql, request, &answer, err) ||
			  !answer.yes) && outcome == OUTCOME_HELD)
		outcome = lose(door, "the session no longer has the lock", err);
	drop(door);
	return held || outcome == OUTCOME_ERROR ? outcome : OUTCOME_LOST;
}

/* ---- showing and breaking ---- */

/*
 * Has another program passed the door? *number: its connection, where the server says that. Where
 * it does not, this tries to pass, for an instant.
 */
static int is_taken(struct door *door, const char *name, bool *taken, int64_t *number,
		    struct error *err)
{
	struct mysql_backend *my = &door->my;
	const struct request request = { .name = name };
	struct door_params p;
	MYSQL_RES *rows;
	int failed;

	if (mysql_conn_open(&my->side, &my->address, &my->base, err))
		return -1;
	make_params(door, my->side.mysql, &request, &p);
	my->only_looks = true;
	failed = mysql_run(my, &my->side, kind_of(door)->probe_sql, p.params.values, &rows, err);
	my->only_looks = false;
	mysql_numbers(rows, number, 1);
	*taken = failed ? mysql_contended(&my->side) : !kind_of(door)->exclusive[0] && *number > 0;
	failed = failed && !*taken && my->side.code != MYSQL_NO_SUCH_TABLE;
	/* Whatever the probe took is freed with the connection. */
	mysql_conn_close(&my->side);
	return failed ? -1 : 0;
}

static int door_show(struct backend *backend, const struct request *request, struct rows *rows,
		     struct error *err)
{
	struct door *door = door_of(backend);
	struct mysql_backend *my = &door->my;
	bool taken = false;
	int64_t number;
	int failed = request->name ? mysql_check_name(my, request->name, err) : 0;

	if (!failed)
		failed = entries_show(my, &my->side, request, rows, err);
	if (!failed && request->name && !rows->count)
		failed = is_taken(door, request->name, &taken, &number, err);
	if (taken)
		rows_add(rows, "", 0)->holds = true;
	if (door->state == WAITING)
		mysql_conn_close(&my->side);
	return failed;
}

/* End the connection that has passed; its command counts as dead on the word of the user. */
static enum outcome door_break(struct backend *backend, const char *name, const struct row *row,
			       struct error *err)
{
	struct door *door = door_of(backend);
	struct mysql_backend *my = &door->my;
	enum outcome outcome = OUTCOME_HELD;
	int64_t number = 0;
	bool taken = true;

	if (row->id[0])
		outcome = entries_break(my, &my->side, name, row, &number, err);
	else if (is_taken(door, name, &taken, &number, err))
		return OUTCOME_ERROR;
	if (outcome == OUTCOME_ERROR || !taken)
		return taken ? outcome : OUTCOME_LOST;
	if (!number && !row->id[0]) {
		error_set(err, ERROR_REFUSED, 0, "%s: held by a connection that this account "
			  "cannot see; find it and KILL it as an administrator", my->address.label);
		return OUTCOME_ERROR;
	}
	if (number) {
		const struct sql_value values[] = { SQL_INT("connection", number), SQL_LAST };

		if (mysql_run(my, &my->side, sql_kill_connection, values, NULL, err) &&
		    my->side.code != MYSQL_NO_SUCH_THREAD)
			return OUTCOME_ERROR;
	}
	return outcome;
}

int door_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	MYSQL_RES *rows;
	int64_t idle_s;
	int failed = mysql_run(my, &my->conn, sql_door_check, NULL, &rows, err);

	mysql_numbers(rows, &idle_s, 1);
	if (failed)
		return -1;
	if (idle_s == ODD_IDLE_S)
		findings_add(findings, FINDING_OK, "session", NULL,
			     "the server ends the connection of a holder that is silent for --ttl");
	else
		findings_add(findings, FINDING_ERROR, "session",
			     "connect to the server itself, or use ?strategy=lease",
			     "wait_timeout does not stay as it was set: something between does not "
			     "keep sessions apart");
	return 0;
}

const struct backend_ops door_ops = {
	MYSQL_COMMON_SLOTS,
	.acquire = door_acquire,
	.event = door_event,
	.renew = door_renew,
	.release = door_release,
	.show = door_show,
	.break_hold = door_break,
};
