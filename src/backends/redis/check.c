/* SPDX-License-Identifier: MIT */
/* `dlock check` for a Redis server. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/findings.h"
#include "client.h"

/* Values of INFO that matter for locks, one of CONFIG, and ?replicas=; "": not known. */
enum { VERSION, VALKEY, REPLICAS, AOF, LIMIT, POLICY, FSYNC, WANTED, FACTS };

static const char *const info_fields[] = {
	[VERSION] = "redis_version", [VALKEY] = "valkey_version", [REPLICAS] = "connected_slaves",
	[AOF] = "aof_enabled", [LIMIT] = "maxmemory", [POLICY] = "maxmemory_policy",
};

static void report_facts(char facts[static FACTS][32], struct findings *findings)
{
	const bool limited = strcmp(facts[LIMIT], "0") != 0, durable = facts[AOF][0] == '1';
	const struct finding_rule rules[] = {
		{ "version", strtol(facts[VERSION], NULL, 10) < 5, FINDING_ERROR, "Redis ",
		  facts[VERSION], " is too old", "use Redis 5 or newer" },
		{ "version", facts[VALKEY][0], FINDING_OK, "Valkey ", facts[VALKEY], "", NULL },
		{ "version", true, FINDING_OK, "Redis ", facts[VERSION], "", NULL },
		{ "replication", facts[WANTED][0] != '0', FINDING_OK, "each hold waits for ",
		  facts[WANTED], " replicas", NULL },
		{ "replication", facts[REPLICAS][0] != '0', FINDING_WARNING, "", facts[REPLICAS],
		  " replicas: replication is asynchronous, a lock can be lost in a failover",
		  "set ?replicas=, and check DLOCK_FENCE where the work is written" },
		{ "replication", true, FINDING_OK, "no replicas", "", "", NULL },
		{ "persistence", !durable, FINDING_WARNING,
		  "no append-only file: a restart forgets locks", "", "",
		  "set 'appendonly yes' and 'appendfsync always', or accept that a restart "
		  "forgets locks (holders notice and stop)" },
		{ "persistence", facts[FSYNC][0] && strcmp(facts[FSYNC], "always") != 0,
		  FINDING_NOTE, "append-only file, appendfsync ", facts[FSYNC],
		  ": a crash may forget the newest locks", "set 'appendfsync always'" },
		{ "persistence", true, FINDING_OK, "append-only file, appendfsync ", facts[FSYNC],
		  "", NULL },
		/* Locks have a TTL: the volatile policies evict them before other keys. */
		{ "eviction", limited && strcmp(facts[POLICY], "noeviction") != 0, FINDING_WARNING,
		  "maxmemory-policy ", facts[POLICY], " may evict a lock when memory is short",
		  "set 'maxmemory-policy noeviction', or give locks a server of their own" },
		{ "eviction", limited, FINDING_OK, "", facts[POLICY], "", NULL },
		{ "eviction", true, FINDING_OK, "no memory limit", "", "", NULL },
	};

	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

static void check_info(struct redis_client *client, struct findings *findings)
{
	static const char *const argv[] = { "INFO", NULL };
	static const char *const get[] = { "CONFIG", "GET", "appendfsync", NULL };
	char facts[FACTS][32] = { "" };
	struct error err = { 0 }, ignored;
	const redisReply *reply = redis_command(client, NULL, argv, &err);

	for (size_t i = 0; i < sizeof(info_fields) / sizeof(info_fields[0]); i++)
		redis_info_field(reply && reply->type == REDIS_REPLY_STRING ? reply->str : "",
				 info_fields[i], facts[i], sizeof(facts[i]));
	/* Many managed servers forbid it. */
	reply = redis_command(client, NULL, get, &ignored);
	if (reply && redis_has_shape(reply, ".s"))
		snprintf(facts[FSYNC], sizeof(facts[FSYNC]), "%s", reply->element[1]->str);
	snprintf(facts[WANTED], sizeof(facts[WANTED]), "%lld", (long long)client->replicas);
	if (facts[VERSION][0])
		report_facts(facts, findings);
	else
		findings_add(findings, FINDING_WARNING, "info", "allow INFO, to have version, "
			     "replication, persistence and memory checked",
			     "cannot be read: %.180s", err.message);
}

int redis_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);
	const struct redis_address *address = &client->servers[0].address;
	static const char *const time[] = { "TIME", NULL };
	const int64_t asked_ms = clock_wall_ms();
	const redisReply *reply = redis_command(client, NULL, time, err);

	/* Leases end by the server's clock, and each acquisition needs TIME, too. */
	if (!reply || !redis_has_shape(reply, "ss"))
		return reply ? error_set(err, ERROR_UNAVAILABLE, 0, "TIME: unexpected reply") : -1;
	findings_add_clock(findings, strtoll(reply->element[0]->str, NULL, 10) * 1000 +
				     strtoll(reply->element[1]->str, NULL, 10) / 1000, asked_ms);
	findings_add_transport(findings, address->at.port ? address->at.host : NULL,
			       address->encrypted, !address->tls.insecure, address->password);
	check_info(client, findings);
	return 0;
}

int redis_ping(struct backend *backend, struct error *err)
{
	static const char *const ping[] = { "PING", NULL };
	struct redis_call call = { .command = ping };

	return redis_ask_majority(redis_from_backend(backend), &call, err);
}

/* Check only that the servers answer: locks need nothing that has to be created. */
int redis_setup(struct backend *backend, char **plan, struct error *err)
{
	if (!plan)
		return redis_ping(backend, err);
	*plan = memory_copy("");
	return 0;
}
