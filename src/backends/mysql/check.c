/* SPDX-License-Identifier: MIT */
/* `dlock check` for a MySQL or MariaDB server. */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "lock/findings.h"

/* Each waiter holds a connection, some holders two; 151 are the servers' default. */
#define FEW_CONNECTIONS 300

static int ping_server(struct backend *backend, struct error *err)
{
	return mysql_run(&mysql_from_backend(backend)->conn, "DO 0", NULL, NULL, err);
}

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

/* Does a proxy run the statement in which a waiter sleeps on another connection than the others? */
static bool sleeps_elsewhere(struct mysql_backend *my)
{
	char token[32];	/* of this connection alone */
	const struct request request = { .name = "dlock-check", .token = token, .text = "",
					 .ttl_ms = BACKEND_TTL_MS };
	struct grant grant = { .hold_fd = -1 };
	struct error ignored = { 0 };
	int64_t found = 1;
	struct call call;
	MYSQL_RES *rows;

	snprintf(token, sizeof(token), "%" PRId64, my->conn.number);
	if (!my->strategy->statements->try_sql ||
	    lease_acquire(&my->base, &request, &grant, &ignored) != OUTCOME_HELD)
		return false;
	call_begin(&call, my, &my->conn, &request);
	if (!mysql_run(call.conn, sql_sleeps_here, call.values, &rows, &ignored))
		mysql_numbers(rows, &found, 1);
	lease_release(&my->base, &request, &ignored);
	return !found;
}

/* members: the facts that a common account may not see, or NULL. */
static void report_facts(struct mysql_backend *my, MYSQL_RES *facts, MYSQL_RES *members,
			 struct findings *findings)
{
	const char *server = get_fact(facts, "server"), *version = get_fact(facts, "version");
	const char *states = get_fact(members, "members"), *cipher = get_fact(facts, "Ssl_cipher");
	const char *nodes = get_fact(facts, "wsrep_cluster_size");
	const bool galera = is_on(nodes);
	const bool group = get_fact(facts, "group_replication_group_name")[0];
	const char *most = get_fact(facts, "max_connections");
	char used[64];

	snprintf(used, sizeof(used), "%.20s of at most %.20s",
		 get_fact(facts, "Threads_connected"), most);

	const struct finding_rule rules[] = {
		{ "version", is_on(get_fact(facts, "too_old")), FINDING_ERROR, server, version,
		  " is too old", "use MySQL 5.7, MariaDB 10.3, or newer" },
		{ "version", true, FINDING_OK, server, version, "", NULL },
		{ "role", is_on(get_fact(facts, "read_only")) ||
			  is_on(get_fact(facts, "innodb_read_only")), FINDING_ERROR,
		  "read-only: it takes no writes, or only those of administrators", "", "",
		  "name the primary" },
		{ "role", true, FINDING_OK, "takes writes", "", "", NULL },
		{ "cluster", galera && !is_on(get_fact(facts, "wsrep_ready")), FINDING_ERROR,
		  "Galera, ", nodes, " nodes, of which this one is not in sync",
		  "name a node that is in sync" },
		{ "cluster", galera, FINDING_OK, "Galera, ", nodes, " nodes", NULL },
		{ "cluster", group && !states[0], FINDING_WARNING, "Group Replication: this "
		  "account may not see whether this server is part of its group, and cannot pass "
		  "over one that is not", "", "",
		  "GRANT SELECT ON performance_schema.replication_group_members TO this account" },
		{ "cluster", group && is_on(get_fact(members, "outside")), FINDING_ERROR,
		  "Group Replication, ", states,
		  ": it is not part of the group, or the group has no majority",
		  "name all members of the group" },
		{ "cluster", group, FINDING_OK, "Group Replication, ", states, "", NULL },
		/* After a fail-over the new primary may lack the last commits. */
		{ "replication", my->address.host_count > 1 && !group && !galera, FINDING_WARNING,
		  "the members do not agree on commits: one that takes over may have forgotten "
		  "the newest locks", "", "",
		  "use Galera or Group Replication, whose members agree on each commit" },
		{ "connections", strtol(most, NULL, 10) < FEW_CONNECTIONS, FINDING_NOTE, "", used,
		  " in use", "each holder and each waiter needs one, a holder of row, advisory or "
		  "table two: raise max_connections if many wait at once" },
		{ "connections", true, FINDING_OK, "", used, " in use", NULL },
		{ "binlog", is_on(get_fact(facts, "log_bin")) &&
			    !strcmp(get_fact(facts, "binlog_format"), "STATEMENT"), FINDING_ERROR,
		  "binlog_format is STATEMENT, which cannot log what locks do", "", "",
		  "set binlog_format to MIXED or ROW" },
		{ "durability", strcmp(get_fact(facts, "innodb_flush_log_at_trx_commit"), "1") != 0,
		  FINDING_WARNING, "innodb_flush_log_at_trx_commit is not 1: a crash of the host "
		  "may forget the newest locks", "", "",
		  "set innodb_flush_log_at_trx_commit to 1" },
		{ "durability", true, FINDING_OK, "commits are on disk before they are answered",
		  "", "", NULL },
		{ "transport", cipher[0] && my->address.tls == MYSQL_TLS_REQUIRED, FINDING_WARNING,
		  "encrypted with ", cipher, ", but the server's certificate is not checked",
		  "name the authority: ?ssl-ca=PATH" },
		{ "transport", cipher[0], FINDING_OK, "encrypted with ", cipher, "", NULL },
		{ "transport", net_is_local(my->address.hosts[my->address.at].name), FINDING_OK,
		  "does not leave this host", "", "", NULL },
		{ "transport", true, FINDING_NOTE, "not encrypted: what is locked can be read on "
		  "the way", "", "", "use TLS (?ssl-ca=PATH), a private network or a tunnel" },
		{ "waiting", sleeps_elsewhere(my), FINDING_WARNING, "a proxy runs statements on "
		  "several connections, so no release wakes waiters: each checks every 0.3 s times "
		  "its position", "", "", "have it keep all statements of this account together" },
		{ "waiting", my->strategy->statements->try_sql, FINDING_OK, "a release wakes "
		  "waiters of the same account and node; others check each 0.3 s times their "
		  "position", "", "", NULL },
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
	const struct request request = { .name = NULL };
	MYSQL_RES *facts, *members;
	int64_t before_ms, clock_ms;
	struct error ignored = { 0 };
	struct call call;

	if (findings_add_round_trip(findings, backend, ping_server, "", err))
		return -1;
	before_ms = clock_wall_ms();
	call_begin(&call, my, &my->conn, &request);
	if (mysql_persist(call.conn, my->strategy->statements->check_sql, call.values, 0, 2, &facts,
			  err))
		return -1;
	clock_ms = strtoll(get_fact(facts, "clock"), NULL, 10) / 1000;
	findings_add_skew(findings, clock_ms - (before_ms + clock_wall_ms()) / 2);
	mysql_persist(call.conn, sql_group_facts, NULL, 0, 2, &members, &ignored);
	report_facts(my, facts, members, findings);
	report_zone(facts, findings);
	mysql_free_result(facts);
	mysql_free_result(members);
	return 0;
}
