/* SPDX-License-Identifier: MIT */
/* `dlock check` and `dlock setup` for etcd. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "etcd.h"
#include "lock/findings.h"

/* Before 3.5.13 a leader that was replaced may end leases early (etcd 15247). */
static bool is_old(const char *version)
{
	int major = 0, minor = 0, patch = 0;

	sscanf(version, "%3d.%3d.%3d", &major, &minor, &patch);
	return (major * 1000 + minor) * 1000 + patch < 3005013;
}

/* Ask the member in use for its state. Returns whether it serves. *old: is_old(). */
static bool check_member(struct etcd_backend *etcd, struct findings *findings, bool *old)
{
	const int64_t asked_ms = clock_boot_ms();
	const char *leader, *version, *state;
	struct error err = { 0 };

	if (etcd_call(etcd, "/v3/maintenance/status", memory_copy("{}"), &err)) {
		findings_add(findings, FINDING_WARNING, "member",
			     "repair it, or take it out of the URI", "%.230s", err.message);
		return false;
	}
	version = etcd_text(etcd->reply, "/version");
	*old |= is_old(version);
	/* Members have numbers of 64 bits without a sign. */
	leader = etcd_text(etcd->reply, "/leader");
	state = !*leader || !strcmp(leader, "0")      ? "has no leader"
		: etcd_get(etcd->reply, "/isLearner") ? "is a learner"
		: strcmp(leader, etcd_text(etcd->reply, "/header/member_id")) != 0
			? "follows the leader"
			: "is the leader";
	findings_add(findings, FINDING_OK, "member", NULL,
		     "%s %s, version %.20s, answers in %" PRId64 " ms", etcd->label, state, version,
		     clock_boot_ms() - asked_ms);
	return strstr(state, "the leader");
}

/* Check each host of the URI alone. */
static void check_members(struct etcd_backend *etcd, struct findings *findings)
{
	const struct uri_host *const hosts = etcd->hosts;
	const size_t count = etcd->host_count;
	size_t serving = 0;
	bool old = false;

	etcd->host_count = 1;
	for (size_t i = 0; i < count; i++) {
		etcd->hosts = &hosts[i];
		etcd_use_member(etcd, 0);
		etcd_begin(etcd);
		serving += check_member(etcd, findings, &old);
	}
	etcd->hosts = hosts;
	etcd->host_count = count;
	etcd_use_member(etcd, 0);
	if (old)
		findings_add(findings, FINDING_WARNING, "version", "use 3.5.13 or newer",
			     "a member is older than 3.5.13: after a change of leaders the old one "
			     "may end leases early, so that a command is stopped");
	findings_add(findings, count < 3 || serving < count ? FINDING_WARNING : FINDING_OK,
		     "quorum", count < 3 ? "run three members, and name them all" : NULL,
		     "%zu of %zu members in the URI serve", serving, count);
}

int etcd_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);
	const char *far = NULL;

	(void)err;
	check_members(etcd, findings);
	for (size_t i = 0; i < etcd->host_count; i++)
		if (!net_is_local(etcd->hosts[i].name))
			far = etcd->hosts[i].name;
	findings_add_transport(findings, far, etcd->encrypted, !etcd->tls.insecure, etcd->user);
	if (etcd->user)
		findings_add(findings, FINDING_OK, "auth", NULL, "the user %.180s has a password",
			     etcd->user);
	else
		findings_add(findings, FINDING_NOTE, "auth",
			     "see 'etcdctl auth enable', and 'dlock setup --dry-run' for the "
			     "permissions of a role",
			     "no user: anybody who reaches the server may remove locks");
	return 0;
}

int etcd_setup(struct backend *backend, char **plan, struct error *err)
{
	const struct etcd_backend *etcd = etcd_from_backend(backend);
	const char *user = etcd->user ? etcd->user : "dlock";

	(void)err;
	/* There is nothing to make. */
	if (plan)
		*plan = memory_format(
			"# Nothing has to be made. With users, the account needs:\n"
			"etcdctl role add dlock\n"
			"etcdctl role grant-permission --prefix=true dlock readwrite '%s'\n"
			"etcdctl user grant-role '%s' dlock\n",
			etcd->prefix, user);
	return 0;
}
