/* SPDX-License-Identifier: MIT */
/* Finds out whether a Redis server is fit to hold locks. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/view.h"
#include "lock.h"

/* With more difference, people see that fences and ages do not fit the clock of their host. */
#define CLOCK_SKEW_MS 1000

static void check_clock(struct redis_node *node, struct findings *findings)
{
	static const char *const time_command[] = { "TIME" };
	struct error err = { 0 };
	int64_t before = clock_wall_ms(), after, theirs, skew;
	redisReply *reply = redis_node_ask(node, 1, time_command, &err);

	after = clock_wall_ms();
	if (!reply || !redis_has_shape(reply, "ss")) {
		findings_add(findings, FINDING_WARNING, "clock", NULL, "cannot be read: %.180s",
			     err.message);
	} else {
		theirs = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
			 strtoll(reply->element[1]->str, NULL, 10) / 1000;
		skew = theirs - (before + after) / 2;
		findings_add(findings, llabs(skew) > CLOCK_SKEW_MS ? FINDING_WARNING : FINDING_OK,
			     "clock", llabs(skew) > CLOCK_SKEW_MS
			     ? "synchronise the clocks (NTP); leases do not depend on it" : NULL,
			     "%+lld ms against ours", (long long)skew);
	}
	if (reply)
		freeReplyObject(reply);
}

/* The value of "name:" in the text of INFO; "" when there is none. */
static const char *field(const char *info, const char *name, char *buf, size_t size)
{
	size_t length = strlen(name);
	const char *line = info;

	buf[0] = '\0';
	while (line && *line) {
		if (!strncmp(line, name, length) && line[length] == ':') {
			snprintf(buf, size, "%.*s", (int)strcspn(line + length + 1, "\r\n"),
				 line + length + 1);
			break;
		}
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return buf;
}

static void check_version(const char *info, struct findings *findings)
{
	char version[32], server[32];
	long major;

	field(info, "valkey_version", server, sizeof(server));
	field(info, "redis_version", version, sizeof(version));
	major = strtol(version, NULL, 10);
	if (major < 5)
		findings_add(findings, FINDING_ERROR, "version", "use Redis 5 or newer",
			     "Redis %s is too old", version);
	else
		findings_add(findings, FINDING_OK, "version", NULL, "%s %s",
			     server[0] ? "Valkey" : "Redis", server[0] ? server : version);
}

static void check_role(const char *info, struct findings *findings)
{
	char role[16], replicas[16], master[8];

	field(info, "role", role, sizeof(role));
	field(info, "connected_slaves", replicas, sizeof(replicas));
	field(info, "master_link_status", master, sizeof(master));
	if (!strcmp(role, "slave"))
		findings_add(findings, FINDING_ERROR, "role", "name the master",
			     "a replica: it takes no writes (link to its master: %s)", master);
	else if (strcmp(replicas, "0") != 0)
		findings_add(findings, FINDING_WARNING, "role",
			     "check DLOCK_FENCE where the work is written",
			     "master with %s replicas: replication is asynchronous, a lock can be "
			     "lost in a failover", replicas);
	else
		findings_add(findings, FINDING_OK, "role", NULL, "master, no replicas");
}

static void check_persistence(const char *info, const char *fsync, struct findings *findings)
{
	char aof[8];

	field(info, "aof_enabled", aof, sizeof(aof));
	if (strcmp(aof, "1") != 0)
		findings_add(findings, FINDING_WARNING, "persistence",
			     "set 'appendonly yes' and 'appendfsync always', or accept that a "
			     "restart forgets locks (holders notice and stop)",
			     "no append-only file: a restart forgets locks");
	else if (fsync[0] && strcmp(fsync, "always") != 0)
		findings_add(findings, FINDING_WARNING, "persistence",
			     "set 'appendfsync always'",
			     "append-only file, appendfsync %s: a crash may forget the newest "
			     "locks",
			     fsync);
	else
		findings_add(findings, FINDING_OK, "persistence", NULL,
			     "append-only file, appendfsync %s", fsync[0] ? fsync : "not known");
}

static void check_memory(const char *info, struct findings *findings)
{
	char limit[32], policy[32];

	field(info, "maxmemory", limit, sizeof(limit));
	field(info, "maxmemory_policy", policy, sizeof(policy));
	/* Locks have a TTL: the volatile policies evict them before other keys. */
	if (strcmp(limit, "0") != 0 && strcmp(policy, "noeviction") != 0)
		findings_add(findings, FINDING_WARNING, "eviction",
			     "set 'maxmemory-policy noeviction', or give locks a server of "
			     "their own",
			     "maxmemory-policy %s may evict a lock when memory is short", policy);
	else
		findings_add(findings, FINDING_OK, "eviction", NULL, "%s",
			     strcmp(limit, "0") ? policy : "no memory limit");
}

/* Reads a setting by CONFIG GET; "" where that is forbidden, as on many managed servers. */
static void read_setting(struct redis_node *node, const char *name, char *buf, size_t size)
{
	const char *argv[] = { "CONFIG", "GET", name };
	struct error ignored = { 0 };
	redisReply *reply = redis_node_ask(node, 3, argv, &ignored);

	buf[0] = '\0';
	if (reply && redis_has_shape(reply, ".s"))
		snprintf(buf, size, "%s", reply->element[1]->str);
	if (reply)
		freeReplyObject(reply);
}

static void check_info(struct redis_node *node, struct findings *findings)
{
	static const char *const argv[] = { "INFO" };
	struct error err = { 0 };
	redisReply *reply = redis_node_ask(node, 1, argv, &err);
	char fsync[32];

	if (!reply || !redis_is_text(reply)) {
		findings_add(findings, FINDING_WARNING, "info",
			     "allow INFO, to have version, role, persistence and memory checked",
			     "cannot be read: %.180s", err.message);
	} else {
		read_setting(node, "appendfsync", fsync, sizeof(fsync));
		check_version(reply->str, findings);
		check_role(reply->str, findings);
		check_persistence(reply->str, fsync, findings);
		check_memory(reply->str, findings);
	}
	if (reply)
		freeReplyObject(reply);
}

static void check_transport(const struct redis_node *node, struct findings *findings)
{
	const char *host = node->address.host;
	bool local = !host || !strcmp(host, "localhost") || !strcmp(host, "::1") ||
		     !strncmp(host, "127.", 4);

	if (local)
		findings_add(findings, FINDING_OK, "transport", NULL, "does not leave this host");
	else
		findings_add(findings, FINDING_WARNING, "transport",
			     "use a private network or a tunnel",
			     "not encrypted: tokens%s can be read on the way",
			     node->address.password ? " and the password" : "");
}

int redis_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redis_node *node = &redis_from_backend(backend)->node;

	if (findings_add_round_trip(findings, backend, redis_setup, "", err))
		return -1;
	check_clock(node, findings);
	check_info(node, findings);
	check_transport(node, findings);
	return 0;
}

/* Locks need nothing that must be created first: only checks that the server answers. */
int redis_setup(struct backend *backend, struct error *err)
{
	static const char *const ping[] = { "PING" };
	redisReply *reply = redis_node_ask(&redis_from_backend(backend)->node, 1, ping, err);

	if (!reply)
		return -1;
	freeReplyObject(reply);
	return 0;
}

int redis_plan(struct backend *backend, char **text, struct error *err)
{
	(void)backend;
	(void)err;
	*text = memory_copy("");
	return 0;
}
