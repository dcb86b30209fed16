/* SPDX-License-Identifier: MIT */
/* Finds out, node by node, whether the nodes are fit to hold locks. */
#include "backends/redis/lock.h"
#include "base/error.h"
#include "base/memory.h"
#include "lock/view.h"
#include "round.h"

int redlock_ping(struct backend *backend, struct error *err)
{
	static const char *const ping[] = { "PING", NULL };

	return redlock_reach(redlock_from_backend(backend), ping, err);
}

/* Locks need nothing that must be created first: only check that a majority answers. */
int redlock_setup(struct backend *backend, char **plan, struct error *err)
{
	if (!plan)
		return redlock_ping(backend, err);
	*plan = memory_copy("");
	return 0;
}

/* The findings about one node, with its name in front. 0, or -1: it cannot be asked. */
static int check_node(const struct redlock *lock, const struct redlock_node *node,
		      struct findings *findings)
{
	struct redis_backend one = { .node.base = lock->base, .node.address = node->address };
	const char *label = node->address.label + sizeof("redis ") - 1;
	struct findings found = { 0 };
	struct error err = { 0 };
	int failed;

	one.node.base.connect_timeout_ms = lock->base.timeout_ms;
	one.node.main = one.node.wake = (struct redis_conn){
		.backend = &one.node.base, .address = &one.node.address, .fd = -1,
	};
	failed = redis_check(&one.node.base, &found, &err);
	redis_conn_close(&one.node.main);
	if (failed)
		findings_add(findings, FINDING_WARNING, "node", "repair this node: without it "
			     "fewer others may fail", "%.200s", err.message);
	for (size_t i = 0; i < found.count; i++)
		findings_add(findings, found.rows[i].severity, found.rows[i].topic,
			     found.rows[i].remedy[0] ? found.rows[i].remedy : NULL, "%s: %.150s",
			     label, found.rows[i].text);
	findings_finish(&found);
	return failed;
}

int redlock_check(struct backend *backend, struct findings *findings, struct error *err)
{
	struct redlock *lock = redlock_from_backend(backend);
	int fit = 0;

	if (redlock_ping(backend, err))
		return -1;
	for (int i = 0; i < lock->count; i++)
		fit += !check_node(lock, &lock->nodes[i], findings);
	if (fit < lock->quorum)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "no majority: %d of %d nodes can be checked", fit, lock->count);
	findings_add(findings, fit < lock->count ? FINDING_WARNING : FINDING_OK, "majority",
		     fit < lock->count ? "repair the nodes that do not answer" : NULL,
		     "%d of %d nodes answer, %d are needed", fit, lock->count, lock->quorum);
	return 0;
}
