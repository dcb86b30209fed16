/* SPDX-License-Identifier: MIT */
/* HTTP responses in pieces, bounds, and what is read of etcd's replies. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "unit.h"

#ifndef WITHOUT_ETCD
#include "backends/etcd/etcd.h"

#define MOST 1000

/* Begins a request, and returns the server's end. */
static int connect_pair(struct http_conn *conn)
{
	struct error err;
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	http_begin(conn, ends[0], NULL, "host");
	http_post(conn, "host:2379", "/v3/kv/range", NULL, "{}", MOST);
	CHECK_INT(http_step(conn, &err), 0);
	return ends[1];
}

/* Takes text in pieces of this size. Returns as http_step(). */
static int take_text(struct http_conn *conn, int server, const char *text, size_t piece,
		     struct error *err)
{
	size_t left = strlen(text), length;
	int state = 0;

	for (; left && !state; text += length, left -= length) {
		length = left < piece ? left : piece;
		state = write(server, text, length) == (ssize_t)length ? http_step(conn, err) : -2;
	}
	return state;
}

static void test_responses(void)
{
	static const struct {
		const char *text, *body;
		int state, status;
		bool reusable;
	} rows[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "{}", 1, 200, true },
		{ "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", "{}", 1,
		  200, false },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 1, 200, true },
		/* The errors of the gateway have trailers. */
		{ "HTTP/1.1 400 Bad Request\r\nTrailer: Grpc-Trailer-Content-Type\r\n"
		  "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n"
		  "Grpc-Trailer-Content-Type: application/grpc\r\n\r\n",
		  "{\"a\":1}", 1, 400, true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "{}", 0, 200,
		  true },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", "", 0, 200, true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "", -1, 200,
		  true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "",
		  -1, 200, true },
		{ "SSH-2.0-OpenSSH_9.2\r\n", "", -1, 0, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t piece = 1; piece < 400; piece *= 7) {
			struct http_conn conn = HTTP_CLOSED;
			struct error err = { 0 };
			const int server = connect_pair(&conn);

			CHECK_INT(take_text(&conn, server, rows[i].text, piece, &err),
				  rows[i].state);
			CHECK_STR(conn.body, rows[i].body);
			if (rows[i].state >= 0)
				CHECK_INT(http_status(&conn), rows[i].status);
			if (rows[i].state > 0)
				CHECK_INT(conn.reusable, rows[i].reusable);
			http_close(&conn);
			close(server);
		}
}

/* A second response, which nobody has asked for, ends the connection. */
static void test_two_responses(void)
{
	struct http_conn conn = HTTP_CLOSED;
	struct error err = { 0 };
	const int server = connect_pair(&conn);

	CHECK_INT(take_text(&conn, server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP",
			    1000, &err),
		  1);
	CHECK_STR(conn.body, "{}");
	CHECK_INT(conn.reusable, false);
	http_close(&conn);
	close(server);
}

static void test_lines(void)
{
	struct http_conn conn = HTTP_CLOSED;
	struct error err = { 0 };
	const int server = connect_pair(&conn);
	int lines = 0;

	CHECK_INT(take_text(&conn, server,
			    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			    "3\r\na\nb\r\n",
			    1000, &err),
		  0);
	CHECK_STR(http_take_line(&conn), "a");
	CHECK_INT(http_take_line(&conn) == NULL, true);
	CHECK_INT(take_text(&conn, server, "2\r\nc\n\r\n", 1, &err), 0);
	CHECK_STR(http_take_line(&conn), "bc");
	/* A watch may go on for ever, but no line of it. */
	for (; lines < 500 && !take_text(&conn, server, "6\r\nevent\n\r\n", 1000, &err); lines++)
		if (!http_take_line(&conn))
			break;
	CHECK_INT(lines, 500);
	for (lines = 0; lines < 500 && !take_text(&conn, server, "5\r\nevent\r\n", 1000, &err);
	     lines++)
		;
	CHECK_INT(lines, MOST / 5);
	CHECK_STR(err.message, "sends a reply that is too large");
	http_close(&conn);
	close(server);
}

static void test_base64(void)
{
	/* RFC 4648, 10. */
	static const struct {
		const char *text, *encoded;
	} rows[] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xff\xfe\xfb", "//77" },
	};
	char *text;
	size_t length;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text = etcd_encode(rows[i].text, strlen(rows[i].text));
		CHECK_STR(text, rows[i].encoded);
		free(text);
		text = etcd_decode(rows[i].encoded, &length);
		CHECK_STR(text, rows[i].text);
		CHECK_INT(length, (long long)strlen(rows[i].text));
		free(text);
	}
	text = etcd_decode("Zm9v*", &length);
	CHECK_INT(length, 0);
	free(text);
}

static void test_ids(void)
{
	CHECK_INT(etcd_is_id("694d7c2a0fb1e61f"), true);
	CHECK_INT(etcd_is_id("1"), true);
	CHECK_INT(etcd_is_id(""), false);
	CHECK_INT(etcd_is_id("01"), false);
	CHECK_INT(etcd_is_id("ABC"), false);
	CHECK_INT(etcd_is_id("694d7c2a0fb1e61f0"), false);
	CHECK_INT(etcd_is_id("12/34"), false);
}

#endif

int main(void)
{
#ifdef WITHOUT_ETCD
	CHECK_INT(0, 0);
#else
	test_responses();
	test_two_responses();
	test_lines();
	test_base64();
	test_ids();
#endif
	return unit_done();
}
