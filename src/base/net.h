/* SPDX-License-Identifier: MIT */
/*
 * Sockets with deadlines, in ms on CLOCK_BOOTTIME, for backends whose library has no deadlines.
 * When cancel_fd becomes readable, a wait ends with ERROR_CANCELLED. cancel_fd -1: the wait cannot
 * be cancelled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct error;

/*
 * Waits for events (POLLIN, POLLOUT) on fd. 0; or -1: ERROR_CANCELLED, ERROR_UNAVAILABLE
 * (ETIMEDOUT).
 */
int net_wait(int fd, short events, int64_t deadline_ms, int cancel_fd, struct error *err);

/*
 * Connects to host, trying its addresses in the order that the resolver gives. Returns a descriptor
 * that does not block, is close-on-exec, sends small packets at once and has net_keep_alive(); the
 * caller closes it. Otherwise -1 with ERROR_UNAVAILABLE or ERROR_CANCELLED. The deadline does not
 * bound the look-up of the name, for which the resolver has limits of its own.
 */
int net_connect(const char *host, uint16_t port, int64_t deadline_ms, int cancel_fd,
		struct error *err);

/*
 * Begins to connect to one address, without waiting. The descriptor is as from net_connect(), and
 * can be written to as soon as the connection is there. A write before that fails with EAGAIN, and
 * a write after a failed connection with the reason. -1 with *err.
 */
int net_connect_begin(const struct sockaddr *address, socklen_t length, struct error *err);

/* Sets *address to host, and *length to the address' size. False: host is not an IP address. */
bool net_literal(const char *host, uint16_t port, struct sockaddr_storage *address,
		 socklen_t *length);

/* An address that a host has, with a port. */
struct net_address {
	struct sockaddr_storage address;
	socklen_t length;
};

/* As many addresses of a host are used. */
#define NET_ADDRESSES 16

/*
 * Looks up the addresses of host, in the order in which they are to be tried. It asks the resolver,
 * which reads a handful of files, unless host is an IP address, or localhost, which is reserved for
 * this host (RFC 6761, 6.3) and has two. How many there are, or -1 with *err.
 */
int net_look_up(const char *host, uint16_t port, struct net_address found[static NET_ADDRESSES],
		struct error *err);

/* Does what is sent to host stay on this machine? NULL: a Unix socket. */
bool net_is_local(const char *host);

/*
 * Has the kernel ask the peer of a TCP connection for a sign of life after 15 s of silence, and
 * give up 15 s later: a connection to a host that has vanished breaks.
 */
void net_keep_alive(int fd);

/*
 * Call this before closing fd, if a request that was sent over it must not be carried out after
 * those that are sent over the next connection. What the peer has not acknowledged is dropped;
 * otherwise the kernel would send it again for a minute or two, until the network works.
 */
void net_forget_unsent(int fd);
