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
	char version[48] = "not known: 4lw.commands.whitelist has no srvr";
	struct error err;

	if (!zk_servers_ask(&zk->conn, host, 1, answer,
			    clock_boot_ms() + zk->base.timeout_ms, &err)) {
		findings_add(findings, FINDING_WARNING, "server", "repair it, or take it out of "
			     "the URI", "%.230s", err.message);
		return false;
	}
	sscanf(answer, "Zookeeper version: %47[^-,\r\n]", version);
	findings_add(findings, FINDING_OK, "version", NULL, "%s: %s",
		     uri_host_text(host->name, host->port, label, sizeof(label)), version);
	return true;
}

static void check_ensemble(struct zk_backend *zk, struct findings *findings)
{
	const struct zk_conn *conn = &zk->conn;
	const char *far = NULL;
	size_t serving = 0;

	for (size_t i = 0; i < conn->host_count; i++) {
		if (!net_is_local(conn->hosts[i].name))
			far = conn->hosts[i].name;
		/* Servers answer `srvr` in clear text only. */
		serving += !conn->tls && check_server(zk, &conn->hosts[i], findings);
	}
	if (!conn->tls)
		findings_add(findings, conn->host_count < 3 ? FINDING_WARNING : FINDING_OK,
			     "quorum", "run three servers or more, and name them all",
			     "%zu of %zu servers in the URI serve", serving, conn->host_count);
	findings_add_transport(findings, far, conn->tls, true, conn->auth);
}

int zk_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct zk_backend *zk = zk_from_backend(backend);
	enum zk_end end = zk_conn_begin(&zk->conn, zk->base.connect_timeout_ms, LONG_TTL_MS);

	if (!zk_conn_try(&zk->conn, true, &end, err))
		return -1;
	findings_add(findings, zk->conn.ttl_ms < BACKEND_TTL_MS ? FINDING_WARNING : FINDING_OK,
		     "session", "raise maxSessionTimeout, or take a shorter --ttl",
		     "a --ttl of up to %.6g s is granted", (double)zk->conn.ttl_ms / 1000);
	check_ensemble(zk, findings);
	return 0;
}

/* ---- the root, and directories in it ---- */

enum zk_end zk_make_directory(struct zk_backend *zk, const char *path, int mode,
			      struct error *err)
{
	char above[ZK_PATH_SIZE];
	enum zk_end end = ZK_DONE;
	int rc = zk_call_wait(zk_create(&zk->conn, path, "", mode));

	snprintf(above, sizeof(above), "%.*s", (int)(strrchr(path, '/') - path), path);
	if (rc == ZNONODE && above[0]) {
		end = zk_make_directory(zk, above, ZOO_PERSISTENT, err);
		if (!end)
			rc = zk_call_wait(zk_create(&zk->conn, path, "", mode));
	}
	return end || rc == ZOK || rc == ZNODEEXISTS
		       ? end
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
