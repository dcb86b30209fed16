/* SPDX-License-Identifier: MIT */
#include "keeper_socket.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ipc.h"
#include "base/private_dir.h"

#define ID_LENGTH 16
#define PREFIX "keeper-"
/*
 * The name of a socket ends with this until its process listens. Before that, the socket refuses
 * connections like that of a dead process, so its age tells: listening begins in far less time.
 */
#define NEW_SUFFIX ".new"
#define NEW_SECONDS 60
/* How long a caller that connects and sends nothing keeps others waiting. */
#define QUERY_TIMEOUT_MS 1000
/* The pause after a caller could not be accepted, at a limit on descriptors. */
#define ACCEPT_PAUSE_MS 200

/*
 * The directories to use, the best one first; NULL behind the last. Another user can take any of
 * them but root's first one. In a container with a root that cannot be written the last one may be
 * the only one, and is not the best since systemd may empty it when the user logs out.
 */
static const char *directory(int candidate)
{
	static char path[32];
	const int place = candidate + (geteuid() != 0);

	if (place == 0)
		return "/run/dlock";
	if (place > 2)
		return NULL;
	snprintf(path, sizeof(path), "%s/dlock-%u", place == 1 ? "/tmp" : "/dev/shm",
		 (unsigned)geteuid());
	return path;
}

static void make_path(const char *directory, const char *token,
		      char path[static KEEPER_SOCKET_PATH_SIZE])
{
	snprintf(path, KEEPER_SOCKET_PATH_SIZE, "%s/" PREFIX "%.*s", directory, ID_LENGTH,
		 token);
}

static void set_timeout(int fd, int64_t timeout_ms)
{
	const struct timeval limit = {
		clock_seconds(timeout_ms), (suseconds_t)(timeout_ms % 1000 * 1000)
	};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* timeout_ms 0: no waiting for a keeper that hangs, whose queue is full (EAGAIN). */
static int connect_to(const char *path, int64_t timeout_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int failure, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
			(timeout_ms ? 0 : SOCK_NONBLOCK), 0);

	if (fd < 0)
		return -1;
	if (timeout_ms)
		set_timeout(fd, timeout_ms);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	failure = errno;
	close(fd);
	errno = failure;
	return -1;
}

/*
 * A connection to the daemon of token, or -1: there is none, and what a dead one left is gone; or,
 * with errno EAGAIN, there is one whose queue stays full, for it is stopped or hangs.
 */
static int connect_to_keeper(const char *token, int64_t timeout_ms)
{
	char path[KEEPER_SOCKET_PATH_SIZE];
	struct error ignored;
	const char *place;
	struct stat info;
	int fd;

	for (int candidate = 0; (place = directory(candidate)); candidate++) {
		make_path(place, token, path);
		/* Somebody else's socket would be shown our token. */
		if (lstat(path, &info) || !S_ISSOCK(info.st_mode) ||
		    (info.st_uid != geteuid() && info.st_uid != 0) ||
		    private_dir_make(place, &ignored))
			continue;
		fd = connect_to(path, timeout_ms);
		if (fd >= 0)
			return fd;
		if (errno == EAGAIN)
			return -1;
		if (errno == ECONNREFUSED)
			unlink(path);
	}
	errno = ENOENT;
	return -1;
}

/* *passed gets a descriptor that comes with the reply. NULL: none is expected. */
static int ask(const struct keeper_query *query, struct keeper_reply *reply, int *passed,
	       int64_t timeout_ms, struct error *err)
{
	enum ipc_result result = IPC_LATER;
	int fd = connect_to_keeper(query->token, timeout_ms);

	if (fd < 0 && errno != EAGAIN)
		return 1;
	if (fd >= 0) {
		result = ipc_send(fd, query, sizeof(*query), 0, -1);
		if (result == IPC_DONE)
			result = ipc_receive(fd, reply, sizeof(*reply), 0, passed);
		close(fd);
	}
	if (result == IPC_DONE)
		return 0;
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
	return ask(query, reply, NULL, timeout_ms, err);
}

int keeper_socket_join(const struct keeper_query *query, struct keeper_reply *reply, int *share,
		       int *alive, int64_t timeout_ms, struct error *err)
{
	int asked;
	char none;

	*share = *alive = -1;
	asked = ask(query, reply, share, timeout_ms, err);
	/* The first message is for us, the others stay unread. */
	if (*share >= 0)
		ipc_receive(*share, &none, sizeof(none), MSG_DONTWAIT, alive);
	return asked;
}

/*
 * Is path a socket of which a process has listened? If it was made a moment ago, its process is
 * probably about to listen. Lock files may be in this directory, too, and have any name.
 */
static bool is_old_socket(const char *path)
{
	const size_t length = strlen(path), suffix = strlen(NEW_SUFFIX);
	struct stat info;

	if (lstat(path, &info) || !S_ISSOCK(info.st_mode))
		return false;
	return length <= suffix || strcmp(path + length - suffix, NEW_SUFFIX) != 0 ||
	       clock_wall_ms() / 1000 - info.st_ctime >= NEW_SECONDS;
}

static void remove_stale(const char *directory)
{
	DIR *entries = opendir(directory);
	char path[KEEPER_SOCKET_PATH_SIZE];
	const struct dirent *entry;
	int fd;

	if (!entries)
		return;
	while ((entry = readdir(entries))) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%.60s", directory, entry->d_name);
		if (!is_old_socket(path))
			continue;
		fd = connect_to(path, 0);
		if (fd >= 0)
			close(fd);
		else if (errno == ECONNREFUSED)
			unlink(path);
	}
	closedir(entries);
}

/* The listening descriptor, or -1 with *err. */
static int listen_at(const char *path, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask = umask(077);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s" NEW_SUFFIX, path);
	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&address, sizeof(address)) &&
	    !listen(fd, 16) && !rename(address.sun_path, path)) {
		umask(mask);
		return fd;
	}
	error_set(err, ERROR_INTERNAL, errno, "cannot listen at %s", path);
	umask(mask);
	if (fd >= 0)
		close(fd);
	return -1;
}

int keeper_socket_listen(const char *token, char path[static KEEPER_SOCKET_PATH_SIZE],
			 struct error *err)
{
	struct error failure;
	const char *place;
	int fd;

	for (int candidate = 0; (place = directory(candidate)); candidate++) {
		if (!private_dir_make(place, &failure)) {
			remove_stale(place);
			make_path(place, token, path);
			fd = listen_at(path, &failure);
			if (fd >= 0)
				return fd;
		}
		/* The error is that of the first directory, which is the one to repair. */
		if (!candidate)
			*err = failure;
	}
	return -1;
}

/* Accepts a caller, if there is one that is this user or root. */
static void meet(int listener, struct keeper_caller *caller)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	caller->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (caller->fd < 0) {
		if (errno != EAGAIN)
			caller->deaf_until_ms = clock_boot_ms() + ACCEPT_PAUSE_MS;
		return;
	}
	caller->until_ms = clock_boot_ms() + QUERY_TIMEOUT_MS;
	set_timeout(caller->fd, QUERY_TIMEOUT_MS);
	if (getsockopt(caller->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
	    (peer.uid != geteuid() && peer.uid != 0))
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

/* A socket whose unread messages carry these descriptors, the first one in front; or -1. */
static int pack(int first, const int descriptors[], size_t count)
{
	int ends[2];
	bool packed;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	packed = ipc_send(ends[0], "", 1, MSG_DONTWAIT, first) == IPC_DONE;
	for (size_t i = 0; packed && i < count; i++)
		if (descriptors[i] >= 0)
			packed = ipc_send(ends[0], "", 1, MSG_DONTWAIT, descriptors[i]) == IPC_DONE;
	close(ends[0]);
	if (packed)
		return ends[1];
	close(ends[1]);
	return -1;
}

void keeper_socket_answer_join(int fd, struct keeper_reply *reply, int alive,
			       const int descriptors[], size_t count)
{
	const int share = pack(alive, descriptors, count);

	if (share < 0 || ipc_send(fd, reply, sizeof(*reply), 0, share) == IPC_FAILED) {
		reply->outcome = OUTCOME_ERROR;
		error_set(&reply->error, ERROR_INTERNAL, errno, "the keeper process of this lock "
			  "cannot share it");
		ipc_send(fd, reply, sizeof(*reply), 0, -1);
	}
	close(fd);
	if (share >= 0)
		close(share);
}
