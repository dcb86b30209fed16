/* SPDX-License-Identifier: MIT */
/* `dlock check` for a MySQL or MariaDB server. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/findings.h"

/* Returns a fact by its name; "": it is not known. facts may be NULL: none is. */
static const char *get_fact(MYSQL_RES *facts, const char *name)
{
	MYSQL_ROW row;

	if (facts)
		mysql_data_seek(facts, 0);
	while (facts && (row = mysql_fetch_row(facts)))
		if (row[0] && row[1] && !strcasecmp(row[0], name))
			return row[1];
	return "";
}

static bool is_on(const char *value)
{
	return value[0] && strcmp(value, "0") != 0 && strcasecmp(value, "OFF") != 0;
}

/* all: the members of Group Replication, which a common account may not see; NULL: not seen. */
static void report_facts(const struct mysql_backend *my, MYSQL_RES *facts, MYSQL_RES *all,
			 struct findings *findings)
{
	const char *server = get_fact(facts, "server"), *version = get_fact(facts, "version");
	const char *members = get_fact(all, "members");
	const char *nodes = get_fact(facts, "wsrep_cluster_size");
	const bool galera = is_on(nodes);
	const bool group = get_fact(facts, "group_replication_group_name")[0];
	const struct finding_rule rules[] = {
		{ "version", is_on(get_fact(facts, "too_old")), FINDING_ERROR, server, version,
		  " is too old", "use MySQL 5.7, MariaDB 10.3, or newer" },
		{ "version", true, FINDING_OK, server, version, "", NULL },
		{ "replication", galera, FINDING_OK, "Galera, ", nodes, " nodes", NULL },
		{ "replication", group && !members[0], FINDING_WARNING, "Group Replication: "
		  "this account may not see whether this server is part of its group, and cannot "
		  "pass over one that is not", "", "",
		  "GRANT SELECT ON performance_schema.replication_group_members TO this account" },
		{ "replication", group, FINDING_OK, "Group Replication, ", members, " members",
		  NULL },
		/* After a fail-over the new primary may lack the last commits. */
		{ "replication", my->address.hosts.count > 1, FINDING_WARNING,
		  "the members do not agree on commits: one that takes over may have forgotten "
		  "the newest locks", "", "",
		  "use Galera or Group Replication, whose members agree on each commit" },
		{ "durability", strcmp(get_fact(facts, "innodb_flush_log_at_trx_commit"), "1") != 0,
		  FINDING_WARNING, "innodb_flush_log_at_trx_commit is not 1: a crash of the host "
		  "may forget the newest locks", "", "",
		  "set innodb_flush_log_at_trx_commit to 1" },
		{ "durability", true, FINDING_OK, "commits are on disk before they are answered",
		  "", "", NULL },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

/* Only the dialect shedlock asks for the sessions' time zone. */
static void report_zone(MYSQL_RES *facts, struct findings *findings)
{
	const char *zone = get_fact(facts, "zone_min");
	const struct finding_rule rules[] = {
		{ "time-zone", is_on(zone), FINDING_WARNING, "sessions here are ", zone, " min off "
		  "UTC, in which ShedLock writes", "have ShedLock use the database's time "
		  "(usingDbTime), and no other time zone in its sessions; or name theirs with "
		  "?time-zone=" },
		{ "time-zone", zone[0], FINDING_OK, "sessions here are in UTC", "", "", NULL },
		{ "daylight-saving", is_on(get_fact(facts, "zone_daylight_s")), FINDING_WARNING,
		  "no lock can be taken or extended in the hour that the sessions' time zone skips "
		  "in spring", "", "",
		  "have all sessions use a fixed time zone, named with ?time-zone=" },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

int mysql_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	const int64_t asked_ms = clock_wall_ms();
	const struct request request = { .name = NULL };
	MYSQL_RES *facts, *members;
	struct error ignored = { 0 };
	struct call call;

	call_begin(&call, my, &my->conn, &request);
	if (mysql_persist(call.conn, my->strategy->statements->check_sql, call.values, 0, 2, &facts,
			  err))
		return -1;
	findings_add_clock(findings, strtoll(get_fact(facts, "clock"), NULL, 10) / 1000, asked_ms);
	findings_add_transport(findings, my->address.hosts.list[my->address.hosts.at].name,
			       get_fact(facts, "Ssl_cipher")[0],
			       my->address.tls == MYSQL_TLS_VERIFIED, false);
	mysql_persist(call.conn, sql_group_facts, NULL, 0, 2, &members, &ignored);
	report_facts(my, facts, members, findings);
	report_zone(facts, findings);
	mysql_free_result(facts);
	mysql_free_result(members);
	return 0;
}
