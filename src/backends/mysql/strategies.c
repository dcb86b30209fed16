/* SPDX-License-Identifier: MIT */
/* The strategies: what each of a family says and allows. */
#include "lock/view.h"
#include "lease_parts.h"
#include "session_parts.h"
#include "simple.h"

/* ---- rows with a token and an end ---- */

static int insert_check(struct backend *backend, struct findings *findings, struct error *err)
{
	(void)backend;
	(void)err;
	findings_add(findings, FINDING_OK, "waiting", NULL,
		     "waiters look every 50 ms at first, every 5 s later; ?strategy=lease "
		     "wakes them");
	return 0;
}

static const struct simple_kind insert_kind = {
	.table = "dlock_inserts",
	.take = sql_insert_take,
	.look = sql_insert_look,
	.renew = sql_insert_renew,
	.release = sql_insert_release,
	.list = sql_insert_list,
	.break_hold = sql_insert_break,
	.forget = sql_insert_forget,
	.purge = sql_insert_purge,
	.decode = mysql_read_holder,
};

static const struct simple_kind shedlock_kind = {
	.table = "shedlock",
	.take = sql_shedlock_take,
	.look = sql_shedlock_look,
	.renew = sql_shedlock_renew,
	.release = sql_shedlock_release,
	.list = sql_shedlock_list,
	.break_hold = sql_shedlock_break,
	.forget = sql_shedlock_forget,
	.encode = shedlock_encode,
	.decode = shedlock_decode,
};

/* ---- locks that live with a connection ---- */

static const struct session_kind row_kind = {
	.try_sql = sql_row_try,
	.wait_sql = sql_row_wait,
	.confirm_sql = sql_row_confirm,
	.prove_sql = sql_session_prove,
	.release_sql = sql_row_release,
	.make_sql = sql_row_make,
	.forget_sql = sql_row_forget,
	.probe_sql = sql_row_probe,
	.exclusive = "FOR UPDATE",
	.shared = "LOCK IN SHARE MODE",
	.transaction = true,
};

static const struct session_kind advisory_kind = {
	.try_sql = sql_advisory_try,
	.wait_sql = sql_advisory_wait,
	.confirm_sql = sql_advisory_confirm,
	.prove_sql = sql_advisory_prove,
	.release_sql = sql_advisory_release,
	.renew_sql = sql_advisory_renew,
	.owner_sql = sql_advisory_owner,
	.exclusive = "",
	.own_registry = true,
};

static const struct session_kind table_kind = {
	.try_sql = sql_table_try,
	.wait_sql = sql_table_wait,
	.confirm_sql = sql_row_confirm,
	.prove_sql = sql_session_prove,
	.release_sql = sql_table_release,
	.probe_sql = sql_table_probe,
	.exclusive = "WRITE",
	.shared = "READ",
};

#define SIMPLE(KIND) .ops = &simple_ops, .size = sizeof(struct simple), .simple = &(KIND)
#define SESSION(KIND) .ops = &session_ops, .size = sizeof(struct session), .session = &(KIND), \
	.param = "wsrep", .open = session_open, .check = session_check

const struct mysql_strategy mysql_strategies[] = {
	{ .name = "lease", .ops = &lease_ops, .size = sizeof(struct lease),
	  .shared = true, .slots = true, .check = lease_check,
	  .replaces = true,
	  .tables = sql_lease_tables, .grants = sql_lease_grants },
	{ .name = "insert", SIMPLE(insert_kind), .check = insert_check,
	  .tables = sql_insert_tables, .grants = sql_insert_grants },
	{ .name = "row", SESSION(row_kind), .shared = true,
	  .tables = sql_row_tables, .grants = sql_row_grants },
	{ .name = "advisory", SESSION(advisory_kind),
	  .tables = sql_session_tables, .grants = sql_session_grants },
	/* MySQL manual, "Schema Object Names": identifiers have at most 64 characters. */
	{ .name = "table", SESSION(table_kind), .shared = true,
	  .name_characters = 64, .names = "a table's name has",
	  .tables = sql_table_tables, .grants = sql_table_grants },
	/* The column "name" has room for 64 characters. */
	{ .name = "shedlock", .dialect = true, SIMPLE(shedlock_kind), .param = "time-zone",
	  .open = shedlock_open, .check = shedlock_check,
	  .name_characters = 64, .names = "ShedLock's names have",
	  .tables = sql_shedlock_tables, .grants = sql_shedlock_grants },
	{ .name = NULL },
};
