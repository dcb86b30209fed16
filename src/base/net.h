/* SPDX-License-Identifier: MIT */
/*
 * Sockets with deadlines, for backends whose library leaves those to us. All
 * deadlines are CLOCK_BOOTTIME ms. cancel_fd: when it becomes readable, the wait
 * ends with ERROR_CANCELLED; -1: never.
 */
#ifndef DLOCK_NET_H
#define DLOCK_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct error;

/*
 * Waits for events (POLLIN, POLLOUT) on fd. 0; -1: ERROR_CANCELLED, or
 * ERROR_UNAVAILABLE (ETIMEDOUT).
 */
int net_wait(int fd, short events, int64_t deadline_ms, int cancel_fd, struct error *err);

/*
 * Connects to host, trying its addresses in the resolver's order. Returns a
 * non-blocking descriptor, close-on-exec, without Nagle's delay, with keep-alive
 * after 15 s; the caller closes it. Else -1 with ERROR_UNAVAILABLE or
 * ERROR_CANCELLED. Only the resolver's own limits bound the name look-up.
 */
int net_connect(const char *host, uint16_t port, int64_t deadline_ms, int cancel_fd,
		struct error *err);

/* Sets *address to host, *length to its size, if host is an IP address; else false. */
bool net_literal(const char *host, uint16_t port, struct sockaddr_storage *address,
		 socklen_t *length);

/* Is host a name that must be looked up: no IP address, and not localhost? */
bool net_needs_resolver(const char *host);

/* The same for a Unix socket. */
int net_connect_unix(const char *path, int64_t deadline_ms, int cancel_fd,
		     struct error *err);

#endif
