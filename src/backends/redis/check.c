/* SPDX-License-Identifier: MIT */
/* `dlock check` for a Redis server, and for the sentinels or nodes that lead to it. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"
#include "lock/findings.h"
#include "client.h"

/* ---- what the server reports ---- */

/* Values of INFO that matter for locks, one of CONFIG, and ?replicas=; "": not known. */
enum { VERSION, VALKEY, ROLE, LINK, REPLICAS, AOF, LIMIT, POLICY, FSYNC, WANTED, FACTS };

static const char *const info_fields[] = {
	[VERSION] = "redis_version", [VALKEY] = "valkey_version", [ROLE] = "role",
	[LINK] = "master_link_status", [REPLICAS] = "connected_slaves", [AOF] = "aof_enabled",
	[LIMIT] = "maxmemory", [POLICY] = "maxmemory_policy",
};

/* err: why INFO was not answered, or none. */
static void report_facts(const struct redis_address *address, char facts[static FACTS][32],
			 const struct error *err, struct findings *findings)
{
	const bool limited = strcmp(facts[LIMIT], "0") != 0, durable = facts[AOF][0] == '1';
	const bool local = net_is_local(address->at.port ? address->at.host : NULL);
	const long replicas = strtol(facts[REPLICAS], NULL, 10);
	const struct finding_rule way[] = {
		{ "transport", address->encrypted && !address->tls.insecure, FINDING_OK,
		  "encrypted, and the server's certificate was verified", "", "", NULL },
		{ "transport", local, FINDING_OK, "does not leave this host", "", "", NULL },
		{ "transport", address->encrypted, FINDING_WARNING,
		  "encrypted, but any server would do: the certificate is not verified", "", "",
		  "name the authority that signed the certificate with ?ca=, and drop "
		  "?insecure=yes" },
		{ "transport", true, address->password ? FINDING_WARNING : FINDING_NOTE,
		  "not encrypted: tokens and passwords can be read on the way", "", "",
		  "encrypt it (TLS, see dlock-redis(7)), or use a private network" },
		{ "info", !facts[VERSION][0], FINDING_WARNING, "cannot be read: ", err->message, "",
		  "allow INFO, to have version, role, persistence and memory checked" },
	};
	const struct finding_rule rules[] = {
		{ "version", strtol(facts[VERSION], NULL, 10) < 5, FINDING_ERROR, "Redis ",
		  facts[VERSION], " is too old", "use Redis 5 or newer" },
		{ "version", facts[VALKEY][0], FINDING_OK, "Valkey ", facts[VALKEY], "", NULL },
		{ "version", true, FINDING_OK, "Redis ", facts[VERSION], "", NULL },
		{ "role", !strcmp(facts[ROLE], "slave"), FINDING_ERROR, "a replica: it takes no "
		  "writes (link to its master: ", facts[LINK], ")", "name the master" },
		{ "role", replicas < strtol(facts[WANTED], NULL, 10), FINDING_ERROR, "master with ",
		  facts[REPLICAS], " replicas, fewer than ?replicas=: nobody gets a lock",
		  "connect more replicas, or lower ?replicas=" },
		{ "role", facts[WANTED][0] != '0', FINDING_OK, "master; each hold waits for ",
		  facts[WANTED], " replicas", NULL },
		{ "role", replicas > 0, FINDING_WARNING, "master with ", facts[REPLICAS],
		  " replicas: replication is asynchronous, a lock can be lost in a failover",
		  "set ?replicas=, and check DLOCK_FENCE where the work is written" },
		{ "role", true, FINDING_OK, "master with ", facts[REPLICAS], " replicas", NULL },
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

	findings_add_rules(findings, way, sizeof(way) / sizeof(way[0]));
	if (facts[VERSION][0])
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
	report_facts(&client->servers[0].address, facts, &err, findings);
}

/* Compare the clocks: leases end by the server's. */
static void check_clock(struct redis_client *client, struct findings *findings)
{
	static const char *const time[] = { "TIME", NULL };
	const int64_t before_ms = clock_wall_ms();
	struct error err = { 0 };
	const redisReply *reply = redis_command(client, NULL, time, &err);

	if (!reply || !redis_has_shape(reply, "ss"))
		findings_add(findings, FINDING_WARNING, "clock", NULL, "cannot be read: %.180s",
			     err.message);
	else
		findings_add_skew(findings, strtoll(reply->element[0]->str, NULL, 10) * 1000 +
				  strtoll(reply->element[1]->str, NULL, 10) / 1000 -
				  (before_ms + clock_wall_ms()) / 2);
}

/* ---- the route to the server ---- */

/* Does this sentinel name the server that has answered? */
static void check_sentinel(struct redis_client *client, size_t which, struct findings *findings)
{
	struct redis_route *route = client->route;
	const char *name = route->sentinel->servers[0].address.label + sizeof("sentinel ") - 1;
	struct redis_endpoint named;
	struct error err = { 0 };
	char other[256];

	if (redis_sentinel_ask(client, which, client->base.connect_timeout_ms, &named, &err))
		findings_add(findings, FINDING_WARNING, "sentinel",
			     "repair this sentinel: without it fewer others may fail", "%.200s",
			     err.message);
	else if (redis_endpoint_equal(&client->servers[0].address.at, &named))
		findings_add(findings, FINDING_OK, "sentinel", NULL, "%s: names this master", name);
	else
		findings_add(findings, FINDING_WARNING, "sentinel",
			     "repair this sentinel, unless a failover has just been made",
			     "%.100s: names another master, %.100s", name,
			     uri_host_text(named.host, named.port, other, sizeof(other)));
}

/* Check one node of the URI. */
static void check_node(struct redis_client *client, size_t which, struct findings *findings)
{
	static const char *const argv[] = { "CLUSTER", "INFO", NULL };
	const char *name = client->servers[0].address.label + sizeof("redis ") - 1;
	struct error err = { 0 };
	const redisReply *reply = redis_command(client, &client->route->endpoints[which], argv,
						&err);
	char state[16] = "";

	if (reply && reply->type == REDIS_REPLY_STRING)
		redis_info_field(reply->str, "cluster_state", state, sizeof(state));
	if (!reply)
		findings_add(findings, FINDING_WARNING, "node", "repair this node, or take it out "
			     "of the URI; it must allow CLUSTER INFO", "%.200s", err.message);
	else if (!strcmp(state, "ok"))
		findings_add(findings, FINDING_OK, "node", NULL, "%.120s: cluster_state is ok",
			     name);
	else
		findings_add(findings, FINDING_WARNING, "cluster", "see CLUSTER NODES at this node",
			     "%.120s: cluster_state is %s: it refuses all locks", name, state);
}

static void check_route(struct redis_client *client, struct findings *findings)
{
	struct redis_route *route = client->route;

	for (size_t i = 0; i < route->count; i++)
		if (route->cluster)
			check_node(client, i, findings);
		else
			check_sentinel(client, i, findings);
	if (route->count == 1)
		findings_add(findings, FINDING_NOTE, route->cluster ? "node" : "sentinel",
			     "name more of them, so that this one may be gone",
			     "the URI names one");
}

int redis_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redis_client *client = redis_from_backend(backend);

	if (findings_add_round_trip(findings, backend, redis_ping, "", err))
		return -1;
	check_clock(client, findings);
	check_info(client, findings);
	if (client->route)
		check_route(client, findings);
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
