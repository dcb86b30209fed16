/* SPDX-License-Identifier: MIT */
/*
 * Sockets with deadlines, in ms on CLOCK_BOOTTIME, for backends whose library has none. A wait ends
 * with ERROR_CANCELLED when cancel_fd becomes readable. cancel_fd -1: the wait cannot be cancelled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct error;

/*
 * Wait for events (POLLIN, POLLOUT) on fd. Returns 0, or -1 with ERROR_CANCELLED or
 * ERROR_UNAVAILABLE (ETIMEDOUT).
 */
int net_wait(int fd, short events, int64_t deadline_ms, int cancel_fd, struct error *err);

/*
 * Connect to host, trying its addresses in the order of the resolver. Returns a descriptor that
 * does not block, is close-on-exec, sends small packets at once and has net_keep_alive(); the
 * caller closes it. Otherwise -1 with ERROR_UNAVAILABLE or ERROR_CANCELLED. The deadline does not
 * bound the resolver, which has its own limits.
 */
int net_connect(const char *host, uint16_t port, int64_t deadline_ms, int cancel_fd,
		struct error *err);

/*
 * Begin to connect to one address, without waiting. Returns a descriptor as net_connect() does, or
 * -1 with *err. A write fails with EAGAIN until the connection is established, and with the reason
 * if it cannot be.
 */
int net_connect_begin(const struct sockaddr *address, socklen_t length, struct error *err);

/* Set *address to host, and *length to the address' size. False: host is not an IP address. */
bool net_literal(const char *host, uint16_t port, struct sockaddr_storage *address,
		 socklen_t *length);

/* An address that a host has, with a port. */
struct net_address {
	struct sockaddr_storage address;
	socklen_t length;
};

/* The most addresses of a host that are used. */
#define NET_ADDRESSES 16

/*
 * Resolve host into its addresses, in the order in which they are to be tried. An IP address needs
 * no resolver, which reads a handful of files, and localhost neither: it has two addresses (RFC
 * 6761, 6.3). Returns their number, or -1 with *err.
 */
int net_resolve(const char *host, uint16_t port, struct net_address found[static NET_ADDRESSES],
		struct error *err);

/* Is host this machine? NULL: a Unix socket. */
bool net_is_local(const char *host);

/*
 * Let the kernel probe the peer of a TCP connection after 15 s of silence, and give up 15 s later,
 * so that a connection to a vanished host breaks.
 */
void net_keep_alive(int fd);

/*
 * Drop the bytes that the peer has not acknowledged, before fd is closed. Otherwise the kernel
 * would retransmit them for a minute or two, and the server could execute an old request after
 * those of the next connection.
 */
void net_drop_unsent(int fd);
