/* SPDX-License-Identifier: MIT */
/* `dlock check` for a PostgreSQL server. */
#include "lock.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/net.h"
#include "lock/findings.h"

/* Each waiter and each holder has a connection. */
#define FEW_CONNECTIONS 300

/* The columns of facts. */
enum fact {
	CLOCK_MS, VERSION, READ_ONLY, USED, MOST, VOLATILE, STANDBYS, SYNCHRONOUS, DIRECT, VERSION_NUMBER
};

static void report_facts(const struct postgres_backend *pg, const PGresult *facts,
			 struct findings *findings)
{
#define TEXT(FACT) PQgetvalue(facts, 0, FACT)
#define IS(FACT) (TEXT(FACT)[0] == 't')
	char used[64];

	snprintf(used, sizeof(used), "%.20s of at most %.20s", TEXT(USED), TEXT(MOST));

	const struct finding_rule rules[] = {
		{ "version", postgres_number(facts, VERSION_NUMBER) < (pg->door ? 140000 : 120000),
		  FINDING_ERROR, "PostgreSQL ", TEXT(VERSION), " is too old",
		  "use PostgreSQL 12 or newer, and 14 for ?strategy=advisory" },
		{ "version", true, FINDING_OK, "PostgreSQL ", TEXT(VERSION), "", NULL },
		{ "role", IS(READ_ONLY), FINDING_ERROR, "read-only, or a standby", "", "",
		  "name the primary" },
		{ "role", true, FINDING_OK, "takes writes", "", "", NULL },
		{ "pooler", !IS(DIRECT), pg->door ? FINDING_ERROR : FINDING_WARNING,
		  "a pooler is between: a wake-up may not come, and the first waiter checks each 0.3 s", "",
		  "", "name the server itself" },
		{ "replication", postgres_number(facts, STANDBYS) && !IS(SYNCHRONOUS),
		  FINDING_WARNING, "asynchronous: after a fail-over the new primary may lack the "
		  "last locks", "", "", "set synchronous_standby_names" },
		{ "replication", IS(SYNCHRONOUS), FINDING_OK, "synchronous", "", "", NULL },
		{ "durability", IS(VOLATILE), FINDING_WARNING, "commits are answered before they are on "
		  "disk: a crash of the host may forget the newest locks", "", "",
		  "set fsync and synchronous_commit to on" },
		{ "durability", true, FINDING_OK, "commits are on disk before they are answered",
		  "", "", NULL },
		{ "connections", postgres_number(facts, MOST) < FEW_CONNECTIONS, FINDING_NOTE, used, "",
		  "", "each holder and each waiter has one; see max_connections" },
		{ "connections", true, FINDING_OK, used, "", "", NULL },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

int postgres_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct postgres_backend *pg = postgres_from_backend(backend);
	const struct uri *uri = pg->address.uri;
	const int64_t before_ms = clock_wall_ms();
	struct sql_value values[2] = { SQL_LAST };
	PGresult *facts;

	if (postgres_run(&pg->conn, sql_facts, values, &facts, err))
		return -1;
	findings_add_skew(findings, postgres_number(facts, CLOCK_MS) -
				    (before_ms + clock_wall_ms()) / 2);
	findings_add_transport(findings, uri->host_count ? uri->hosts[pg->address.at].name : NULL,
			       PQsslInUse(pg->conn.pg), false, false);
	report_facts(pg, facts, findings);
	PQclear(facts);
	return 0;
}
