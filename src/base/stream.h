/* SPDX-License-Identifier: MIT */
/*
 * A connection over TCP or a Unix socket that never blocks, in clear text or with TLS (tls.h). The
 * caller polls, so each wait has a deadline. The functions that can fail set *err without the name
 * of the server, which the caller adds.
 *
 *	struct stream stream = STREAM_CLOSED;
 *
 *	stream_begin()		takes a descriptor that is connected, or is connecting
 *	stream_reach()		at once, and then when fd is ready, until it returns 1
 *	stream_read(), stream_write()
 *	stream_close()
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "tls.h"

struct stream {
	int fd; /* -1: closed */
	const struct tls_params *tls; /* the caller owns it, and host; NULL: clear text */
	const char *host; /* the name or address that the URI has */
	struct tls_session *session; /* NULL: none yet */
	bool reached; /* connected, and the handshake is over */
	short wanted; /* what to poll fd for before the next call */
};

#define STREAM_CLOSED    \
	{                \
		.fd = -1 \
	}

/* Begin with fd, which the stream owns from then on. No I/O. */
void stream_begin(struct stream *stream, int fd, const struct tls_params *tls, const char *host);

/*
 * Continue connecting and the handshake. Returns 1 when both are over, 0 to poll first, or -1 and
 * sets *err. The first connection with TLS loads the module.
 */
int stream_reach(struct stream *stream, struct error *err);

/*
 * Transfer bytes. Return their number, 0 to poll first, or -1 and set *err. With errnum 0 the
 * server has closed the connection.
 */
ssize_t stream_read(struct stream *stream, void *data, size_t size, struct error *err);
ssize_t stream_write(struct stream *stream, const void *data, size_t size, struct error *err);

/* Close, and drop what the server has not acknowledged (net.h). Accepts a closed one. */
void stream_close(struct stream *stream);
