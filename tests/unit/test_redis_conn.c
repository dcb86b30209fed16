/* SPDX-License-Identifier: MIT */
/* What a connection takes of a server's replies, and what is too large. */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/redis/conn.h"
#include "base/clock.h"
#include "base/error.h"
#include "unit.h"

#define LARGE "server: sends a reply that is too large"
#define ODD "server: does not speak the Redis protocol (" REDIS_TLS_HINT ")"

static const struct redis_address address = { .label = "server", .at.port = 1 };

/* Begins a connection, and returns the server's end. */
static int connect_pair(struct redis_conn *conn)
{
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	*conn = (struct redis_conn){ .address = &address, .stream.fd = -1, .set_fd = -1 };
	redis_conn_begin(conn, ends[0], false);
	return ends[1];
}

/* Takes all complete replies. Returns what is wrong with the input, or NULL. */
static const char *take_replies(struct redis_conn *conn, struct error *err)
{
	redisReply *reply = NULL;
	int state;

	while ((state = redis_conn_step(conn, true, &reply, err)) > 0)
		freeReplyObject(reply);
	return state < 0 ? err->message : NULL;
}

static void test_texts(void)
{
	static const struct {
		const char *text, *wrong;	/* NULL: nothing */
	} rows[] = {
		{ "+OK\r\n:1\r\n-ERR a b\r\n", NULL },
		{ "$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n", NULL },
		{ "$5\r\n*9\r\n\n\r\n+OK\r\n", NULL },
		{ "*2\r\n*1\r\n:1\r\n$3\r\nabc\r\n", NULL },
		{ "*262144\r\n", NULL },
		{ "*262145\r\n", LARGE },
		{ "*200000\r\n*200000\r\n", LARGE },
		{ "*2\r\n*262142\r\n*2\r\n:1\r\n", LARGE },
		/* The limit is that of one reply. */
		{ "*1\r\n*262143\r\n", NULL },
		{ "*1\r\n*2\r\n:1\r\n:2\r\n*262144\r\n:1\r\n", NULL },
		{ "*2147483647\r\n", LARGE },
		{ "*99999999999999999999\r\n", ODD },
		{ "*000000000000000000000000000001\r\n", ODD },
		{ "HTTP/1.1 400 Bad Request\r\n", ODD },
		{ "\r\n", ODD },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const size_t length = strlen(rows[i].text);
		const char *wrong = NULL;
		struct error err = { 0 };
		struct redis_conn conn;
		int server = connect_pair(&conn);

		unit_case("%s", rows[i].text);
		CHECK_INT(write(server, rows[i].text, length), length);
		CHECK_STR(take_replies(&conn, &err), rows[i].wrong);
		redis_conn_close(&conn);
		close(server);
		server = connect_pair(&conn);
		for (size_t at = 0; at < length && !wrong; at++) {
			CHECK_INT(write(server, rows[i].text + at, 1), 1);
			wrong = take_replies(&conn, &err);
		}
		CHECK_STR(wrong, rows[i].wrong);
		redis_conn_close(&conn);
		close(server);
	}
}

/* Returns how many of these pieces are taken, at most. */
static int count_taken(const char *begin, const char *piece, size_t size, int most)
{
	struct error err = { 0 };
	struct redis_conn conn;
	int server = connect_pair(&conn);
	int count = 0;

	CHECK_INT(write(server, begin, strlen(begin)), strlen(begin));
	while (count < most && write(server, piece, size) == (ssize_t)size &&
	       !take_replies(&conn, &err))
		count++;
	CHECK_STR(count < most ? err.message : LARGE, LARGE);
	redis_conn_close(&conn);
	close(server);
	return count;
}

static void test_floods(void)
{
	/* A string of 1015 bytes, in the form of the protocol. */
	static char piece[1024 + 1];
	const size_t size = sizeof(piece) - 1;

	memset(piece, 'A', size);
	unit_case("a line");
	CHECK_INT(count_taken("+", piece, size, 1000), 256);
	unit_case("a string");
	CHECK_INT(count_taken("$2000000000\r\n", piece, size, 1000), 255);
	snprintf(piece, sizeof(piece), "$1015\r\n%01015d\r\n", 0);
	unit_case("many strings");
	CHECK_INT(count_taken("*262144\r\n", piece, size, 20000), 16383);
}

/* A server that reports 10 s may have been up for 9.001 s. */
static void test_age(void)
{
	static const struct redis_address aged = { .label = "server", .age = true };
	static const struct {
		const char *uptime;
		int64_t age_s;
	} rows[] = { { "0", 0 }, { "1", 0 }, { "10", 9 }, { "31", 30 },
		     { "99999999999", 99999999998 },
		     { "9223372036854775807", 92233720367 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct redis_conn conn = { .address = &aged, .stream.fd = -1, .set_fd = -1 };
		struct error err = { 0 };
		char text[100], info[80];
		int ends[2];

		unit_case("%s", rows[i].uptime);
		CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		redis_conn_begin(&conn, ends[0], false);
		snprintf(info, sizeof(info), "run_id:a\r\nuptime_in_seconds:%s\r\n",
			 rows[i].uptime);
		snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(info), info);
		CHECK_INT(write(ends[1], text, strlen(text)), strlen(text));
		CHECK_STR(take_replies(&conn, &err), NULL);
		CHECK_INT((clock_boot_ms() - conn.started_ms) / 1000, rows[i].age_s);
		redis_conn_close(&conn);
		close(ends[1]);
	}
}

int main(void)
{
	test_texts();
	test_age();
	test_floods();
	return unit_done();
}
