/* SPDX-License-Identifier: MIT */
/* `dlock check` and `dlock setup` for ZooKeeper. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "lock/uri.h"
#include "lock/findings.h"
#include "lock.h"

/* The session to ask for, to see the longest that is granted: by default 20 ticks of 2 s. */
#define LONG_TTL_MS 3600000

/* Returns whether the server serves. */
static bool check_server(struct zk_backend *zk, const struct uri_host *host,
			 struct findings *findings)
{
	char answer[ZK_ANSWER_SIZE], label[URI_HOST_SIZE];
	char version[48] = "not known: 4lw.commands.whitelist has no srvr", mode[24] = "answers";
	const char *line;
	struct error err;

	if (!zk_servers_ask(&zk->conn, host, 1, answer,
			    clock_boot_ms() + zk->base.timeout_ms, &err)) {
		findings_add(findings, FINDING_WARNING, "server", "repair it, or take it out of "
			     "the URI", "%.230s", err.message);
		return false;
	}
	sscanf(answer, "Zookeeper version: %47[^-,\r\n]", version);
	line = strstr(answer, "Mode: ");
	if (line)
		sscanf(line, "Mode: %23[^\r\n]", mode);
	findings_add(findings, FINDING_OK, "server", NULL, "%s: %s, version %s",
		     uri_host_text(host->name, host->port, label, sizeof(label)), mode, version);
	return true;
}

static void check_ensemble(struct zk_backend *zk, struct findings *findings)
{
	const struct zk_conn *conn = &zk->conn;
	const bool few = conn->host_count < 3;
	size_t serving = 0;

	/* Servers answer `srvr` in clear text only. */
	for (size_t i = 0; i < conn->host_count && !conn->tls; i++)
		serving += check_server(zk, &conn->hosts[i], findings);
	if (!conn->tls)
		findings_add(findings, few ? FINDING_WARNING : FINDING_OK, "quorum", few
			     ? "run three servers or more, and name them all" : NULL,
			     "%zu of %zu servers in the URI serve", serving, conn->host_count);
}

/* Find the longest session that the server grants. */
static int check_session(struct zk_backend *zk, struct findings *findings, struct error *err)
{
	enum zk_end end = zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms, LONG_TTL_MS);
	bool shorter;

	if (!zk_conn_try(&zk->conn, true, &end, err))
		return -1;
	shorter = zk->conn.ttl_ms < BACKEND_TTL_MS;
	findings_add(findings, shorter ? FINDING_WARNING : FINDING_OK, "session",
		     shorter ? "raise maxSessionTimeout, or take a shorter --ttl" : NULL,
		     "a --ttl of up to %.6g s is granted", (double)zk->conn.ttl_ms / 1000);
	return 0;
}

static void check_auth(const struct zk_backend *zk, struct findings *findings)
{
	const struct finding_rule rules[] = {
		{ "auth", zk->conn.auth, FINDING_OK, "nodes are for the user ", zk->conn.user,
		  " only", NULL },
		{ "auth", true, FINDING_NOTE, "no user: anybody who reaches the server may remove "
		  "locks", "", "", "give USER:PASSWORD@, so that nodes are for this user only" },
	};
	const char *far = NULL;

	for (size_t i = 0; i < zk->conn.host_count; i++)
		if (!net_is_local(zk->conn.hosts[i].name))
			far = zk->conn.hosts[i].name;
	findings_add_transport(findings, far, zk->conn.tls, true, zk->conn.auth);
	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

/* Warn of nodes of other programs in directories of locks. */
static int check_ignored(struct zk_backend *zk, struct findings *findings, struct error *err)
{
	const struct request request = { .token = "" };
	struct rows rows = { .hold_count = 0 };
	const int failed = zk_show(&zk->base, &request, &rows, err);

	if (rows.ignored.count)
		findings_add(findings, FINDING_WARNING, "layout", "use one kind of lock at a path",
			     "%.160s is of another program, which dlock does not exclude (such "
			     "nodes in all: %zu)", rows.ignored.names[0], rows.ignored.count);
	rows_finish(&rows);
	return failed;
}

int zk_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);

	if (check_session(zk, findings, err) || check_ignored(zk, findings, err))
		return -1;
	check_auth(zk, findings);
	check_ensemble(zk, findings);
	return 0;
}

/* ---- the root, and directories in it ---- */

enum zk_end zk_make_directory(struct zk_backend *zk, const char *path, int mode,
			      struct error *err)
{
	char above[ZK_PATH_SIZE];
	enum zk_end end;
	int rc = zk_call_wait(zk_create(&zk->conn, path, "", mode));

	snprintf(above, sizeof(above), "%.*s", (int)(strrchr(path, '/') - path), path);
	if (rc == ZNONODE && above[0]) {
		end = zk_make_directory(zk, above, ZOO_PERSISTENT, err);
		if (end)
			return end;
		rc = zk_call_wait(zk_create(&zk->conn, path, "", mode));
	}
	return rc == ZOK || rc == ZNODEEXISTS
		       ? ZK_DONE
		       : zk_call_error(&zk->conn, rc, "create", path, err);
}

/* Write commands for ZooKeeper's own client that make the root and all above it. */
static char *plan_root(const char *root)
{
	char *plan = memory_copy(""), *longer;

	for (const char *end = root; *end; ) {
		end += 1 + strcspn(end + 1, "/");
		longer = memory_format("%screate %.*s\n", plan, (int)(end - root), root);
		free(plan);
		plan = longer;
	}
	return plan;
}

int zk_setup(struct backend *backend, char **plan, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum zk_end end;

	if (plan) {
		*plan = plan_root(zk->root);
		return 0;
	}
	end = zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms, ZK_ASKING_MS);
	while (zk_conn_try(&zk->conn, true, &end, err))
		end = zk_make_directory(zk, zk->root, ZOO_PERSISTENT, err);
	return end ? -1 : 0;
}
