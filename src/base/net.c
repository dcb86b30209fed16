/* SPDX-License-Identifier: MIT */
/* Resolves names, connects, and waits for sockets, always with a deadline. */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "module.h"

int net_wait(int fd, short events, int64_t deadline_ms, int cancel_fd, struct error *err)
{
	struct pollfd fds[] = {
		{ .fd = fd, .events = events },
		{ .fd = cancel_fd, .events = POLLIN },
	};

	for (;;) {
		int ready = poll(fds, 2, clock_poll_timeout(deadline_ms));

		if (ready > 0 && fds[1].revents)
			return error_set(err, ERROR_CANCELLED, 0, "cancelled");
		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return error_set(err, ERROR_INTERNAL, errno, "poll");
		if (clock_boot_ms() >= deadline_ms)
			return error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "no answer");
	}
}

void net_keep_alive(int fd)
{
	static const int on = 1, idle = 15, interval = 5, count = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

int net_connect_begin(const struct sockaddr *address, socklen_t length, struct error *err)
{
	static const int on = 1;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error_set(err, ERROR_INTERNAL, errno, "socket");
	if (address->sa_family != AF_UNIX) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		net_keep_alive(fd);
	}
	/* EAGAIN, a full backlog of a Unix socket, is an error: poll() does not wait for room. */
	if (!connect(fd, address, length) || errno == EINPROGRESS)
		return fd;
	/* This user may not use the socket. */
	error_set(err, errno == EACCES && address->sa_family == AF_UNIX ? ERROR_REFUSED
									: ERROR_UNAVAILABLE,
		  errno, "cannot connect");
	close(fd);
	return -1;
}

/* Connect to one address. Returns the descriptor, or -1 with *err. */
static int connect_address(const struct sockaddr *address, socklen_t length, int64_t deadline_ms,
			   int cancel_fd, struct error *err)
{
	int fd = net_connect_begin(address, length, err);
	int failure = 0;
	socklen_t size = sizeof(failure);

	if (fd < 0)
		return -1;
	if (net_wait(fd, POLLOUT, deadline_ms, cancel_fd, err)) {
		if (err->kind == ERROR_UNAVAILABLE)
			error_set(err, ERROR_UNAVAILABLE, ETIMEDOUT, "cannot connect");
	} else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) || failure) {
		error_set(err, ERROR_UNAVAILABLE, failure ? failure : errno, "cannot connect");
	} else {
		return fd;
	}
	close(fd);
	return -1;
}

bool net_literal(const char *host, uint16_t port, struct sockaddr_storage *address,
		 socklen_t *length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	*address = (struct sockaddr_storage){ .ss_family = AF_INET };
	*length = sizeof(*v4);
	v4->sin_port = htons(port);
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
		return true;
	*address = (struct sockaddr_storage){ .ss_family = AF_INET6 };
	*length = sizeof(*v6);
	v6->sin6_port = htons(port);
	return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

static bool is_localhost(const char *host)
{
	return !strcasecmp(host, "localhost");
}

bool net_is_local(const char *host)
{
	return !host || is_localhost(host) || !strcmp(host, "::1") || !strncmp(host, "127.", 4);
}

int net_resolve(const char *host, uint16_t port, struct net_address found[static NET_ADDRESSES],
		struct error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG };
	struct addrinfo *list;
	char service[8];
	int failure, count = 0;

	if (net_literal(host, port, &found[0].address, &found[0].length))
		return 1;
	if (is_localhost(host)) {
		net_literal("127.0.0.1", port, &found[0].address, &found[0].length);
		net_literal("::1", port, &found[1].address, &found[1].length);
		return 2;
	}
	snprintf(service, sizeof(service), "%u", (unsigned)port);
	failure = getaddrinfo(host, service, &hints, &list);
	if (failure)
		return error_set(err, ERROR_UNAVAILABLE, 0, "cannot resolve: %s%s",
				 gai_strerror(failure), module_names);
	for (const struct addrinfo *a = list; a && count < NET_ADDRESSES; a = a->ai_next) {
		memcpy(&found[count].address, a->ai_addr, a->ai_addrlen);
		found[count++].length = a->ai_addrlen;
	}
	freeaddrinfo(list);
	return count;
}

int net_connect(const char *host, uint16_t port, int64_t deadline_ms, int cancel_fd,
		struct error *err)
{
	struct net_address found[NET_ADDRESSES];
	const int count = net_resolve(host, port, found, err);
	const bool local = is_localhost(host);
	struct error one = { 0 };
	int64_t limit_ms;
	int fd = -1;

	for (int i = 0; i < count && fd < 0 && one.kind != ERROR_CANCELLED; i++) {
		/* An address that does not answer must leave time for the others. */
		limit_ms = clock_boot_ms() +
			   (deadline_ms - clock_boot_ms()) / (local ? 1 : count - i);
		fd = connect_address((const struct sockaddr *)&found[i].address, found[i].length,
				     limit_ms, cancel_fd, &one);
		/* The second address fails on a host without IPv6: keep the first error. */
		if (fd < 0 && (i == 0 || !local || one.kind == ERROR_CANCELLED))
			*err = one;
	}
	return fd;
}

void net_drop_unsent(int fd)
{
	static const struct linger at_once = { .l_onoff = 1 };
	int unsent = 0;

	if (!ioctl(fd, SIOCOUTQ, &unsent) && unsent > 0)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}
