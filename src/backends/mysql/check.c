/* SPDX-License-Identifier: MIT */
/* Is this server fit to hold locks? */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net.h"
#include "lock/view.h"

/* Each waiter holds a connection, some holders two; 151 are the servers' default. */
#define FEW_CONNECTIONS 300

static int ping(struct backend *backend, struct error *err)
{
	struct mysql_backend *my = mysql_from_backend(backend);

	return mysql_run(my, &my->conn, "DO 0", NULL, NULL, err);
}

/* What the server says of itself: the rows of check_variables and check_status. */
enum fact {
	FACT_VERSION, FACT_COMMENT, FACT_READ_ONLY, FACT_INNODB_READ_ONLY, FACT_MOST, FACT_LOG_BIN,
	FACT_LOG_FORMAT, FACT_FLUSH, FACT_GROUP, FACT_CONNECTED, FACT_CIPHER, FACT_READY,
	FACT_NODES, FACTS
};

static const char *const fact_names[FACTS] = {
	"version", "version_comment", "read_only", "innodb_read_only", "max_connections",
	"log_bin", "binlog_format", "innodb_flush_log_at_trx_commit",
	"group_replication_group_name", "Threads_connected", "Ssl_cipher", "wsrep_ready",
	"wsrep_cluster_size",
};

struct facts {
	char value[FACTS][80];	/* "": the server does not say */
};

static int read_facts(struct mysql_backend *my, const char *sql, struct facts *facts,
		      struct error *err)
{
	MYSQL_RES *rows;
	MYSQL_ROW row;

	if (mysql_run(my, &my->conn, sql, NULL, &rows, err))
		return -1;
	while (rows && (row = mysql_fetch_row(rows)))
		for (int i = 0; i < FACTS; i++)
			if (row[0] && row[1] && !strcasecmp(row[0], fact_names[i]))
				snprintf(facts->value[i], sizeof(facts->value[i]), "%s", row[1]);
	mysql_free_result(rows);
	return 0;
}

static bool is_on(const char *value)
{
	return value[0] && strcmp(value, "0") != 0 && strcasecmp(value, "OFF") != 0;
}

static void check_version(const char *version, const char *comment, struct findings *findings)
{
	/* MariaDB may say "5.5.5-10.11.2-MariaDB", for the sake of old replicas. */
	const char *text = strncmp(version, "5.5.5-", 6) ? version : version + 6;
	char *end;
	const long major = strtol(text, &end, 10);
	const long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
	const bool maria = strstr(version, "MariaDB") || strstr(comment, "MariaDB");
	const bool old = maria ? major < 10 || (major == 10 && minor < 3)
			       : major < 5 || (major == 5 && minor < 7);

	findings_add(findings, old ? FINDING_ERROR : FINDING_OK, "version",
		     old ? "use MySQL 5.7, MariaDB 10.3, or newer" : NULL, "%s %.60s%s",
		     maria ? "MariaDB" : "MySQL", text, old ? " is too old" : "");
}

static int check_clock(struct mysql_backend *my, struct findings *findings, struct error *err)
{
	const int64_t before_ms = clock_wall_ms();
	MYSQL_RES *rows;
	int64_t theirs_us;
	int failed = mysql_run(my, &my->conn, sql_check_clock, NULL, &rows, err);

	mysql_numbers(rows, &theirs_us, 1);
	if (failed)
		return -1;
	findings_add_skew(findings, theirs_us / 1000 - (before_ms + clock_wall_ms()) / 2);
	return 0;
}

static void check_role(const struct facts *facts, struct findings *findings)
{
	if (is_on(facts->value[FACT_READ_ONLY]) || is_on(facts->value[FACT_INNODB_READ_ONLY]))
		findings_add(findings, FINDING_ERROR, "role", "name the primary",
			     "read-only: it takes no writes, or only those of administrators");
	else
		findings_add(findings, FINDING_OK, "role", NULL, "takes writes");
	if (facts->value[FACT_READY][0] && facts->value[FACT_NODES][0] &&
	    strcmp(facts->value[FACT_NODES], "0") != 0) {
		const bool ready = is_on(facts->value[FACT_READY]);

		findings_add(findings, ready ? FINDING_OK : FINDING_ERROR, "cluster",
			     ready ? NULL : "name a node that is in sync",
			     "Galera, %s nodes, wsrep_ready is %s", facts->value[FACT_NODES],
			     facts->value[FACT_READY]);
	}
}

/* The server that takes over may lack what the last one has just committed. */
static void check_replication(const struct mysql_backend *my, const struct facts *facts,
			      struct findings *findings)
{
	if (my->address.host_count > 1 && !facts->value[FACT_GROUP][0] &&
	    strtol(facts->value[FACT_NODES], NULL, 10) < 1)
		findings_add(findings, FINDING_WARNING, "replication",
			     "use Galera or Group Replication, whose members agree on each commit",
			     "the members do not agree on commits: one that takes over may have "
			     "forgotten the newest locks");
}

static void check_connections(const struct facts *facts, struct findings *findings)
{
	const bool few = strtol(facts->value[FACT_MOST], NULL, 10) < FEW_CONNECTIONS;

	findings_add(findings, few ? FINDING_NOTE : FINDING_OK, "connections",
		     few ? "each holder and each waiter needs one, a holder of row, advisory or "
		     "table two: raise max_connections if many wait at once" : NULL,
		     "%s of at most %s in use", facts->value[FACT_CONNECTED],
		     facts->value[FACT_MOST]);
}

static void check_durability(const struct facts *facts, struct findings *findings)
{
	const char *flush = facts->value[FACT_FLUSH];

	if (is_on(facts->value[FACT_LOG_BIN]) &&
	    !strcmp(facts->value[FACT_LOG_FORMAT], "STATEMENT"))
		findings_add(findings, FINDING_ERROR, "binlog", "set binlog_format to MIXED or ROW",
			     "binlog_format is STATEMENT, which cannot log what locks do");
	if (flush[0] && strcmp(flush, "1") != 0)
		findings_add(findings, FINDING_WARNING, "durability",
			     "set innodb_flush_log_at_trx_commit to 1",
			     "innodb_flush_log_at_trx_commit is %s: a crash of the host may forget "
			     "the newest locks", flush);
	else
		findings_add(findings, FINDING_OK, "durability", NULL,
			     "commits are on disk before they are answered");
}

static void check_transport(const struct mysql_backend *my, const char *cipher,
			    struct findings *findings)
{
	if (cipher[0] && my->address.tls == MYSQL_TLS_REQUIRED)
		findings_add(findings, FINDING_WARNING, "transport",
			     "name the authority: ?ssl-ca=PATH",
			     "encrypted with %s, but the server's certificate is not checked",
			     cipher);
	else if (cipher[0])
		findings_add(findings, FINDING_OK, "transport", NULL, "encrypted with %s", cipher);
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
	struct facts facts = { 0 };

	if (findings_add_round_trip(findings, backend, ping, "", err) ||
	    check_clock(my, findings, err) ||
	    read_facts(my, sql_check_variables, &facts, err) ||
	    read_facts(my, sql_check_status, &facts, err))
		return -1;
	check_version(facts.value[FACT_VERSION], facts.value[FACT_COMMENT], findings);
	check_role(&facts, findings);
	check_replication(my, &facts, findings);
	check_connections(&facts, findings);
	check_durability(&facts, findings);
	check_transport(my, facts.value[FACT_CIPHER], findings);
	return my->strategy->check(backend, findings, err);
}
