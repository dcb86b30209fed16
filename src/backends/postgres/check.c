/* SPDX-License-Identifier: MIT */
/* `dlock check` for a PostgreSQL server. */
#include "base/clock.h"
#include "lock/findings.h"
#include "postgres.h"

/* The columns of facts. */
enum fact {
	CLOCK_MS, OLD, VERSION, KIN, DIRECT, FOLLOWED, SYNCHRONOUS, VOLATILE, FACTS
};

static void report_facts(const struct postgres_backend *pg, struct findings *findings)
{
#define TEXT(FACT) PQgetvalue(pg->conn.rows, 0, FACT)
#define IS(FACT) (TEXT(FACT)[0] == 't')
	const bool queue = pg->strategy->statements->leave_sql;
	const struct finding_rule rules[] = {
		{ "version", TEXT(KIN)[0] && queue, FINDING_ERROR, TEXT(KIN), " lacks what waiters "
		  "need (NOTIFY)", "", "use PostgreSQL 12 or newer" },
		{ "version", IS(OLD), FINDING_ERROR, "PostgreSQL ", TEXT(VERSION), " is too old",
		  "use PostgreSQL 12 or newer, and 14 for ?strategy=advisory" },
		{ "version", true, FINDING_OK, "PostgreSQL ", TEXT(VERSION), "", NULL },
		{ "pooler", queue && !IS(DIRECT), FINDING_WARNING, "a pooler is between: wake-ups "
		  "may not come, a waiter checks each 0.3 s", "", "", "name the server itself" },
		{ "replication", IS(FOLLOWED) && !IS(SYNCHRONOUS), FINDING_WARNING,
		  "asynchronous: after a fail-over the new primary may lack the newest locks", "",
		  "", "set synchronous_standby_names" },
		{ "replication", IS(SYNCHRONOUS), FINDING_OK, "synchronous", "", "", NULL },
		{ "durability", IS(VOLATILE), FINDING_WARNING, "commits are answered before they "
		  "are on disk: a crash of the host may forget the newest locks", "", "",
		  "set fsync and synchronous_commit to on" },
		{ "durability", true, FINDING_OK, "commits are on disk before they are answered",
		  "", "", NULL },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

int postgres_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const int64_t asked_ms = clock_wall_ms();
	const struct sql_hosts *hosts = &pg->conn.hosts;

	postgres_begin(pg, &(struct request){ .name = NULL });
	if (postgres_run(&pg->conn, sql_facts, pg->values, err))
		return -1;
	if (PQntuples(pg->conn.rows) != 1 || PQnfields(pg->conn.rows) < FACTS)
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: unexpected reply", hosts->label);
	findings_add_clock(findings, sql_number(postgres_column(&pg->conn, 0, CLOCK_MS)), asked_ms);
	findings_add_transport(findings, hosts->list[hosts->at].name, PQsslInUse(pg->conn.pg),
			       postgres_is_verified(pg->conn.uri), false);
	report_facts(pg, findings);
	return 0;
}
