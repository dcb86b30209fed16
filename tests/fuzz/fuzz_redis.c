/* SPDX-License-Identifier: MIT */
/*
 * Any reply of a server: bytes go through hiredis' reader into all our parsers of replies.
 */
#include "fuzz.h"

#include "backends/redis/acquire.c"
#include "backends/redis/listen.c"
#include "backends/redis/show.c"
#include "lock/uri.h"

/* What a node of a cluster says about the places of others. */
static void take_route_apart(const redisReply *reply)
{
	struct redis_client client = { .count = 0 };
	struct redis_address *from;
	struct redis_endpoint *places;
	struct error err = { 0 };
	struct uri uri;
	size_t count;

	redis_client_init(&client, 1);
	from = &redis_client_add(&client)->address;
	redis_address_move(from, "redis", &(struct redis_endpoint){ .host = "h", .port = 1 });
	INVARIANT(!uri_parse(&uri, "redis+cluster://h", &err));
	INVARIANT(!redis_cluster_read(&client, &uri, &err));
	uri_finish(&uri);
	if (reply->type == REDIS_REPLY_ERROR)
		redis_after_error(&client, reply->str);
	INVARIANT(redis_cluster_endpoint(client.route)->port &&
		  redis_cluster_endpoint(client.route)->host[0]);
	if (redis_read_masters(reply, from, &places, &count)) {
		for (size_t i = 0; i < count; i++)
			INVARIANT(places[i].port && places[i].host[0]);
		free(places);
	}
	redis_client_finish(&client);
}

static void take_apart(redisReply *reply)
{
	static const char prefix[] = "dlock:";
	struct redis_server server = { .found_count = 0 };
	struct redis_client client = { .count = 1, .servers = &server };
	const struct request request = { .name = "n", .token = "t", .slots = 3 };
	struct rows rows = { 0 };
	struct grant grant = { 0 };
	struct error err = { 0 };
	enum outcome outcome;

	outcome = read_grant(&client, reply, &request, &grant, &err);
	INVARIANT(outcome != OUTCOME_HELD || grant.fence > 0);
	INVARIANT(outcome != OUTCOME_BUSY || grant.retry_ms > 0);
	free(grant.newer);
	read_message(reply);
	read_rows(reply, &rows);
	for (size_t i = 0; i < rows.count; i++)
		INVARIANT(rows.rows[i].text && strlen(rows.rows[i].id) < ROW_ID_SIZE);
	if (reply->type == REDIS_REPLY_ARRAY)
		for (size_t i = 0; i < reply->elements; i++)
			if (redis_is_text(reply->element[i])) {
				list_key(prefix, reply->element[i], &rows.names);
				list_redisson_key(prefix, reply->element[i],
						  &rows.names);
			}
	rows_finish(&rows);
	if (reply->type == REDIS_REPLY_ERROR) {
		redis_refusal(&client.servers[0].address, reply->str, &err);
		INVARIANT(err.kind != ERROR_NONE);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct redis_limit limit = { 0 };
	/* A copy of its own size, so that ASan sees any step beyond it. */
	char *text = fuzz_text(data, size);
	const bool skip = redis_limit_pass(&limit, text, size) != NULL;
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	INVARIANT(reader);
	free(text);
	if (!skip && redisReaderFeed(reader, (const char *)data, size) == REDIS_OK)
		while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
			take_apart(reply);
			take_route_apart(reply);
			freeReplyObject(reply);
			reply = NULL;
		}
	redisReaderFree(reader);
	return 0;
}
