/* SPDX-License-Identifier: MIT */
/*
 * A client's connection of HTTP/1.1 that never blocks, over base/stream.h. A library parses the
 * responses: llhttp, or http_parser where there is no llhttp. Their bodies have a bound.
 *
 *	struct http_conn conn = HTTP_CLOSED;
 *
 *	http_begin()		takes a descriptor that is connected, or is connecting
 *	http_post()		a request, after the response to the one before
 *	http_call()		until the response is complete; or
 *	http_step()		at once, and then when the stream is ready for what it wants
 *	http_take_line()	of a response that need not end
 *	http_close()
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#ifdef WITH_LLHTTP
#include <llhttp.h>
#define HTTP_LIBRARY "llhttp"
typedef llhttp_t http_parser_state;
typedef llhttp_settings_t http_parser_settings;
#define http_should_keep_alive llhttp_should_keep_alive
#else
#include <http_parser.h>
#define HTTP_LIBRARY "http_parser"
typedef struct http_parser http_parser_state;
#endif

#include "base/stream.h"

struct http_conn {
	struct stream stream;
	http_parser_state parser;
	char *unsent; /* the rest of the request; NULL: it was sent */
	size_t unsent_length;
	char *body; /* as far as received, with a NUL; NULL: nothing yet */
	size_t length, taken; /* of it, and of the lines that were taken */
	size_t most; /* the bound of the bytes of body that are not taken */
	size_t received; /* bytes since the request, or the last line */
	bool answered; /* the server has sent a byte of this response */
	bool complete; /* no response is missing */
	bool reusable; /* no response has ended the connection */
	bool too_large;
};

#define HTTP_CLOSED                     \
	{                               \
		.stream = STREAM_CLOSED \
	}

/* Begin with fd, which the connection owns from then on. tls, host: as stream_begin(). */
void http_begin(struct http_conn *conn, int fd, const struct tls_params *tls, const char *host);
bool http_is_open(const struct http_conn *conn);
/* Close, and free the body. Accepts a closed one. */
void http_close(struct http_conn *conn);

/*
 * Prepare a request with a body of JSON. authority: "HOST:PORT"; authorization: the value of that
 * header field, or NULL; most: the bound of the response's body in bytes.
 */
void http_post(struct http_conn *conn, const char *authority, const char *path,
	       const char *authorization, const char *json, size_t most);

/*
 * Send and receive as much as possible. Returns 1 when the response is complete, 0 to poll the
 * stream first, or -1 and sets *err without the name of the server; the caller then closes.
 */
int http_step(struct http_conn *conn, struct error *err);

/*
 * http_step() until the response is complete. The wait ends at deadline_ms (CLOCK_BOOTTIME), or
 * with ERROR_CANCELLED when cancel_fd is readable. Returns 0, or -1 and sets *err as http_step().
 */
int http_call(struct http_conn *conn, int64_t deadline_ms, int cancel_fd, struct error *err);

/* The status of the response, as 200. */
int http_status(const struct http_conn *conn);

/* Take the next complete line of the body. It lives until the next step. NULL: there is none. */
char *http_take_line(struct http_conn *conn);
