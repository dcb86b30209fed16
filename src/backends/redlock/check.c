/* SPDX-License-Identifier: MIT */
/* `dlock check` for each node. */
#include "base/error.h"
#include "lock/view.h"
#include "redlock.h"

/* Add the findings about one node, with its name in front. Returns 0, or -1 without an answer. */
static int check_node(const struct redis_client *client, int which, struct findings *findings)
{
	const char *label = client->servers[which].address.label + sizeof("redis ") - 1;
	struct findings found = { 0 };
	struct error err = { 0 };
	struct redis_client one = redlock_node(client, which, client->base.timeout_ms);
	const int failed = redis_check(&one.base, &found, &err);

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
	struct redis_client *client = redis_from_backend(backend);
	int fit = 0;

	if (redis_ping(backend, err))
		return -1;
	for (int i = 0; i < client->count; i++)
		fit += !check_node(client, i, findings);
	if (fit < client->quorum)
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "no majority: %d of %d nodes can be checked", fit, client->count);
	findings_add(findings, fit < client->count ? FINDING_WARNING : FINDING_OK, "majority",
		     fit < client->count ? "repair the nodes that do not answer" : NULL,
		     "%d of %d nodes answer, %d are needed", fit, client->count, client->quorum);
	return 0;
}
