/* SPDX-License-Identifier: MIT */
/* What servers say unasked: messages to a waiter, late answers, the end of a connection. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "route.h"
#include "lock/hold.h"

/*
 * After the message of one server, how long to wait for those of a majority: they learn of a
 * release at almost the same time, and a try before the last of a majority has would fail.
 */
#define GATHER_MS 5
/* The pause before another connection, for something may end each of them at once. */
#define RECONNECT_MS 100
/* A holder looks so long after one of several has ended: it may be back without the lock. */
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
	client->listens_on = false;
}

/* Makes sure that the main connection is at the server that has the lock. */
static int settle_at_lock(struct redis_client *client, struct error *err)
{
	const char *const exists[] = { "EXISTS", client->keys[KEY_LOCK], NULL };

	if (!client->route || redis_server_is_open(&client->servers[0]))
		return 0;
	return redis_command(client, exists, err) ? 0 : -1;
}

/*
 * Redis has sharded messages from version 7 on. The slot may have moved to another node meanwhile:
 * the next try finds out, and listens there.
 */
static bool has_no_shards(const redisReply *reply)
{
	return reply && reply->type == REDIS_REPLY_ERROR &&
	       (strstr(reply->str, "unknown command") || !strncmp(reply->str, "MOVED ", 6));
}

/* Subscribes at the servers where that is not done. */
static int subscribe(struct redis_client *client, const char *how, const char *own,
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
	if (settle_at_lock(client, err))
		return -1;
	own = memory_format("%s%s", client->keys[KEY_CHANNEL], owner);
	if (client->sharded)
		failed = subscribe(client, "SSUBSCRIBE", own, servers, err);
	if (!failed && (!client->sharded || redis_listens(client)))
		failed = subscribe(client, "SUBSCRIBE", own, servers, err);
	free(own);
	if (failed)
		redis_stop_listening(client);
	if (failed || count_listening(client) >= client->quorum)
		return failed;
	return redis_no_majority(client, count_listening(client), err);
}

/* ---- one descriptor for all connections ---- */

/* The connection of a server that may say something unasked: to a waiter, or to a holder. */
static struct redis_conn *watched_conn(struct redis_client *client, int server, bool listens)
{
	return listens ? &client->servers[server].wake : &client->servers[server].main;
}

/* A number that no other connection to this server has had; 0: there is no connection. */
static int connection(struct redis_client *client, int server, bool listens)
{
	if (!redis_conn_is_open(watched_conn(client, server, listens)))
		return 0;
	return client->servers[server].openings * 2 + listens;
}

/*
 * Makes the set again. What was closed does not leave it by itself while another process has a copy
 * of the descriptor, and another connection may have the number of one that was closed.
 */
static void watch(struct redis_client *client, bool listens)
{
	struct epoll_event input = { .events = EPOLLIN };

	if (client->epoll_fd >= 0)
		close(client->epoll_fd);
	client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < client->count && client->epoll_fd >= 0; i++) {
		input.data.u32 = (uint32_t)i;
		client->watched[i] = connection(client, i, listens);
		if (client->watched[i])
			epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD,
				  watched_conn(client, i, listens)->fd, &input);
	}
}

/* It is readable when one of several is. */
int redis_fd(struct backend *backend)
{
	struct redis_client *client = redis_from_backend(backend);
	const bool listens = redis_listens(client);

	if (client->count == 1)
		return watched_conn(client, 0, listens)->fd;
	for (int i = 0; i < client->count; i++) {
		if (client->epoll_fd < 0 ||
		    client->watched[i] != connection(client, i, listens)) {
			watch(client, listens);
			break;
		}
	}
	return client->epoll_fd;
}

/* A bit for each server whose connection is readable. */
static unsigned find_readable(const struct redis_client *client)
{
	struct epoll_event events[REDIS_MOST_SERVERS];
	unsigned servers = 0;
	int count;

	if (client->epoll_fd < 0)
		return client->count == 1;
	count = epoll_wait(client->epoll_fd, events, REDIS_MOST_SERVERS, 0);
	for (int i = 0; i < count; i++)
		servers |= 1u << events[i].data.u32;
	return servers;
}

/* ---- what is said ---- */

/*
 * When to try because of a message: after so many ms, or at once. Redisson's own messages are
 * small numbers, too, which mean at once, and so does the end of a subscription, when a slot has
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
	return delay_ms >= HOLD_LATE_MS && delay_ms < HOLD_LOOK_MS ? clock_boot_ms() + delay_ms
								    : 0;
}

/* Returns when to try because of what a server has said. */
static int64_t read_messages(struct redis_server *server)
{
	int64_t next_ms = CLOCK_NEVER, at_ms;
	redisReply *reply;

	while (redis_conn_poll(&server->wake, &reply) > 0) {
		at_ms = read_message(reply);
		if (at_ms == 0)
			server->woken = true;
		else
			next_ms = clock_earlier(next_ms, at_ms);
		freeReplyObject(reply);
	}
	return next_ms;
}

static int64_t hear(struct redis_client *client, unsigned readable)
{
	int64_t next_ms = CLOCK_NEVER;
	int woken = 0;

	for (int i = 0; i < client->count; i++) {
		struct redis_server *server = &client->servers[i];

		if (readable & 1u << i)
			next_ms = clock_earlier(next_ms, read_messages(server));
		woken += server->woken;
	}
	if (count_listening(client) < client->quorum) {
		/* When one connection has ended, a single server is gone for both. */
		if (client->count == 1)
			redis_server_close(&client->servers[0]);
		return clock_boot_ms() + RECONNECT_MS;
	}
	if (woken >= client->quorum)
		return 0;
	return woken ? clock_earlier(next_ms, clock_boot_ms() + GATHER_MS) : next_ms;
}

/* Drops late answers, and notices connections that have ended. */
static int64_t drain(struct redis_client *client, unsigned readable)
{
	int64_t next_ms = CLOCK_NEVER;

	for (int i = 0; i < client->count; i++)
		if (readable & 1u << i && redis_server_drain(&client->servers[i]))
			next_ms = clock_boot_ms() + (client->count == 1 ? RECONNECT_MS : HEAL_MS);
	return next_ms;
}

int64_t redis_event(struct backend *backend)
{
	struct redis_client *client = redis_from_backend(backend);

	if (client->listens_on) {
		redis_stop_listening(client);
		return CLOCK_NEVER;
	}
	return redis_listens(client) ? hear(client, find_readable(client))
				     : drain(client, find_readable(client));
}
