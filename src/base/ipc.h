/* SPDX-License-Identifier: MIT */
/* Messages between dlock's processes, over SOCK_SEQPACKET pairs. */
#ifndef DLOCK_IPC_H
#define DLOCK_IPC_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends one message, and a copy of passed_fd with it unless that is -1; else as send(). The
 * caller keeps its own descriptor.
 */
ssize_t ipc_send(int fd, const void *message, size_t size, int flags, int passed_fd);

/*
 * Receives one message with flags, as recv(). A descriptor that came with it goes to
 * *passed_fd, close-on-exec and the caller's to close; else that stays as it is. NULL: none
 * is expected. A peer that ends without having read all that it was sent makes the kernel
 * report that first (ECONNRESET), before what it has said itself: its last words are not
 * lost over it.
 */
ssize_t ipc_receive(int fd, void *message, size_t size, int flags, int *passed_fd);

#endif
