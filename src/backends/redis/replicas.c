/* SPDX-License-Identifier: MIT */
#include "replicas.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock/uri.h"
#include "node.h"

/* More than any server has; it keeps the number within what WAIT takes. */
#define MOST_REPLICAS 1000

int redis_replicas_read(struct redis_node *node, const struct uri *uri, struct error *err)
{
	const char *text = uri_param(uri, "replicas");

	if (!text || (text_number(text, strlen(text), &node->replicas) && node->replicas > 0 &&
		      node->replicas <= MOST_REPLICAS))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s: ?replicas= must be a number from 1 to %d",
			 node->address.label, MOST_REPLICAS);
}

/*
 * Sends WAIT. It is never sent again over a new connection, over which nothing was written: the
 * answer would be true of nothing.
 */
static redisReply *ask(struct redis_node *node, int64_t rest_ms, struct error *err)
{
	const int64_t timeout_ms = node->base.timeout_ms;
	char count[REDIS_DIGITS_SIZE], wait[REDIS_DIGITS_SIZE];
	/* The other half is for the answer to arrive. */
	const char *const argv[] = {
		"WAIT", redis_digits(node->replicas, count), redis_digits(rest_ms / 2, wait)
	};
	redisReply *reply;

	node->base.timeout_ms = rest_ms;
	reply = redis_conn_command(&node->main, 3, argv, err);
	node->base.timeout_ms = timeout_ms;
	return reply;
}

int redis_replicas_await(struct redis_node *node, int64_t sent_ms, struct error *err)
{
	const int64_t rest_ms = sent_ms + node->base.timeout_ms - clock_boot_ms();
	long long have = -1;
	redisReply *reply;

	if (!node->replicas)
		return 0;
	/* WAIT with a time of 0 would wait for ever. */
	if (rest_ms < 2 || !redis_conn_is_open(&node->main))
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "%s: no time was left to ask whether the replicas have the lock",
				 node->address.label);
	reply = ask(node, rest_ms, err);
	if (!reply)
		return -1;
	if (redis_is_integer(reply))
		have = reply->integer;
	else if (reply->type == REDIS_REPLY_ERROR)
		redis_refusal(&node->address, reply->str, err);
	else
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: gave an answer to WAIT that makes no "
			  "sense", node->address.label);
	freeReplyObject(reply);
	if (have >= node->replicas)
		return 0;
	if (have >= 0)
		error_set(err, ERROR_UNAVAILABLE, 0, "%s: only %lld of %lld replicas ha%s the lock",
			  node->address.label, have, (long long)node->replicas,
			  have == 1 ? "s" : "ve");
	return -1;
}
