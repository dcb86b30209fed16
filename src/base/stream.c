/* SPDX-License-Identifier: MIT */
/* A connection that never blocks, in clear text or with TLS: stream.h. */
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"
#include "net.h"

/* The module for TLS, once a connection has needed it. */
static const struct tls_module *tls;

void stream_begin(struct stream *stream, int fd, const struct tls_params *params, const char *host)
{
	*stream = (struct stream){ .fd = fd, .tls = params, .host = host };
}

/* Is fd connected? Returns 1, 0 to poll for POLLOUT, or -1 and sets *err. */
static int probe_connection(struct stream *stream, struct error *err)
{
	stream->wanted = POLLOUT;
	/* Nothing is sent, and the result is that of any write. */
	if (!send(stream->fd, "", 0, MSG_NOSIGNAL))
		return 1;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, errno, "cannot connect");
}

/* Continue the handshake. Returns 1 when it is over, 0 to wait, or -1 and sets *err. */
static int continue_handshake(struct stream *stream, struct error *err)
{
	if (!stream->session)
		stream->session = tls->open(stream->fd, stream->tls, stream->host, err);
	return stream->session ? tls->handshake(stream->session, &stream->wanted, err) : -1;
}

int stream_reach(struct stream *stream, struct error *err)
{
	int state = 1;

	if (stream->reached)
		return 1;
	/* Before there is a connection, so that a missing module is named for any server. */
	if (stream->tls && !tls)
		tls = module_load("tls", err);
	if (stream->tls && !tls)
		return -1;
	if (!stream->session)
		state = probe_connection(stream, err);
	if (state > 0 && stream->tls)
		state = continue_handshake(stream, err);
	stream->reached = state > 0;
	return state;
}

/* Translate the result of recv() or send(): bytes, 0 to wait for events, or -1 and sets *err. */
static ssize_t classify_io(struct stream *stream, ssize_t result, short events, struct error *err)
{
	if (result > 0)
		return result;
	stream->wanted = events;
	if (result < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (result == 0)
		return error_set(err, ERROR_UNAVAILABLE, 0, "closed the connection");
	return error_set(err, ERROR_UNAVAILABLE, errno, "the connection broke");
}

ssize_t stream_read(struct stream *stream, void *data, size_t size, struct error *err)
{
	if (stream->tls)
		return tls->read(stream->session, data, size, &stream->wanted, err);
	return classify_io(stream, recv(stream->fd, data, size, 0), POLLIN, err);
}

ssize_t stream_write(struct stream *stream, const void *data, size_t size, struct error *err)
{
	if (stream->tls)
		return tls->write(stream->session, data, size, &stream->wanted, err);
	return classify_io(stream, send(stream->fd, data, size, MSG_NOSIGNAL), POLLOUT, err);
}

void stream_close(struct stream *stream)
{
	if (stream->fd < 0)
		return;
	net_drop_unsent(stream->fd);
	if (stream->session)
		tls->close(stream->session);
	close(stream->fd);
	*stream = (struct stream)STREAM_CLOSED;
}
