/* SPDX-License-Identifier: MIT */
/* Unsolicited input: messages to a waiter, late answers, the end of a connection. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client.h"
#include "lock/hold.h"

/*
 * How long to wait for a majority after the first message: a release reaches all servers at almost
 * the same time, and a try before a majority has it would fail.
 */
#define GATHER_MS 5
/* The pause before another connection, because a server may end each of them at once. */
#define RECONNECT_MS 100
/* Renew this long after a connection has ended: the server may be back without the lock. */
#define HEAL_MS 500

static int count_listening(const struct redis_client *client)
{
	int count = 0;

	for (int i = 0; i < client->count; i++)
		count += redis_conn_is_open(&client->servers[i].wake);
	return count;
}

bool redis_listens(const struct redis_client *client)
{
	return count_listening(client) > 0;
}

void redis_stop_listening(struct redis_client *client)
{
	for (int i = 0; i < client->count; i++)
		redis_conn_close(&client->servers[i].wake);
}

/*
 * Redis has sharded messages from version 7 on. If the slot has moved to another node, the next try
 * listens there.
 */
static bool has_no_shards(const redisReply *reply)
{
	return reply && reply->type == REDIS_REPLY_ERROR &&
	       (strstr(reply->str, "unknown command") || !strncmp(reply->str, "MOVED ", 6));
}

/* Subscribe at these servers. Returns 0, or -1 and sets *err. */
static int subscribe_servers(struct redis_client *client, const char *how, const char *own,
			     unsigned servers, struct error *err)
{
	const char *const command[] = { how, own, client->keys[KEY_SHARED], NULL };
	const struct redis_call call = {
		.command = command, .wake = true, .servers = servers,
		.least = client->quorum - count_listening(client),
	};

	if (redis_round(client, &call, err))
		return -1;
	for (int i = 0; i < client->count; i++)
		if (servers & 1u << i && client->servers[i].state != SERVER_ANSWERED &&
		    !(client->sharded && has_no_shards(client->servers[i].reply)))
			redis_conn_close(&client->servers[i].wake);
	return 0;
}

int redis_listen(struct redis_client *client, const char *owner, struct error *err)
{
	unsigned servers = 0;
	char *own;
	int failed = 0;

	for (int i = 0; i < client->count; i++)
		if (!redis_conn_is_open(&client->servers[i].wake))
			servers |= 1u << i;
	if (!servers)
		return 0;
	own = memory_format("%s%s", client->keys[KEY_CHANNEL], owner);
	if (client->sharded)
		failed = subscribe_servers(client, "SSUBSCRIBE", own, servers, err);
	if (!failed && (!client->sharded || redis_listens(client)))
		failed = subscribe_servers(client, "SUBSCRIBE", own, servers, err);
	free(own);
	if (failed)
		redis_stop_listening(client);
	if (failed || count_listening(client) >= client->quorum)
		return failed;
	return redis_no_majority(client, count_listening(client), err);
}

int redis_fd(struct backend *backend)
{
	struct redis_client *client = redis_from_backend(backend);
	const struct redis_server *server = &client->servers[0];

	if (client->set_fd >= 0)
		return client->set_fd;
	return redis_listens(client) ? server->wake.fd : server->main.fd;
}

/* ---- messages ---- */

/*
 * Returns when to try after a message: at once, or after as many ms as it names. Redisson's own
 * messages are small numbers and mean at once, like the end of a subscription, when a slot has
 * moved. Answers to SUBSCRIBE have no text.
 */
static int64_t read_message(const redisReply *reply)
{
	int64_t delay_ms;

	if (redis_has_shape(reply, "s") && !strcmp(reply->element[0]->str, "sunsubscribe"))
		return 0;
	if (!redis_has_shape(reply, "..s"))
		return CLOCK_NEVER;
	delay_ms = strtoll(reply->element[2]->str, NULL, 10);
	return delay_ms >= HOLD_LATE_MS && delay_ms < HOLD_RETRY_MS ? clock_boot_ms() + delay_ms
								     : 0;
}

/*
 * More messages at once than this end the connection, because an endless stream must not keep its
 * reader busy. A process that was stopped for long finds fewer.
 */
#define MOST_MESSAGES 10000

/* Read the messages of one server. Returns when to try. */
static int64_t read_messages(struct redis_server *server)
{
	int64_t next_ms = CLOCK_NEVER, at_ms;
	redisReply *reply;

	for (int count = 0; redis_conn_poll(&server->wake, &reply) > 0; count++) {
		at_ms = read_message(reply);
		if (at_ms == 0)
			server->woken = true;
		else
			next_ms = clock_earlier(next_ms, at_ms);
		freeReplyObject(reply);
		if (count == MOST_MESSAGES)
			redis_conn_close(&server->wake);
	}
	return next_ms;
}

/* Read the messages of all servers. Returns when to try. */
static int64_t receive_wakes(struct redis_client *client)
{
	int64_t next_ms = CLOCK_NEVER;
	int woken = 0;

	for (int i = 0; i < client->count; i++) {
		next_ms = clock_earlier(next_ms, read_messages(&client->servers[i]));
		woken += client->servers[i].woken;
	}
	if (count_listening(client) < client->quorum) {
		/* A single server that has ended one connection is gone for both. */
		if (client->count == 1)
			redis_conn_close(&client->servers[0].main);
		return clock_boot_ms() + RECONNECT_MS;
	}
	if (woken >= client->quorum)
		return 0;
	return woken ? clock_earlier(next_ms, clock_boot_ms() + GATHER_MS) : next_ms;
}

int64_t redis_event(struct backend *backend)
{
	struct redis_client *client = redis_from_backend(backend);
	const bool listens = redis_listens(client);
	bool ended = false;

	for (int i = 0; i < client->count && (!listens || client->count > 1); i++)
		ended |= redis_server_drain(&client->servers[i]);
	if (listens)
		return receive_wakes(client);
	return ended ? clock_boot_ms() + (client->count == 1 ? RECONNECT_MS : HEAL_MS)
		     : CLOCK_NEVER;
}
