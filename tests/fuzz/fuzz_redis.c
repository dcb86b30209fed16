/* SPDX-License-Identifier: MIT */
/*
 * Whatever a server answers: bytes go through hiredis' reader into everything of ours
 * that takes replies apart.
 */
#include "fuzz.h"

#include "backends/redis/lock.c"
#include "backends/redis/cluster.h"
#include "backends/redis/route.h"
#include "backends/redis/show.c"
#include "lock/uri.h"

/* What a node of a cluster says about the places of others. */
static void take_route_apart(const redisReply *reply)
{
	struct redis_address from = { .host = (char *)(uintptr_t)"h", .port = 1 };
	struct redis_place *places, place;
	struct redis_route *route;
	struct error err = { 0 };
	struct uri uri;
	size_t count;

	INVARIANT(!uri_parse(&uri, "redis+cluster://h", &err));
	route = redis_cluster_open(&uri, &err);
	INVARIANT(route);
	uri_finish(&uri);
	if (reply->type == REDIS_REPLY_ERROR)
		route->ops->redirect(route, &from, reply->str);
	INVARIANT(!route->ops->locate(route, NULL, &place, &err) && place.port && place.host[0]);
	if (route->ops->masters(reply, &from, &places, &count)) {
		for (size_t i = 0; i < count; i++)
			INVARIANT(places[i].port && places[i].host[0]);
		free(places);
	}
	route->ops->finish(route);
}

static void take_apart(redisReply *reply)
{
	struct redis_backend redis = { .node = { .prefix = (char *)(uintptr_t)"dlock:" } };
	const struct request request = { .name = "n", .token = "t", .slots = 3 };
	struct rows rows = { 0 };
	struct grant grant = { 0 };
	struct error err = { 0 };
	enum outcome outcome;

	outcome = read_grant(&redis, reply, &request, &grant, &err);
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
				redis_list_key(redis.node.prefix, reply->element[i], &rows.names);
				redisson_list_key(redis.node.prefix, reply->element[i],
						  &rows.names);
			}
	rows_finish(&rows);
	if (reply->type == REDIS_REPLY_ERROR) {
		redis_refusal(&redis.node.address, reply->str, &err);
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
