/* SPDX-License-Identifier: MIT */
/* Finds out whether a Redis server is fit to hold locks. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/view.h"
#include "info.h"
#include "lock.h"

/* With more difference between how far two clocks advance in a moment, one of them was set. */
#define CLOCK_JUMP_MS INT64_C(500)
/* A clock may advance in steps of a second. */
#define CLOCK_PATIENCE_MS INT64_C(1100)
#define CLOCK_PAUSE_US 20000

/* The clock of a server, and when it was read. */
struct reading {
	int64_t server_us;
	int64_t before_us, after_us;	/* CLOCK_BOOTTIME */
};

static int read_clock(struct redis_node *node, struct reading *reading, struct error *err)
{
	int failed;

	reading->before_us = clock_read_us(CLOCK_BOOTTIME);
	failed = redis_node_time(node, &reading->server_us, err);
	reading->after_us = clock_read_us(CLOCK_BOOTTIME);
	return failed;
}

static int64_t middle_us(const struct reading *reading)
{
	return (reading->before_us + reading->after_us) / 2;
}

static void check_skew(const struct reading *now, struct findings *findings)
{
	const int64_t boot_to_wall_ms = clock_wall_ms() - clock_boot_ms();

	findings_add_skew(findings,
			  now->server_us / 1000 - middle_us(now) / 1000 - boot_to_wall_ms);
}

/*
 * Redis counts the time of its keys by its wall clock. That it jumps shows only if it does so now,
 * or if it was set back since the server noted saved_s, the time of its start or last snapshot.
 */
static void check_expiry(const struct reading *first, const struct reading *last, int64_t saved_s,
			 struct findings *findings)
{
	static const char *const remedy = "have the clock slewed, not set";
	const int64_t server_us = last->server_us - first->server_us;
	const int64_t ours_us = middle_us(last) - middle_us(first);
	const int64_t unsure_us = last->after_us - last->before_us +
				  first->after_us - first->before_us;
	const int64_t back_s = saved_s - last->server_us / 1000000;

	if (server_us == 0)
		findings_add(findings, FINDING_ERROR, "expiry", "use another server",
			     "the server's clock does not advance: the lock of a holder that "
			     "crashed would never lapse");
	else if (llabs(server_us - ours_us) > CLOCK_JUMP_MS * 1000 + unsure_us)
		findings_add(findings, FINDING_WARNING, "expiry", remedy,
			     "the server's clock moved by %+.3g s within %.3g s: leases end by "
			     "it, early or late", (double)server_us / 1000000,
			     (double)ours_us / 1000000);
	else if (back_s > 1)
		findings_add(findings, FINDING_WARNING, "expiry", remedy,
			     "the server's clock was set back by %lld s or more since it "
			     "started: leases ended that much later", (long long)back_s);
	else
		findings_add(findings, FINDING_OK, "expiry", NULL, "leases end by the server's "
			     "wall clock, which must not be set forward");
}

/* Reads the clock until it has advanced, or long enough to be sure that it does not. 0 or -1. */
static int check_clock(struct redis_node *node, struct reading *first, struct reading *last,
		       struct findings *findings)
{
	struct error err = { 0 };
	int failed = read_clock(node, first, &err);

	*last = *first;
	while (!failed && last->server_us == first->server_us &&
	       last->after_us - first->after_us < CLOCK_PATIENCE_MS * 1000) {
		usleep(CLOCK_PAUSE_US);
		failed = read_clock(node, last, &err);
	}
	if (failed)
		findings_add(findings, FINDING_WARNING, "clock", NULL, "cannot be read: %.180s",
			     err.message);
	else
		check_skew(last, findings);
	return failed;
}

static void check_version(const char *info, struct findings *findings)
{
	char version[32], server[32];
	long major;

	redis_info_field(info, "valkey_version", server, sizeof(server));
	redis_info_field(info, "redis_version", version, sizeof(version));
	major = strtol(version, NULL, 10);
	if (major < 5)
		findings_add(findings, FINDING_ERROR, "version", "use Redis 5 or newer",
			     "Redis %s is too old", version);
	else
		findings_add(findings, FINDING_OK, "version", NULL, "%s %s",
			     server[0] ? "Valkey" : "Redis", server[0] ? server : version);
}

static void check_role(const struct redis_node *node, const char *info, struct findings *findings)
{
	char role[16], replicas[16], master[8];
	const long long wanted = node->replicas;

	redis_info_field(info, "role", role, sizeof(role));
	redis_info_field(info, "connected_slaves", replicas, sizeof(replicas));
	redis_info_field(info, "master_link_status", master, sizeof(master));
	if (!strcmp(role, "slave"))
		findings_add(findings, FINDING_ERROR, "role", "name the master",
			     "a replica: it takes no writes (link to its master: %s)", master);
	else if (strtoll(replicas, NULL, 10) < wanted)
		findings_add(findings, FINDING_ERROR, "role", "connect more replicas, or lower "
			     "?replicas=", "master with %s replicas, and ?replicas=%lld: nobody "
			     "gets a lock", replicas, wanted);
	else if (wanted)
		findings_add(findings, FINDING_OK, "role", NULL, "master with %s replicas; each "
			     "hold waits for %lld", replicas, wanted);
	else if (strcmp(replicas, "0") != 0)
		findings_add(findings, FINDING_WARNING, "role",
			     "set ?replicas=, and check DLOCK_FENCE where the work is written",
			     "master with %s replicas: replication is asynchronous, a lock can be "
			     "lost in a failover", replicas);
	else
		findings_add(findings, FINDING_OK, "role", NULL, "master, no replicas");
}

/* Some providers, and users without the permission, are refused WAIT. */
static void check_wait(struct redis_node *node, const char *info, struct findings *findings)
{
	static const char *const argv[] = { "WAIT", "0", "1" };
	struct error err = { 0 };
	char replicas[16];
	redisReply *reply;

	redis_info_field(info, "connected_slaves", replicas, sizeof(replicas));
	if (!strtoll(replicas, NULL, 10))
		return;
	reply = redis_node_ask(node, 3, argv, &err);
	if (!reply)
		findings_add(findings, FINDING_WARNING, "replicas", "allow WAIT, or do without "
			     "?replicas=", "WAIT is refused: %.180s", err.message);
	freeReplyObject(reply);
}

static void check_persistence(const char *info, const char *fsync, struct findings *findings)
{
	char aof[8];

	redis_info_field(info, "aof_enabled", aof, sizeof(aof));
	if (strcmp(aof, "1") != 0)
		findings_add(findings, FINDING_WARNING, "persistence",
			     "set 'appendonly yes' and 'appendfsync always', or accept that a "
			     "restart forgets locks (holders notice and stop)",
			     "no append-only file: a restart forgets locks");
	else if (fsync[0] && strcmp(fsync, "always") != 0)
		findings_add(findings, FINDING_NOTE, "persistence",
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

	redis_info_field(info, "maxmemory", limit, sizeof(limit));
	redis_info_field(info, "maxmemory_policy", policy, sizeof(policy));
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

/* *saved_s: when the server has started or made its last snapshot; 0: it does not say. */
static void check_info(struct redis_node *node, int64_t *saved_s, struct findings *findings)
{
	static const char *const argv[] = { "INFO" };
	struct error err = { 0 };
	redisReply *reply = redis_node_ask(node, 1, argv, &err);
	char fsync[32], saved[24];

	*saved_s = 0;
	if (!reply || !redis_is_text(reply)) {
		findings_add(findings, FINDING_WARNING, "info",
			     "allow INFO, to have version, role, persistence and memory checked",
			     "cannot be read: %.180s", err.message);
	} else {
		redis_setting(node, "appendfsync", fsync, sizeof(fsync));
		check_version(reply->str, findings);
		check_role(node, reply->str, findings);
		check_wait(node, reply->str, findings);
		redis_info_field(reply->str, "rdb_last_save_time", saved, sizeof(saved));
		*saved_s = strtoll(saved, NULL, 10);
		check_persistence(reply->str, fsync, findings);
		check_memory(reply->str, findings);
	}
	freeReplyObject(reply);
}

static void check_transport(const struct redis_node *node, struct findings *findings)
{
	const struct redis_address *address = &node->address;

	if (address->transport == &redis_tls && !address->tls.insecure)
		findings_add(findings, FINDING_OK, "transport", NULL,
			     "encrypted, and the server's certificate was verified");
	else if (net_is_local(address->host))
		findings_add(findings, FINDING_OK, "transport", NULL, "does not leave this host");
	else if (address->transport == &redis_tls)
		findings_add(findings, FINDING_WARNING, "transport",
			     "name the authority that signed the certificate with ?ca=, and drop "
			     "?insecure=yes",
			     "encrypted, but any server would do: the certificate is not verified");
	else
		findings_add(findings, address->password ? FINDING_WARNING : FINDING_NOTE,
			     "transport",
			     "encrypt it (TLS, see dlock-backends(7)), or use a private network",
			     "not encrypted: tokens%s can be read on the way",
			     address->password ? " and the password" : "");
}

int redis_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redis_node *node = &redis_from_backend(backend)->node;
	struct reading first, last;
	int64_t saved_s;
	int failed;

	if (findings_add_round_trip(findings, backend, redis_setup, "", err))
		return -1;
	failed = check_clock(node, &first, &last, findings);
	check_info(node, &saved_s, findings);
	if (!failed)
		check_expiry(&first, &last, saved_s, findings);
	if (node->route)
		redis_check_route(node, findings);
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
