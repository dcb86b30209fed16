/* SPDX-License-Identifier: MIT */
#include "keeper_socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"

/* Of the token: everybody on the host can read it. */
#define ID_LENGTH 8
/* How long a caller that connects and sends nothing keeps others waiting. */
#define QUERY_TIMEOUT_MS 1000
/* The pause after a caller could not be accepted, at a limit on descriptors. */
#define ACCEPT_PAUSE_MS 200

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

static void set_timeout(int fd, int64_t timeout_ms)
{
	const struct timeval limit = {
		clock_seconds(timeout_ms), (suseconds_t)(timeout_ms % 1000 * 1000)
	};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/*
 * A connection to the daemon of token, or -1: there is none; or, with errno EAGAIN, there is one
 * whose queue stays full, because it is stopped or hangs.
 */
static int connect_to_keeper(const char *token, int64_t timeout_ms)
{
	struct sockaddr_un address;
	const socklen_t length = make_address(token, &address);
	int failure = ENOENT, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	set_timeout(fd, timeout_ms);
	if (connect(fd, (const struct sockaddr *)&address, length))
		failure = errno;
	/* Somebody else's socket would be shown our token. */
	else if (is_trusted(fd))
		return fd;
	close(fd);
	errno = failure;
	return -1;
}

/* *fd becomes the connection; -1: there is none any more. */
static int ask(const struct keeper_query *query, struct keeper_reply *reply, int *fd,
	       int64_t timeout_ms, struct error *err)
{
	enum ipc_result result = IPC_LATER;

	*fd = connect_to_keeper(query->token, timeout_ms);
	if (*fd < 0 && errno != EAGAIN)
		return 1;
	if (*fd >= 0) {
		result = ipc_send(*fd, query, sizeof(*query), 0, -1);
		if (result == IPC_DONE)
			result = ipc_receive(*fd, reply, sizeof(*reply), 0, NULL);
	}
	if (result == IPC_DONE)
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	/* The daemon has just ended. The backend knows what it did. */
	if (result == IPC_GONE)
		return 1;
	if (result == IPC_FAILED && ipc_has_failed(err))
		return -1;
	return error_set(err, ERROR_UNAVAILABLE, 0,
			 "the keeper process of this lock does not answer");
}

int keeper_socket_ask(const struct keeper_query *query, struct keeper_reply *reply,
		      int64_t timeout_ms, struct error *err)
{
	int fd, asked = ask(query, reply, &fd, timeout_ms, err);

	if (fd >= 0)
		close(fd);
	return asked;
}

int keeper_socket_join(const struct keeper_query *query, struct keeper_reply *reply, int *share,
		       int64_t timeout_ms, struct error *err)
{
	int asked = ask(query, reply, share, timeout_ms, err);
	bool held;
	char shared;

	if (asked)
		return asked;
	held = reply->outcome == OUTCOME_HELD;
	if (held && recv(*share, &shared, 1, MSG_PEEK) == 1)
		return 0;
	close(*share);
	*share = -1;
	if (!held)
		return 0;
	return error_set(err, ERROR_INTERNAL, 0, "the keeper process of this lock cannot share it");
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

/* Accepts a caller, if there is one that is this user or root. */
static void meet(int listener, struct keeper_caller *caller)
{
	caller->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (caller->fd < 0) {
		if (errno != EAGAIN)
			caller->deaf_until_ms = clock_boot_ms() + ACCEPT_PAUSE_MS;
		return;
	}
	caller->until_ms = clock_boot_ms() + QUERY_TIMEOUT_MS;
	set_timeout(caller->fd, QUERY_TIMEOUT_MS);
	if (!is_trusted(caller->fd))
		keeper_socket_hang_up(caller);
}

int keeper_socket_hear(int listener, struct keeper_caller *caller, struct keeper_query *query)
{
	enum ipc_result received;
	int fd;

	if (caller->fd < 0)
		meet(listener, caller);
	fd = caller->fd;
	if (fd < 0)
		return -1;
	received = ipc_receive(fd, query, sizeof(*query), MSG_DONTWAIT, NULL);
	if (received == IPC_LATER ||
	    (received == IPC_FAILED && clock_boot_ms() < caller->until_ms))
		return -1;
	if (received != IPC_DONE) {
		keeper_socket_hang_up(caller);
		return -1;
	}
	query->token[TOKEN_SIZE - 1] = '\0';
	query->name[NAME_MAX_BYTES] = '\0';
	caller->fd = -1;
	return fd;
}

void keeper_socket_hang_up(struct keeper_caller *caller)
{
	close(caller->fd);
	caller->fd = -1;
}

void keeper_socket_answer(int fd, const struct keeper_reply *reply)
{
	/* After a failure the caller sees the end of file, and asks the backend. */
	ipc_send(fd, reply, sizeof(*reply), 0, -1);
	close(fd);
}

bool keeper_socket_answer_join(int fd, const struct keeper_reply *reply, int hold_fd)
{
	if (ipc_send(fd, reply, sizeof(*reply), 0, -1) == IPC_DONE &&
	    ipc_send(fd, "", 1, MSG_DONTWAIT, hold_fd) == IPC_DONE)
		return true;
	close(fd);
	return false;
}
