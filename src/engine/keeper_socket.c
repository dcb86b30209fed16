/* SPDX-License-Identifier: MIT */
/* The socket of the daemon, and the connections to it. */
#include "keeper_socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"

/* Digits of the token in the address, which every user of the host can read. */
#define ID_LENGTH 8
/* The pause after a caller could not be accepted, at a limit on descriptors. */
#define ACCEPT_PAUSE_NS 50000000

/* The abstract address begins with a NUL, and its length counts. */
static socklen_t make_address(const char *token, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
					    "dlock-keeper-%.*s", ID_LENGTH, token));
}

/* Is the process at the other end this user's or root's? */
static bool is_trusted(int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/*
 * Connect to the daemon of token. Returns the connection, or -1: there is no daemon, or with EAGAIN
 * its queue stays full, because it is stopped or hangs.
 */
static int connect_to_keeper(const char *token, int64_t timeout_ms)
{
	struct sockaddr_un address;
	const socklen_t length = make_address(token, &address);
	const struct timeval limit = {
		clock_seconds(timeout_ms), (suseconds_t)(timeout_ms % 1000 * 1000)
	};
	int failure = ENOENT, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&address, length))
		failure = errno;
	/* Another user's socket must not get our token. */
	else if (is_trusted(fd))
		return fd;
	close(fd);
	errno = failure;
	return -1;
}

int keeper_socket_ask(enum keeper_verb verb, const struct request *request, uint64_t backend,
		      struct keeper_reply *reply, int *share, int64_t timeout_ms,
		      struct error *err)
{
	struct keeper_query query = { .verb = verb, .backend = backend, .ttl_ms = request->ttl_ms,
				      .mode = request->mode, .slots = request->slots };
	const int fd = connect_to_keeper(request->token, timeout_ms);
	enum ipc_result result = IPC_LATER;
	int errnum;

	if (fd < 0 && errno != EAGAIN)
		return 1;
	memcpy(query.token, request->token, TOKEN_SIZE);
	strncpy(query.name, request->name, NAME_MAX_BYTES);
	if (fd >= 0)
		result = ipc_send(fd, &query, sizeof(query), 0, -1);
	if (result == IPC_DONE)
		result = ipc_receive(fd, reply, sizeof(*reply), share ? MSG_PEEK : 0, NULL);
	errnum = errno;
	if (result == IPC_DONE && share && reply->outcome == OUTCOME_HELD)
		*share = fd;
	else if (fd >= 0)
		close(fd);
	if (result == IPC_FAILED)
		return error_set(err, ERROR_INTERNAL, errnum,
				 "cannot ask the keeper process of this lock");
	/* A daemon that has just ended: ask the backend. */
	if (result != IPC_LATER)
		return result == IPC_GONE;
	return error_set(err, ERROR_UNAVAILABLE, 0,
			 "the keeper process of this lock does not answer");
}

int keeper_socket_listen(const char *token, struct error *err)
{
	struct sockaddr_un address;
	const socklen_t length = make_address(token, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&address, length) && !listen(fd, 16))
		return fd;
	error_set(err, ERROR_INTERNAL, errno, "cannot listen at a socket");
	if (fd >= 0)
		close(fd);
	return -1;
}

int keeper_socket_accept(int listener)
{
	static const struct timespec pause = { .tv_nsec = ACCEPT_PAUSE_NS };
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 && errno != EAGAIN)
		nanosleep(&pause, NULL);
	if (fd < 0 || is_trusted(fd))
		return fd;
	close(fd);
	return -1;
}
