/* SPDX-License-Identifier: MIT */
/* `dlock check` for a PostgreSQL server. */
#include "base/clock.h"
#include "lock/findings.h"
#include "postgres.h"

/* The columns of facts. */
enum fact {
	CLOCK_MS, VERSION_NUMBER, VERSION, KIN, DIRECT, STANDBYS, SYNCHRONOUS, VOLATILE, FACTS
};

static void report_facts(const struct postgres_backend *pg, const PGresult *facts,
			 struct findings *findings)
{
#define TEXT(FACT) PQgetvalue(facts, 0, FACT)
#define IS(FACT) (TEXT(FACT)[0] == 't')
	const bool queue = pg->strategy->statements->try_sql;
	const int64_t version = sql_number(TEXT(VERSION_NUMBER));
	const struct finding_rule rules[] = {
		{ "version", TEXT(KIN)[0] && queue, FINDING_ERROR, TEXT(KIN), " lacks what waiters "
		  "need (NOTIFY)", "", "use PostgreSQL 12 or newer" },
		{ "version", version < (pg->strategy->door ? 140000 : 120000), FINDING_ERROR,
		  "PostgreSQL ", TEXT(VERSION), " is too old",
		  "use PostgreSQL 12 or newer, and 14 for ?strategy=advisory" },
		{ "version", true, FINDING_OK, "PostgreSQL ", TEXT(VERSION), "", NULL },
		{ "pooler", queue && !IS(DIRECT), FINDING_WARNING,
		  "a pooler is between: wake-ups may not come, a waiter checks each 0.3 s", "",
		  "", "name the server itself" },
		{ "replication", TEXT(STANDBYS)[0] != '0' && !IS(SYNCHRONOUS), FINDING_WARNING,
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
	struct sql_value values[SQL_VALUES] = { SQL_LAST };
	PGresult *facts;

	if (postgres_run(&pg->conn, sql_facts, values, &facts, err))
		return -1;
	if (PQntuples(facts) != 1 || PQnfields(facts) < FACTS) {
		PQclear(facts);
		return error_set(err, ERROR_UNAVAILABLE, 0, "%s: unexpected reply", hosts->label);
	}
	findings_add_clock(findings, sql_number(PQgetvalue(facts, 0, CLOCK_MS)), asked_ms);
	findings_add_transport(findings, hosts->list[hosts->at].name, PQsslInUse(pg->conn.pg),
			       postgres_is_verified(pg->conn.uri), false);
	report_facts(pg, facts, findings);
	PQclear(facts);
	return 0;
}
