/* SPDX-License-Identifier: MIT */
/* Finds out whether the sentinels, or the nodes of a cluster, are fit to lead dlock to a lock. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lock/uri.h"
#include "lock/view.h"
#include "info.h"
#include "lock.h"
#include "route.h"
#include "sentinel.h"

/* With fewer, those that are left when one fails are no majority, and there is no failover. */
#define LEAST_VOTERS 3
#define CLUSTER_SLOTS 16384

/* ---- sentinels ---- */

/* What all sentinels have said together. */
struct sentinels {
	size_t answered;
	long known;		/* the most that one of them knows, itself included */
	long quorum;		/* what the first one has said; 0: nothing yet */
	bool differs;		/* another one has said something else */
};

/* The value after name in an array of names and values; "" when there is none. */
static const char *value(const redisReply *reply, const char *name)
{
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		if (redis_is_text(reply->element[i]) && redis_is_text(reply->element[i + 1]) &&
		    !strcmp(reply->element[i]->str, name))
			return reply->element[i + 1]->str;
	return "";
}

/* What one sentinel says of the master that it watches. */
static void read_master(const struct redis_node *node, const char *name, const redisReply *reply,
			struct sentinels *all, struct findings *findings)
{
	const char *ip = value(reply, "ip"), *port = value(reply, "port");
	const long quorum = strtol(value(reply, "quorum"), NULL, 10);
	const long known = 1 + strtol(value(reply, "num-other-sentinels"), NULL, 10);
	struct redis_place place;

	if (!redis_place_set(&place, ip, strlen(ip), strtol(port, NULL, 10))) {
		findings_add(findings, FINDING_WARNING, "sentinel", "repair this sentinel",
			     "%s: gave an answer that makes no sense", name);
		return;
	}
	if (redis_address_is_at(&node->address, &place))
		findings_add(findings, FINDING_OK, "sentinel", NULL, "%s: names this master; "
			     "quorum %ld, %ld sentinels and %s replicas known", name, quorum, known,
			     value(reply, "num-slaves"));
	else
		findings_add(findings, FINDING_WARNING, "sentinel",
			     "repair this sentinel, unless a failover has just been made",
			     "%s: names another master, %.60s:%.6s", name, ip, port);
	all->answered++;
	all->differs |= all->quorum && all->quorum != quorum;
	if (!all->quorum)
		all->quorum = quorum;
	if (known > all->known)
		all->known = known;
}

/* Can a failover be agreed on now? Old sentinels do not know the question: no finding. */
static void check_votes(struct redis_node *node, size_t which, const char *name,
			struct findings *findings)
{
	struct error ignored = { 0 };
	redisReply *reply = redis_sentinel_ask(node->route, which, &node->base,
					       node->base.timeout_ms, "CKQUORUM", &ignored);

	if (reply && reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "NOQUORUM", 8))
		findings_add(findings, FINDING_WARNING, "failover",
			     "repair the sentinels that are gone: nobody would replace a master "
			     "that fails", "%.100s: %.120s", name, reply->str);
	freeReplyObject(reply);
}

static void check_sentinel(struct redis_node *node, size_t which, struct sentinels *all,
			   struct findings *findings)
{
	static const char *const remedy = "repair this sentinel: without it fewer others may fail";
	struct error err = { 0 };
	const struct redis_place *place = &node->route->places[which];
	char name[256];
	redisReply *reply = redis_sentinel_ask(node->route, which, &node->base,
					       node->base.connect_timeout_ms, "MASTER", &err);

	uri_host_text(place->host, place->port, name, sizeof(name));
	if (!reply) {
		findings_add(findings, FINDING_WARNING, "sentinel", remedy, "%.200s", err.message);
		return;
	}
	if (reply->type != REDIS_REPLY_ARRAY) {
		findings_add(findings, FINDING_WARNING, "sentinel",
			     "have it watch this master, or allow it to tell of it", "%s: %.150s",
			     name, reply->type == REDIS_REPLY_ERROR ? reply->str : "no answer");
	} else {
		read_master(node, name, reply, all, findings);
		check_votes(node, which, name, findings);
	}
	freeReplyObject(reply);
}

static void check_number(const struct redis_route *route, const struct sentinels *all,
			 struct findings *findings)
{
	if (all->differs)
		findings_add(findings, FINDING_WARNING, "quorum", "give all sentinels the same",
			     "the sentinels do not have the same quorum for this master");
	if (all->known < LEAST_VOTERS)
		findings_add(findings, FINDING_WARNING, "sentinels",
			     "run three or more, on hosts of their own",
			     "%ld in all: no failover is possible when one of them is gone",
			     all->known);
	else if (route->count == 1)
		findings_add(findings, FINDING_NOTE, "sentinels",
			     "name more of them, so that this one may be gone",
			     "the URI names one of %ld", all->known);
	else
		findings_add(findings, FINDING_OK, "sentinels", NULL,
			     "%ld in all; the URI names %zu, and %zu answer", all->known,
			     route->count, all->answered);
}

static void check_sentinels(struct redis_node *node, struct findings *findings)
{
	struct sentinels all = { 0 };

	for (size_t i = 0; i < node->route->count; i++)
		check_sentinel(node, i, &all, findings);
	if (all.answered)
		check_number(node->route, &all, findings);
}

/* ---- a cluster ---- */

struct nodes {
	struct findings *findings;
	size_t answered;
};

/* One node that the URI names. Others may have the lock, so a failure ends nothing. Returns 0. */
static int check_node(struct redis_node *node, void *context, struct error *err)
{
	static const char *const argv[] = { "CLUSTER", "INFO" };
	const char *name = node->address.label + sizeof("redis ") - 1;
	struct nodes *nodes = context;
	redisReply *reply = redis_node_ask(node, 2, argv, err);
	char state[16];

	if (!reply) {
		findings_add(nodes->findings, FINDING_WARNING, "node", err->kind == ERROR_REFUSED
			     ? "allow CLUSTER INFO, to have the cluster checked"
			     : "repair this node, or take it out of the URI",
			     "%.200s", err->message);
		return 0;
	}
	nodes->answered++;
	if (redis_is_text(reply) &&
	    strcmp(redis_info_field(reply->str, "cluster_state", state, sizeof(state)), "ok") != 0)
		findings_add(nodes->findings, FINDING_WARNING, "cluster",
			     "see CLUSTER NODES at this node", "%.120s: cluster_state is %s: it "
			     "refuses all locks", name, state);
	freeReplyObject(reply);
	return 0;
}

/*
 * Rows of CLUSTER SLOTS are [first slot, last slot, master, replica...]. *alone: a master has no
 * replica. False: the reply makes no sense.
 */
static bool count_slots(const redisReply *reply, long *covered, bool *alone)
{
	*covered = 0;
	*alone = false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *row = reply->element[i];

		if (!redis_has_shape(row, "iia"))
			return false;
		*covered += (long)(row->element[1]->integer - row->element[0]->integer + 1);
		*alone |= row->elements == 3;
	}
	return true;
}

static void check_masters(size_t masters, bool alone, struct findings *findings)
{
	if (masters < LEAST_VOTERS)
		findings_add(findings, FINDING_WARNING, "failover", "run three masters or more",
			     "%zu masters: no failover is possible when one of them is gone",
			     masters);
	else if (alone)
		findings_add(findings, FINDING_NOTE, "failover", "give each master a replica",
			     "%zu masters, not all with a replica: while such a one is gone, "
			     "nobody gets its locks", masters);
	else
		findings_add(findings, FINDING_OK, "failover", NULL,
			     "%zu masters, each with a replica", masters);
}

static void check_coverage(struct redis_node *node, long covered, struct findings *findings)
{
	char full[16];
	const bool all = !strcmp(redis_setting(node, "cluster-require-full-coverage", full,
					       sizeof(full)), "yes");

	if (covered != CLUSTER_SLOTS)
		findings_add(findings, FINDING_WARNING, "coverage", "give each slot a master "
			     "(redis-cli --cluster fix)", "%ld of %d slots have a master: %s",
			     covered, CLUSTER_SLOTS, all ? "nobody gets any lock"
			     : "nobody gets the locks of the others");
	else if (all)
		findings_add(findings, FINDING_NOTE, "coverage",
			     "set 'cluster-require-full-coverage no'",
			     "all slots have a master; if one is lost with its replicas, nobody "
			     "gets any lock, not even at the others");
	else
		findings_add(findings, FINDING_OK, "coverage", NULL, "all slots have a master%s",
			     full[0] ? "; if one is lost, the others' locks can still be had" : "");
}

static void check_slots(struct redis_node *node, struct findings *findings)
{
	static const char *const argv[] = { "CLUSTER", "SLOTS" };
	struct redis_place *places;
	struct error err = { 0 };
	redisReply *reply = redis_node_ask(node, 2, argv, &err);
	size_t masters;
	long covered;
	bool alone;

	if (!reply) {
		findings_add(findings, FINDING_WARNING, "coverage",
			     "allow CLUSTER SLOTS, to have the slots checked", "cannot be read: "
			     "%.180s", err.message);
		return;
	}
	if (node->route->ops->masters(reply, &node->address, &places, &masters)) {
		free(places);
		if (count_slots(reply, &covered, &alone)) {
			check_masters(masters, alone, findings);
			check_coverage(node, covered, findings);
		}
	}
	freeReplyObject(reply);
}

static void check_cluster(struct redis_node *node, struct findings *findings)
{
	struct nodes nodes = { .findings = findings };
	struct error ignored = { 0 };

	redis_node_visit(node, node->route->places, node->route->count, check_node, &nodes,
			 &ignored);
	if (node->route->count == 1)
		findings_add(findings, FINDING_NOTE, "nodes", "name more of them, so that this "
			     "one may be gone", "the URI names one node of the cluster");
	else
		findings_add(findings, FINDING_OK, "nodes", NULL,
			     "the URI names %zu nodes, and %zu answer", node->route->count,
			     nodes.answered);
	check_slots(node, findings);
}

void redis_check_route(struct redis_node *node, struct findings *findings)
{
	if (node->route->ops->masters)
		check_cluster(node, findings);
	else
		check_sentinels(node, findings);
}
