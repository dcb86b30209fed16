/* SPDX-License-Identifier: MIT */
/* Messages between dlock's processes, over SOCK_SEQPACKET pairs. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends one message as send(), with a copy of passed_fd unless that is -1. The caller keeps its own
 * descriptor.
 */
ssize_t ipc_send(int fd, const void *message, size_t size, int flags, int passed_fd);

/*
 * Receives one message as recv(). *passed_fd becomes the descriptor that came with the message,
 * close-on-exec, which the caller closes; without one *passed_fd does not change. passed_fd may be
 * NULL. When the peer ends before it has read everything, the kernel reports ECONNRESET once before
 * the peer's last messages: they are received all the same.
 */
ssize_t ipc_receive(int fd, void *message, size_t size, int flags, int *passed_fd);
