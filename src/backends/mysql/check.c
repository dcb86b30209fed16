/* SPDX-License-Identifier: MIT */
/* `dlock check` for a MySQL or MariaDB server. */
#include "run.h"

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
	struct mysql_backend *my = mysql_from_backend(backend);

	return mysql_run(&my->conn, "DO 0", NULL, NULL, err);
}

/* Returns a fact of check_facts by its name; "": the server does not have it. */
static const char *get_fact(MYSQL_RES *facts, const char *name)
{
	MYSQL_ROW row;

	mysql_data_seek(facts, 0);
	while ((row = mysql_fetch_row(facts)))
		if (row[0] && row[1] && !strcasecmp(row[0], name))
			return row[1];
	return "";
}

static bool is_on(const char *value)
{
	return value[0] && strcmp(value, "0") != 0 && strcasecmp(value, "OFF") != 0;
}

/* Add a finding; only a bad one has a remedy. */
static void add_finding(struct findings *findings, bool bad, enum severity severity,
			const char *topic, const char *remedy, const char *text)
{
	findings_add(findings, bad ? severity : FINDING_OK, topic, bad ? remedy : NULL, "%s", text);
}

static void check_version(MYSQL_RES *facts, struct findings *findings)
{
	/* MariaDB may report "5.5.5-10.11.2-MariaDB", for old replicas. */
	const char *version = get_fact(facts, "version");
	const char *text = strncmp(version, "5.5.5-", 6) ? version : version + 6;
	const bool maria = strstr(version, "MariaDB") ||
			   strstr(get_fact(facts, "version_comment"), "MariaDB");
	int major = 0, minor = 0;
	bool old;

	sscanf(text, "%4d.%4d", &major, &minor);
	old = major * 100 + minor < (maria ? 1003 : 507);
	findings_add(findings, old ? FINDING_ERROR : FINDING_OK, "version",
		     old ? "use MySQL 5.7, MariaDB 10.3, or newer" : NULL, "%s %.60s%s",
		     maria ? "MariaDB" : "MySQL", text, old ? " is too old" : "");
}

static void check_role(MYSQL_RES *facts, struct findings *findings)
{
	const bool read_only = is_on(get_fact(facts, "read_only")) ||
			       is_on(get_fact(facts, "innodb_read_only"));
	const bool ready = is_on(get_fact(facts, "wsrep_ready"));

	add_finding(findings, read_only, FINDING_ERROR, "role", "name the primary",
		    read_only ? "read-only: it takes no writes, or only those of administrators"
		      : "takes writes");
	if (is_on(get_fact(facts, "wsrep_cluster_size")))
		findings_add(findings, ready ? FINDING_OK : FINDING_ERROR, "cluster",
			     ready ? NULL : "name a node that is in sync",
			     "Galera, %.20s nodes, wsrep_ready is %.20s",
			     get_fact(facts, "wsrep_cluster_size"), get_fact(facts, "wsrep_ready"));
}

/* Check Group Replication, whose members a common account may not see. */
static void check_group(struct mysql_backend *my, MYSQL_RES *facts,
			struct findings *findings)
{
	struct error ignored = { 0 };
	MYSQL_RES *rows = NULL;
	MYSQL_ROW row;
	bool outside;

	if (!get_fact(facts, "group_replication_group_name")[0])
		return;
	row = mysql_persist(&my->conn, sql_check_group, NULL, 0, 3, &rows, &ignored)
	      ? NULL : mysql_fetch_row(rows);
	if (!row || !row[0] || !row[1] || !row[2]) {
		findings_add(findings, FINDING_WARNING, "cluster", "GRANT SELECT ON "
			     "performance_schema.replication_group_members TO this account",
			     "Group Replication: this account may not see whether this server is "
			     "part of its group, and cannot pass over one that is not");
		mysql_free_result(rows);
		return;
	}
	outside = row[2][0] != '0';
	findings_add(findings, outside ? FINDING_ERROR : FINDING_OK, "cluster",
		     outside ? "name all members of the group" : NULL,
		     "Group Replication, %.20s members, this one is %.20s%s", row[0], row[1],
		     outside ? ": it is not part of the group, or the group has no majority" : "");
	mysql_free_result(rows);
}

/* Check replication: after a fail-over the new primary may lack the last commits. */
static void check_replication(const struct mysql_backend *my, MYSQL_RES *facts,
			      struct findings *findings)
{
	if (my->address.host_count > 1 && !is_on(get_fact(facts, "group_replication_group_name")) &&
	    !is_on(get_fact(facts, "wsrep_cluster_size")))
		findings_add(findings, FINDING_WARNING, "replication",
			     "use Galera or Group Replication, whose members agree on each commit",
			     "the members do not agree on commits: one that takes over may have "
			     "forgotten the newest locks");
}

static void check_connections(MYSQL_RES *facts, struct findings *findings)
{
	const char *most = get_fact(facts, "max_connections");
	const bool few = strtol(most, NULL, 10) < FEW_CONNECTIONS;

	findings_add(findings, few ? FINDING_NOTE : FINDING_OK, "connections",
		     few ? "each holder and each waiter needs one, a holder of row, advisory or "
		     "table two: raise max_connections if many wait at once" : NULL,
		     "%.20s of at most %.20s in use", get_fact(facts, "Threads_connected"), most);
}

static void check_durability(MYSQL_RES *facts, struct findings *findings)
{
	const bool lazy = strcmp(get_fact(facts, "innodb_flush_log_at_trx_commit"), "1") != 0;

	if (is_on(get_fact(facts, "log_bin")) &&
	    !strcmp(get_fact(facts, "binlog_format"), "STATEMENT"))
		findings_add(findings, FINDING_ERROR, "binlog", "set binlog_format to MIXED or ROW",
			     "binlog_format is STATEMENT, which cannot log what locks do");
	add_finding(findings, lazy, FINDING_WARNING, "durability",
		    "set innodb_flush_log_at_trx_commit to 1",
		    lazy ? "innodb_flush_log_at_trx_commit is not 1: a crash of the host may "
			   "forget the newest locks"
			 : "commits are on disk before they are answered");
}

static void check_transport(const struct mysql_backend *my, MYSQL_RES *facts,
			    struct findings *findings)
{
	const char *cipher = get_fact(facts, "Ssl_cipher");
	const bool unchecked = my->address.tls == MYSQL_TLS_REQUIRED;

	if (cipher[0])
		findings_add(findings, unchecked ? FINDING_WARNING : FINDING_OK, "transport",
			     unchecked ? "name the authority: ?ssl-ca=PATH" : NULL,
			     "encrypted with %.60s%s", cipher, unchecked
			     ? ", but the server's certificate is not checked" : "");
	else if (net_is_local(my->address.hosts[my->address.at].name))
		findings_add(findings, FINDING_OK, "transport", NULL, "does not leave this host");
	else
		findings_add(findings, FINDING_NOTE, "transport",
			     "use TLS (?ssl-ca=PATH), a private network or a tunnel",
			     "not encrypted: what is locked can be read on the way");
}

int mysql_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);
	int64_t before_ms, clock_ms;
	MYSQL_RES *facts;

	if (findings_add_round_trip(findings, backend, ping_server, "", err))
		return -1;
	before_ms = clock_wall_ms();
	if (mysql_persist(&my->conn, sql_check_facts, NULL, 0, 2, &facts, err))
		return -1;
	clock_ms = strtoll(get_fact(facts, "clock"), NULL, 10) / 1000;
	findings_add_skew(findings, clock_ms - (before_ms + clock_wall_ms()) / 2);
	check_version(facts, findings);
	check_role(facts, findings);
	check_group(my, facts, findings);
	check_replication(my, facts, findings);
	check_connections(facts, findings);
	check_durability(facts, findings);
	check_transport(my, facts, findings);
	mysql_free_result(facts);
	if (my->strategy->statements->try_sql)
		findings_add(findings, FINDING_OK, "waiting", NULL,
			     "a release wakes waiters of the same account and node; others check "
			     "each 0.3 s times their position");
	return my->strategy->check ? my->strategy->check(backend, findings, err) : 0;
}
