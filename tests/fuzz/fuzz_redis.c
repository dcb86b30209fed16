/* SPDX-License-Identifier: MIT */
/*
 * Any reply of a server: bytes go through a connection into all our parsers of replies.
 */
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "backends/redis/hold.c"
#include "backends/redis/show.c"
#include "lock/uri.h"

/* What a node of a cluster says about the places of others. */
static void take_route_apart(const redisReply *reply)
{
	struct redis_client *client;
	struct redis_address *from;
	struct redis_endpoint *places;
	struct error err = { 0 };
	struct uri uri;
	size_t count;

	INVARIANT(!uri_parse(&uri, "redis+cluster://h", &err));
	client = redis_from_backend(redis_ops.open(&uri, &err));
	uri_finish(&uri);
	from = &client->servers[0].address;
	redis_address_move(from, &(struct redis_endpoint){ .host = "h", .port = 1 });
	if (reply->type == REDIS_REPLY_ERROR)
		redis_after_error(client, reply->str);
	INVARIANT(client->route->target.port && client->route->target.host[0]);
	if (redis_read_masters(reply, &from->at, &places, &count)) {
		for (size_t i = 0; i < count; i++)
			INVARIANT(places[i].port && places[i].host[0]);
		free(places);
	}
	redis_close(&client->base);
}

static void take_apart(redisReply *reply)
{
	static char prefixes[2][8] = { "", "dlock:" };
	struct redis_server server = { .main.stream.fd = -1, .reply = reply };
	struct redis_client client = { .count = 1, .servers = &server };
	const struct request request = { .name = "n", .token = "t", .slots = 3 };
	struct rows rows = { 0 };
	struct grant grant = { 0 };
	struct error err = { 0 };
	enum outcome outcome;

	outcome = read_grant(&client, &request, &grant, &err);
	INVARIANT(outcome != OUTCOME_HELD || grant.fence > 0);
	INVARIANT(outcome != OUTCOME_BUSY || grant.retry_ms > 0);
	read_message(reply);
	read_rows(reply, &rows);
	for (size_t i = 0; i < rows.hold_count; i++)
		INVARIANT(strlen(rows.holds[i].id) < ROW_ID_SIZE);
	for (size_t i = 0; i < rows.waiter_count; i++)
		INVARIANT(strlen(rows.waiters[i].id) < ROW_ID_SIZE);
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
		if (reply->element[i]->type != REDIS_REPLY_STRING)
			continue;
		for (int j = 0; j < 2; j++) {
			client.prefix = prefixes[j];
			list_key(&client, reply->element[i], &rows.names);
		}
	}
	rows_finish(&rows);
	if (reply->type == REDIS_REPLY_ERROR) {
		redis_refusal(&client.servers[0].address, reply->str, &err);
		INVARIANT(err.kind != ERROR_NONE);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct redis_address address = { .label = "server" };
	struct redis_conn conn = { .address = &address, .stream.fd = -1, .set_fd = -1 };
	redisReply *reply = NULL;
	struct error err;
	int ends[2];

	INVARIANT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
	/* What is too large for the socket is cut. */
	INVARIANT(!size || write(ends[1], data, size) > 0);
	redis_conn_begin(&conn, ends[0], false);
	while (redis_conn_step(&conn, true, &reply, &err) > 0) {
		take_apart(reply);
		take_route_apart(reply);
		freeReplyObject(reply);
		reply = NULL;
	}
	redis_conn_close(&conn);
	close(ends[1]);
	return 0;
}
