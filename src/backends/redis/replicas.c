/* SPDX-License-Identifier: MIT */
/*
 * ?replicas=N: a hold counts only when N replicas have it, too, so that it survives a failover to
 * one of them. Redis replicates asynchronously. WAIT says how many replicas have what was written
 * over the same connection before.
 */
#include <hiredis/hiredis.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lock.h"
#include "lock/uri.h"

/* More than any server has; it keeps the number within what WAIT takes. */
#define MOST_REPLICAS 1000

int redis_replicas_read(struct redis_client *client, const struct uri *uri, struct error *err)
{
	const char *text = uri_param(uri, "replicas");

	if (!text || (text_number(text, strlen(text), &client->replicas) && client->replicas > 0 &&
		      client->replicas <= MOST_REPLICAS))
		return 0;
	return error_set(err, ERROR_USAGE, 0, "%s: ?replicas= must be a number from 1 to %d",
			 client->servers[0].address.label, MOST_REPLICAS);
}

/* Never over a new connection, over which nothing was written: it would be true of nothing. */
int redis_replicas_await(struct redis_client *client, int64_t sent_ms, struct error *err)
{
	struct redis_server *server = &client->servers[0];
	const int64_t rest_ms = sent_ms + client->base.timeout_ms - clock_boot_ms();
	char count[REDIS_DIGITS_SIZE], wait[REDIS_DIGITS_SIZE];
	/* The other half is for the answer to arrive. */
	const char *const command[] = {
		"WAIT", redis_digits(client->replicas, count),
		redis_digits(rest_ms < 2 ? 1 : rest_ms / 2, wait), NULL
	};
	const struct redis_call call = { .command = command, .timeout_ms = rest_ms };
	long long have;

	if (!client->replicas)
		return 0;
	/* WAIT with a time of 0 would wait for ever. */
	if (rest_ms < 2 || !redis_server_is_open(server))
		return error_set(err, ERROR_UNAVAILABLE, 0,
				 "%s: no time was left to ask whether the replicas have the lock",
				 server->address.label);
	if (redis_round(client, &call, err))
		return -1;
	if (server->state != SERVER_ANSWERED || server->tries)
		return redis_no_majority(client, 0, err);
	if (!redis_is_integer(server->reply))
		return redis_odd(server, err);
	have = server->reply->integer;
	if (have >= client->replicas)
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, 0, "%s: only %lld of %lld replicas ha%s the lock",
			 server->address.label, have, (long long)client->replicas,
			 have == 1 ? "s" : "ve");
}
