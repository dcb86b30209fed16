/* SPDX-License-Identifier: MIT */
/* A client's connection of HTTP/1.1: http.h. */
#include "http.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"

/* Room for the header of a response, beside its body and the header of each chunk. */
#define MOST_HEADER 65536

/* ---- the parser ---- */

static int take_body(http_parser_state *parser, const char *data, size_t length)
{
	struct http_conn *conn = parser->data;

	conn->too_large = length > conn->most - (conn->length - conn->taken);
	if (conn->too_large)
		return -1;
	memmove(conn->body, conn->body + conn->taken, conn->length - conn->taken);
	conn->length -= conn->taken;
	conn->taken = 0;
	conn->body = memory_resize(conn->body, conn->length + length + 1, 1);
	memcpy(conn->body + conn->length, data, length);
	conn->length += length;
	conn->body[conn->length] = '\0';
	return 0;
}

/* A byte behind the response answers nothing. */
static int take_begin(http_parser_state *parser)
{
	const struct http_conn *conn = parser->data;

	return conn->complete ? -1 : 0;
}

static int take_end(http_parser_state *parser)
{
	struct http_conn *conn = parser->data;

	conn->complete = true;
	conn->reusable = http_should_keep_alive(parser);
	return 0;
}

static const http_parser_settings settings = { .on_message_begin = take_begin,
					       .on_body = take_body,
					       .on_message_complete = take_end };

/* Returns whether the response is valid so far. length 0: the server has closed. */
static bool parse_bytes(struct http_conn *conn, const char *data, size_t length)
{
#ifdef WITH_LLHTTP
	const bool valid = !(length ? llhttp_execute(&conn->parser, data, length)
				    : llhttp_finish(&conn->parser));
#else
	const bool valid = http_parser_execute(&conn->parser, &settings, data, length) == length;
#endif

	conn->reusable &= valid;
	return conn->complete || valid;
}

int http_status(const struct http_conn *conn)
{
	return (int)conn->parser.status_code;
}

/* ---- the connection ---- */

void http_begin(struct http_conn *conn, int fd, const struct tls_params *tls, const char *host)
{
	*conn = (struct http_conn){ .complete = true, .reusable = true };
	stream_begin(&conn->stream, fd, tls, host);
}

bool http_is_open(const struct http_conn *conn)
{
	return conn->stream.fd >= 0;
}

void http_close(struct http_conn *conn)
{
	stream_close(&conn->stream);
	memory_free_secret(conn->unsent);
	free(conn->body);
	*conn = (struct http_conn)HTTP_CLOSED;
}

void http_post(struct http_conn *conn, const char *authority, const char *path,
	       const char *authorization, const char *json, size_t most)
{
	conn->unsent = memory_format("POST %s HTTP/1.1\r\nHost: %s\r\n%s%s%s"
				     "Content-Type: application/json\r\nContent-Length: %zu\r\n"
				     "\r\n%s",
				     path, authority, authorization ? "Authorization: " : "",
				     authorization ? authorization : "",
				     authorization ? "\r\n" : "", strlen(json), json);
	conn->unsent_length = strlen(conn->unsent);
	free(conn->body);
	conn->body = memory_new(1, 1);
	conn->length = conn->taken = conn->received = 0;
	conn->most = most;
	conn->answered = conn->complete = conn->too_large = false;
	conn->reusable = true;
#ifdef WITH_LLHTTP
	llhttp_init(&conn->parser, HTTP_RESPONSE, &settings);
#else
	http_parser_init(&conn->parser, HTTP_RESPONSE);
#endif
	conn->parser.data = conn;
}

/* Returns 1 when the request was sent, 0 to poll first, or -1 and sets *err. */
static int flush_request(struct http_conn *conn, struct error *err)
{
	ssize_t sent;

	while (conn->unsent_length) {
		sent = stream_write(&conn->stream, conn->unsent, conn->unsent_length, err);
		if (sent <= 0)
			return (int)sent;
		conn->unsent_length -= (size_t)sent;
		memmove(conn->unsent, conn->unsent + sent, conn->unsent_length + 1);
	}
	memory_free_secret(conn->unsent);
	conn->unsent = NULL;
	return 1;
}

/* Read once. Returns 1 after input, 0 to poll first, or -1 and sets *err. */
static int read_response(struct http_conn *conn, struct error *err)
{
	/* On the stack, a waiter would keep all these pages for a few bytes. */
	static char data[16384];
	const ssize_t length = stream_read(&conn->stream, data, sizeof(data), err);

	/* A body without a length ends with the connection. */
	if (length < 0 && !err->errnum && conn->answered && parse_bytes(conn, data, 0) &&
	    conn->complete)
		return 1;
	if (length <= 0)
		return (int)length;
	conn->answered = true;
	conn->received += (size_t)length;
	conn->too_large = conn->received > 2 * conn->most + MOST_HEADER;
	if (!conn->too_large && parse_bytes(conn, data, (size_t)length))
		return 1;
	if (conn->too_large)
		return error_set(err, ERROR_UNAVAILABLE, 0, "sends a reply that is too large");
	return error_set(err, ERROR_REFUSED, 0, "does not speak HTTP");
}

int http_step(struct http_conn *conn, struct error *err)
{
	int state = stream_reach(&conn->stream, err);

	if (state > 0)
		state = flush_request(conn, err);
	/* Until there is nothing more: poll() does not see input that TLS has buffered. */
	while (state > 0 && !conn->complete)
		state = read_response(conn, err);
	return state;
}

int http_call(struct http_conn *conn, int64_t deadline_ms, int cancel_fd, struct error *err)
{
	int state;

	while (!(state = http_step(conn, err)))
		if (net_wait(conn->stream.fd, conn->stream.wanted, deadline_ms, cancel_fd, err))
			return -1;
	return state < 0 ? -1 : 0;
}

char *http_take_line(struct http_conn *conn)
{
	char *line = conn->body + conn->taken,
	     *end = memchr(line, '\n', conn->length - conn->taken);

	if (!end)
		return NULL;
	*end = '\0';
	conn->taken = (size_t)(end + 1 - conn->body);
	conn->received = 0;
	return line;
}
