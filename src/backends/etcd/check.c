/* SPDX-License-Identifier: MIT */
/* `dlock check` and `dlock setup` for etcd. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "etcd.h"
#include "lock/findings.h"

/* Before this version a leader that was replaced may end leases early (etcd 15247). */
static const int safe_version[3] = { 3, 5, 13 };

static bool is_old(const char *version)
{
	int part[3] = { 0 };

	sscanf(version, "%d.%d.%d", &part[0], &part[1], &part[2]);
	for (int i = 0; i < 3; i++)
		if (part[i] != safe_version[i])
			return part[i] < safe_version[i];
	return false;
}

/* One warning is enough for all members. */
static bool warned_of_version(const struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (!strcmp(findings->rows[i].topic, "version"))
			return true;
	return false;
}

/* Ask the member in use for its state. Returns whether it serves. */
static bool check_member(struct etcd_backend *etcd, struct findings *findings)
{
	const int64_t asked_ms = clock_boot_ms();
	char version[24];
	struct error err = { 0 };
	const char *leader, *state;

	if (etcd_call(etcd, "/v3/maintenance/status", memory_copy("{}"), &err)) {
		findings_add(findings, FINDING_WARNING, "member",
			     "repair it, or take it out of the URI", "%.230s", err.message);
		return false;
	}
	snprintf(version, sizeof(version), "%s", etcd_text(etcd->reply, "/version"));
	/* Members have numbers of 64 bits without a sign. */
	leader = etcd_text(etcd->reply, "/leader");
	state = !*leader || !strcmp(leader, "0")	? "has no leader"
		: etcd_get(etcd->reply, "/isLearner")	? "is a learner"
		: strcmp(leader, etcd_text(etcd->reply, "/header/member_id")) != 0
			? "follows the leader"
			: "is the leader";
	findings_add(findings, FINDING_OK, "member", NULL,
		     "%s %s, version %.20s, answers in %" PRId64 " ms", etcd->label, state, version,
		     clock_boot_ms() - asked_ms);
	if (is_old(version) && !warned_of_version(findings))
		findings_add(findings, FINDING_WARNING, "version", "use 3.5.13 or newer",
			     "%.20s: after a change of leaders the old one may end leases early, "
			     "so that a command is stopped", version);
	return strcmp(state, "has no leader") != 0 && strcmp(state, "is a learner") != 0;
}

/* Check each host of the URI alone. */
static void check_members(struct etcd_backend *etcd, struct findings *findings)
{
	const struct uri_host *const hosts = etcd->hosts;
	const size_t count = etcd->host_count;
	size_t serving = 0;

	for (size_t i = 0; i < count; i++) {
		etcd->hosts = &hosts[i];
		etcd->host_count = 1;
		etcd_use_member(etcd, 0);
		etcd_begin(etcd);
		serving += check_member(etcd, findings);
	}
	etcd->hosts = hosts;
	etcd->host_count = count;
	etcd_use_member(etcd, 0);
	etcd_begin(etcd);
	findings_add(findings, count < 3 || serving < count ? FINDING_WARNING : FINDING_OK,
		     "quorum", count < 3 ? "run three members, and name them all" : NULL,
		     "%zu of %zu members in the URI serve", serving, count);
}

static void check_alarms(struct etcd_backend *etcd, struct findings *findings)
{
	struct json_object *alarms;
	struct error ignored = { 0 };

	if (etcd_call(etcd, "/v3/maintenance/alarm", memory_copy("{\"action\":\"GET\"}"), &ignored))
		return;
	if (etcd_array(etcd->reply, "/alarms", &alarms))
		findings_add(findings, FINDING_ERROR, "alarm",
			     "compact and defragment it, then 'etcdctl alarm disarm'",
			     "the cluster has the alarm %.40s",
			     etcd_text(json_object_array_get_idx(alarms, 0), "/alarm"));
}

static void check_auth(const struct etcd_backend *etcd, struct findings *findings)
{
	const struct finding_rule rules[] = {
		{ "auth", etcd->user, FINDING_OK, "the user ", etcd->user, " has a password",
		  NULL },
		{ "auth", true, FINDING_NOTE,
		  "no user: anybody who reaches the server may remove locks", "", "",
		  "see 'etcdctl auth enable', and 'dlock setup --dry-run' for the permissions of "
		  "a role" },
	};
	const char *far = NULL;

	for (size_t i = 0; i < etcd->host_count; i++)
		if (!net_is_local(etcd->hosts[i].name))
			far = etcd->hosts[i].name;
	findings_add_transport(findings, far, etcd->encrypted, !etcd->tls.insecure, etcd->user);
	findings_add_rules(findings, rules, sizeof(rules) / sizeof(rules[0]));
}

int etcd_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct etcd_backend *etcd = etcd_from_backend(backend);

	check_members(etcd, findings);
	if (etcd_connect(etcd, err))
		return -1;
	check_alarms(etcd, findings);
	check_auth(etcd, findings);
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
