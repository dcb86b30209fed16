/* SPDX-License-Identifier: MIT */
/* Where the Redis backend goes when a node of a cluster sends it on; no server is asked. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/client.h"
#include "base/error.h"
#include "lock/uri.h"
#include "unit.h"

static struct redis_client *client;

static struct redis_route *open_route(const char *text)
{
	struct error err = { 0 };
	struct uri uri;

	CHECK_INT(uri_parse(&uri, text, &err), 0);
	client = redis_from_backend(redis_ops.open(&uri, &err));
	redis_address_move(&client->servers[0].address,
			   &(struct redis_endpoint){ .host = "10.0.0.9", .port = 7009 });
	uri_finish(&uri);
	return client->route;
}

static void close_route(void)
{
	redis_close(&client->base);
}

static int64_t redirect_to(const char *text)
{
	return redis_after_error(client, text);
}

static void test_redirect(void)
{
	static const struct {
		const char *text, *host;
		int port;		/* 0: the error stands */
		bool asking;
		int64_t pause_ms;
	} rows[] = {
		{ "MOVED 3999 127.0.0.1:6381", "127.0.0.1", 6381, false, 0 },
		{ "MOVED 3999 node-2.example.com:6381", "node-2.example.com", 6381, false, 0 },
		{ "MOVED 0 ::1:65535", "::1", 65535, false, 0 },
		{ "MOVED 3999 :6381", "10.0.0.9", 6381, false, 0 },
		{ "MOVED 3999 ?:6381", "10.0.0.9", 6381, false, 0 },
		{ "ASK 3999 127.0.0.1:6381", "127.0.0.1", 6381, true, 0 },
		{ "TRYAGAIN Multiple keys request during rehashing of slot", "h1", 6379, false,
		  REDIS_ROUTE_PAUSE_MS },
		{ "CLUSTERDOWN The cluster is down", "h2", 7000, false, REDIS_ROUTE_PAUSE_MS },
		{ "ERR Error running script (call to f_1): @user_script:3: Script attempted to "
		  "access a non local key in a cluster node", "h1", 6379, false,
		  REDIS_ROUTE_PAUSE_MS },
		{ "MOVED", NULL, 0, false, 0 },
		{ "MOVED 3999", NULL, 0, false, 0 },
		{ "MOVED 3999 127.0.0.1", NULL, 0, false, 0 },
		{ "MOVED 3999 127.0.0.1:", NULL, 0, false, 0 },
		{ "MOVED 3999 127.0.0.1:0", NULL, 0, false, 0 },
		{ "MOVED 3999 127.0.0.1:65536", NULL, 0, false, 0 },
		{ "MOVED 3999 127.0.0.1:6381x", NULL, 0, false, 0 },
		{ "MOVED :6381 x", NULL, 0, false, 0 },
		{ "MOVED 3999 a\x1b[2Jb:6381", NULL, 0, false, 0 },
		{ "NOAUTH Authentication required.", NULL, 0, false, 0 },
		{ "WRONGTYPE Operation against a key", NULL, 0, false, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct redis_route *route = open_route("redis+cluster://h1,h2:7000");
		const int64_t pause_ms = redirect_to(rows[i].text);

		unit_case("%s", rows[i].text);
		CHECK_INT(pause_ms, rows[i].port ? rows[i].pause_ms : REDIS_ROUTE_ENDS);
		CHECK_INT(route->asking, rows[i].asking);
		if (rows[i].port) {
			CHECK_STR(route->target.host, rows[i].host);
			CHECK_INT(route->target.port, rows[i].port);
		}
		close_route();
	}
}

static void test_lost(void)
{
	struct redis_route *route = open_route("redis+cluster://h1,h2:7000");

	unit_case("each node of the URI gets a chance, and the first one two");
	CHECK_STR(route->target.host, "h1");
	CHECK_INT(redis_after_loss(route), 0);
	CHECK_STR(route->target.host, "h2");
	CHECK_INT(redis_after_loss(route), REDIS_ROUTE_PAUSE_MS);
	CHECK_STR(route->target.host, "h1");
	CHECK_INT(redis_after_loss(route), REDIS_ROUTE_ENDS);

	unit_case("a node that the others name does not count, and they are asked again");
	CHECK_INT(redirect_to("ASK 1 h9:1"), 0);
	CHECK_STR(route->target.host, "h9");
	CHECK(redis_after_loss(route) != REDIS_ROUTE_ENDS);
	CHECK(!route->asking);
	CHECK(strcmp(route->target.host, "h9") != 0);

	unit_case("nodes that send on to each other are not asked without a pause for ever");
	for (int i = 0; i < 20; i++)
		if (redirect_to(i % 2 ? "MOVED 1 h1:1" : "MOVED 1 h2:1") > 0)
			break;
		else
			CHECK(i < 10);
	close_route();
}

static void test_masters(void)
{
	static const struct {
		const char *text;
		int count;		/* -1: it makes no sense */
		const char *last;
	} rows[] = {
		{ "*0\r\n", 0, NULL },
		{ "*2\r\n*3\r\n:0\r\n:9\r\n*2\r\n$2\r\nh1\r\n:1\r\n"
		  "*3\r\n:10\r\n:19\r\n*2\r\n$2\r\nh2\r\n:1\r\n", 2, "h2" },
		{ "*2\r\n*3\r\n:0\r\n:9\r\n*2\r\n$2\r\nh1\r\n:1\r\n"
		  "*3\r\n:20\r\n:29\r\n*2\r\n$2\r\nh1\r\n:1\r\n", 1, "h1" },
		{ "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$-1\r\n:1\r\n", 1, "10.0.0.9" },
		{ "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$0\r\n\r\n:1\r\n", 1, "10.0.0.9" },
		{ "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$2\r\nh1\r\n:0\r\n", -1, NULL },
		{ "*1\r\n*3\r\n:0\r\n:9\r\n*1\r\n$2\r\nh1\r\n", -1, NULL },
		{ "*1\r\n*2\r\n:0\r\n:9\r\n", -1, NULL },
		{ ":1\r\n", -1, NULL },
	};
	struct redis_endpoint from = { .host = "10.0.0.9", .port = 7009 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		redisReader *reader = redisReaderCreate();
		struct redis_endpoint *places;
		void *reply = NULL;
		size_t count;
		bool sense;

		unit_case("masters %zu", i);
		redisReaderFeed(reader, rows[i].text, strlen(rows[i].text));
		redisReaderGetReply(reader, &reply);
		sense = redis_read_masters(reply, &from, &places, &count);
		CHECK_INT(sense ? (int)count : -1, rows[i].count);
		if (sense && count)
			CHECK_STR(places[count - 1].host, rows[i].last);
		if (sense)
			free(places);
		freeReplyObject(reply);
		redisReaderFree(reader);
	}
}

int main(void)
{
	test_redirect();
	test_lost();
	test_masters();
	return unit_done();
}
